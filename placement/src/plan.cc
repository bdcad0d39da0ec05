#include "muster/placement/plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "admission.h"
#include "audit.h"
#include "line.h"
#include "muster/placement/cluster.h"
#include "place.h"
#include "reasons.h"
#include "state.h"
#include "statement.h"

namespace muster::placement {
namespace {

class Planner {
 public:
  Planner(State& state, Time now) : s_(state), now_(now) {}

  Plan run() {
    s_.settle();
    mend();
    // Starts change ranks, and leave the lines of other pools: positions are counted when they are all made.
    // Nothing more can start then, so the second round is the last.
    while (serve()) {
      const bool settled = started_.empty();
      for (const JobId id : std::exchange(started_, {})) s_.leave_lines(id);
      if (!settled) continue;
      for (Line& line : lines_) judge(line);
      for (Line& line : lines_) s_.pool(line.pool()).judged = s_.pool(line.pool()).version;
    }
    judge_sidelined();
    return std::move(plan_);
  }

 private:
  // --- what is admitted already

  void mend() {
    for (const auto& [node, gpu] : std::set(s_.crowded)) {
      const auto holders = s_.by_admission(node, gpu);
      for (std::size_t i = 1; i < holders.size(); ++i) {
        evict(holders[i], "GPU " + std::to_string(gpu) + " of node " + s_.node(node).spec.name +
                              " is held by the older admission of " + s_.job(holders[0]).spec.id);
      }
    }
    for (const JobId id : std::set(s_.displaced)) replace_displaced(id);
  }

  void evict(JobId id, std::string message) {
    Job& j = s_.job(id);
    if (j.to_be_evicted) return;
    j.to_be_evicted = true;
    plan_.decisions.push_back({Decision::Kind::kEvict, j.spec.id, {}, std::move(message)});
  }

  void replace_displaced(JobId id) {
    Job& j = s_.job(id);
    if (j.to_be_evicted) return;
    const PoolId pool = s_.find_pool(j.assignment->pool);
    Statement statement(s_);
    Decision d{Decision::Kind::kReplace, j.spec.id, {j.assignment->pool, now_, {}}, {}};
    for (const std::size_t i : j.displaced) {
      const PodPlace& old = j.assignment->pods[i];
      auto place = pool == kNoId ? std::nullopt : place_pod(s_, statement, id, pool, old.role, old.index);
      if (!place) {
        statement.rollback();
        return evict(id, "no other node has room for a pod that lost its place on node " + old.node);
      }
      d.assignment.pods.push_back(std::move(*place));
    }
    const auto charges = statement.commit();
    for (std::size_t k = 0; k < j.displaced.size(); ++k) {
      j.assignment->pods[j.displaced[k]] = d.assignment.pods[k];
      j.charges[j.displaced[k]] = charges[k];
    }
    j.displaced.clear();
    s_.displaced.erase(id);
    plan_.decisions.push_back(std::move(d));
  }

  // --- what waits

  // Pools in which nothing has changed since the last time are not looked at. false: there is no other.
  bool serve() {
    lines_.clear();
    refused_.clear();
    refused_in_.clear();
    for (std::size_t i = 0; i < s_.pools.size(); ++i) {
      const Pool& p = s_.pools[i];
      if (p.known && p.version != p.judged) lines_.emplace_back(s_, static_cast<PoolId>(i));
    }
    refused_.resize(lines_.size());
    while (const auto at = next_line()) {
      Line& line = lines_[*at];
      const JobId id = line.head();
      if (!try_start(id, line)) {
        refused_[*at].push_back(id);
        if (s_.job(id).pools.size() > 1) refused_in_.emplace(id, line.pool());
      }
      line.pop();
    }
    return !lines_.empty();
  }

  // A job goes into the first of its pools that takes it, so its turn in one comes after its turn in those
  // before. Two jobs may wait for each other that way: then the first pool decides.
  std::optional<std::size_t> next_line() {
    std::optional<std::size_t> any;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const JobId id = lines_[i].head();
      if (id == kNoId) continue;
      if (!any) any = i;
      const Job& j = s_.job(id);
      const auto here = std::find(j.pools.begin(), j.pools.end(), lines_[i].pool());
      if (std::all_of(j.pools.begin(), here, [&](PoolId p) { return decided(id, p); })) return i;
    }
    return any;
  }
  bool decided(JobId id, PoolId pool) const {
    const bool served =
        std::any_of(lines_.begin(), lines_.end(), [&](const Line& l) { return l.pool() == pool; });
    return !served || refused_in_.contains({id, pool});
  }

  bool try_start(JobId id, const Line& line) {
    const PoolId pool = line.pool();
    const Job& j = s_.job(id);
    if (broken_bound(s_, line.path(), pool, s_.request_of(j).total, j.spec.preemptible)) return false;
    Refusal& refusal = s_.requests.at(j.request).refused[pool];
    if (refusal.gains == s_.pool(pool).gains) return false;
    Statement statement(s_);
    auto places = place_gang(s_, statement, id, pool, refusal);
    if (!places) {
      refusal.gains = s_.pool(pool).gains;
      return false;
    }
    start(id, pool, std::move(*places), statement.commit());
    return true;
  }

  void start(JobId id, PoolId pool, std::vector<PodPlace> places, std::vector<Charge> charges) {
    std::vector<std::size_t> order(places.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tie(places[a].role, places[a].index) < std::tie(places[b].role, places[b].index);
    });
    Assignment assignment{s_.pool(pool).spec.name, now_, {}};
    std::vector<Charge> sorted;
    for (const std::size_t i : order) {
      assignment.pods.push_back(std::move(places[i]));
      sorted.push_back(std::move(charges[i]));
    }
    s_.stop_waiting(id, false);
    started_.push_back(id);
    plan_.decisions.push_back({Decision::Kind::kStart, s_.job(id).spec.id, assignment, {}});
    s_.hold(id, std::move(assignment), std::move(sorted));
    s_.job(id).assumed = true;
  }

  // --- why the rest waits: as things are at the end of the plan

  void judge(Line& line) {
    std::int32_t position = 0;
    std::map<LeafId, std::int32_t> in_project;
    std::map<LeafId, std::vector<LeafId>> paths;
    const auto at = static_cast<std::size_t>(&line - lines_.data());
    for (const JobId id : refused_[at]) {
      const Job& j = s_.job(id);
      if (j.assignment || j.pools.front() != line.pool()) continue;
      auto path = paths.find(j.leaf);
      if (path == paths.end()) path = paths.emplace(j.leaf, s_.path(j.leaf)).first;
      ++position;
      const auto bound =
          broken_bound(s_, path->second, line.pool(), s_.request_of(j).total, j.spec.preemptible);
      if (bound) {
        publish(id, verdict_of_bound(s_, *bound, line.pool()), 0, position, ++in_project[j.leaf]);
      } else {
        const Refusal& refusal = described(j.request, line.pool());
        publish(id, refusal.verdict, refusal.serial, position, ++in_project[j.leaf]);
      }
    }
    for (const LeafId leaf : line.barred()) {
      const Verdict v = verdict_of_leaf(s_, leaf, s_.path(leaf)).value();
      for (const WaitKey& key : s_.pool(line.pool()).lines.at(leaf)) {
        if (s_.job(key.job).pools.front() == line.pool()) publish(key.job, v, 0, 0, 0);
      }
    }
  }

  // The refusal of a request with numbers as they are now; once for all jobs that ask the same.
  const Refusal& described(RequestId id, PoolId pool) {
    Request& request = s_.requests.at(id);
    Refusal& refusal = request.refused[pool];
    if (refusal.version == s_.pool(pool).version) return refusal;
    Verdict v = verdict_of_shortage(s_, request, pool, refusal);
    if (refusal.serial == 0 || v != refusal.verdict) {
      refusal.verdict = std::move(v);
      refusal.serial = ++s_.last_serial;
    }
    refusal.version = s_.pool(pool).version;
    return refusal;
  }

  void judge_sidelined() {
    if (!s_.sidelined_changed) return;
    s_.sidelined_changed = false;
    for (const JobId id : s_.sidelined) publish(id, verdict_of_sidelined(s_, s_.job(id)), 0, 0, 0);
  }

  // `serial`: of the refusal that the verdict comes from; equal serials mean equal verdicts.
  void publish(JobId id, const Verdict& verdict, std::uint64_t serial, std::int32_t position,
               std::int32_t project_position) {
    Job& j = s_.job(id);
    const bool same_text = j.verdict && serial != 0 && serial == j.verdict_serial;
    if (same_text && j.verdict->position == position && j.verdict->project_position == project_position)
      return;
    Verdict v = same_text ? std::move(*j.verdict) : verdict;
    v.position = position;
    v.project_position = project_position;
    j.verdict_serial = serial;
    if (!same_text && j.verdict == v) return;
    j.verdict = std::move(v);
    plan_.verdicts.push_back(j.spec.id);
  }

  State& s_;
  Time now_;
  Plan plan_;
  std::vector<Line> lines_;                        // of the pools that are served, by id
  std::vector<std::vector<JobId>> refused_;        // by line, in order
  std::set<std::pair<JobId, PoolId>> refused_in_;  // of jobs with several pools
  std::vector<JobId> started_;
};

}  // namespace

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
    case Reason::kInsufficientCapacity:
      return "InsufficientCapacity";
    case Reason::kFragmented:
      return "Fragmented";
    case Reason::kNoMatchingNodes:
      return "NoMatchingNodes";
    case Reason::kNoDefaultPool:
      return "NoDefaultPool";
    case Reason::kLimitReached:
      return "LimitReached";
    case Reason::kQuotaExceeded:
      return "QuotaExceeded";
    case Reason::kQueueHeld:
      return "QueueHeld";
    case Reason::kProjectNotFound:
      return "ProjectNotFound";
    case Reason::kInvalidSpec:
      return "InvalidSpec";
  }
  return "";
}

Plan plan(Cluster& cluster, Time now) {
  Plan result = Planner(cluster.state(), now).run();
#ifndef NDEBUG
  require_sound(cluster, result);
#endif
  return result;
}

}  // namespace muster::placement
