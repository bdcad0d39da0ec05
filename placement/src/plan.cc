#include "muster/placement/plan.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "admission.h"
#include "muster/placement/cluster.h"
#include "order.h"
#include "place.h"
#include "reasons.h"
#include "shares.h"
#include "state.h"

namespace muster::placement {
namespace {

// Jobs that ask for the same are judged once: within a plan nothing is freed, so what did not fit does not fit later.
void put(std::string& out, const std::string& s) { out += s, out += '\0'; }
void put(std::string& out, std::int64_t n) { put(out, std::to_string(n)); }
void put(std::string& out, const Term& t) {
  for (const auto* list : {&t.labels, &t.fields}) {
    put(out, static_cast<std::int64_t>(list->size()));
    for (const Requirement& r : *list) {
      put(out, r.key);
      put(out, static_cast<std::int64_t>(r.op));
      for (const auto& v : r.values) put(out, v);
    }
  }
}

// Everything that placement looks at, as text.
std::string request_text(const JobSpec& j) {
  std::string out;
  for (const RoleSpec& r : j.roles) {
    put(out, r.replicas);
    put(out, r.gpus);
    put(out, r.per_pod.cpu.value);
    put(out, r.per_pod.memory.value);
    for (const auto& m : r.models) put(out, m);
    out += '\1';
    for (const auto& [k, v] : r.node_selector) put(out, k), put(out, v);
    out += '\1';
    for (const AnyOf& any : r.required) {
      out += '\2';
      for (const Term& t : any) put(out, t);
    }
    for (const auto& [w, t] : r.preferred) put(out, w), put(out, t);
    for (const auto& t : r.tolerations) put(out, t.key), put(out, t.value), put(out, t.effect), put(out, t.exists ? 1 : 0);
    out += '\3';
  }
  for (const auto& n : j.avoid_nodes) put(out, n);
  return out;
}

// One pool's queue of waiting jobs, leaf by leaf.
struct Line {
  std::vector<JobId> jobs;  // in the leaf's own order
  std::size_t next = 0;
  std::vector<LeafId> path;
};

class Planner {
 public:
  Planner(State& state, Time now) : s_(state), now_(now) {}

  Plan run() {
    mend();
    std::map<JobId, Verdict> verdicts;
    for (std::size_t p = 0; p < s_.pools.size(); ++p) {
      if (s_.pools[p].known) serve(static_cast<PoolId>(p), verdicts);
    }
    judge_the_unplaceable(verdicts);
    publish(verdicts);
    return std::move(plan_);
  }

 private:
  // --- what is already admitted -------------------------------------------------------------------------------------

  void mend() {
    const std::set<JobId> troubled = s_.troubled;
    for (const JobId id : troubled) {
      Job& j = s_.jobs[static_cast<std::size_t>(id)];
      if (!j.conflict.empty()) {
        evict(id, "its GPUs are also held by the older admission of " + j.conflict);
      } else {
        replace_displaced(id);
      }
    }
  }

  void evict(JobId id, std::string message) {
    Job& j = s_.jobs[static_cast<std::size_t>(id)];
    if (j.to_be_evicted) return;
    j.to_be_evicted = true;
    plan_.decisions.push_back({Decision::Kind::kEvict, j.spec.id, {}, std::move(message)});
  }

  void replace_displaced(JobId id) {
    Job& j = s_.jobs[static_cast<std::size_t>(id)];
    if (j.to_be_evicted) return;
    const PoolId pool = s_.find_pool(j.assignment->pool);
    Statement statement(s_);
    Decision d{Decision::Kind::kReplace, j.spec.id, {j.assignment->pool, now_, {}}, {}};
    for (const std::size_t i : j.displaced) {
      const PodPlace& old = j.assignment->pods[i];
      auto place = pool == kNone ? std::nullopt : place_pod(s_, statement, id, pool, old.role, old.index);
      if (!place) {
        statement.rollback();
        return evict(id, "no other node has room for a pod that node " + old.node + " refused");
      }
      d.assignment.pods.push_back(std::move(*place));
    }
    const auto charges = statement.commit();
    for (std::size_t k = 0; k < j.displaced.size(); ++k) {
      j.assignment->pods[j.displaced[k]] = d.assignment.pods[k];
      j.charges[j.displaced[k]] = charges[k];
    }
    j.displaced.clear();
    s_.troubled.erase(id);
    plan_.decisions.push_back(std::move(d));
  }

  // --- what waits -----------------------------------------------------------------------------------------------------

  // One after the other in the order of rule 2; whoever cannot start does not stop those behind.
  void serve(PoolId pool, std::map<JobId, Verdict>& verdicts) {
    std::map<LeafId, Line> lines = line_up(pool, verdicts);
    if (lines.empty()) return;
    const auto fair = fair_shares(s_, pool);
    holders_.reset();
    refused_.clear();
    std::set<std::pair<LeafRank, LeafId>> order;
    const auto enter = [&](LeafId leaf, Line& line) {
      if (line.next >= line.jobs.size()) return;
      const Job& head = s_.jobs[static_cast<std::size_t>(line.jobs[line.next])];
      order.emplace(rank_leaf(s_, leaf, line.path, pool, fair, head.total), leaf);
    };
    for (auto& [leaf, line] : lines) enter(leaf, line);
    std::int32_t position = 0;
    std::map<LeafId, std::int32_t> in_project;
    while (!order.empty()) {
      const LeafId leaf = order.begin()->second;
      order.erase(order.begin());
      Line& line = lines[leaf];
      const JobId id = line.jobs[line.next++];
      const bool started = try_start(id, pool, line.path, verdicts);
      if (!started) {
        const auto mine = s_.pools_of(s_.jobs[static_cast<std::size_t>(id)]);
        if (mine.front() == pool) {
          verdicts[id].position = ++position;
          verdicts[id].project_position = ++in_project[leaf];
        }
        enter(leaf, line);
        continue;
      }
      // A start changes what its leaf and every leaf below a common ancestor has: all ranks anew.
      order.clear();
      for (auto& [l, each] : lines) enter(l, each);
    }
  }

  // Waiting jobs that may use this pool, by leaf; those that cannot be placed anywhere now get their verdict here.
  std::map<LeafId, Line> line_up(PoolId pool, std::map<JobId, Verdict>& verdicts) {
    std::map<LeafId, Line> lines;
    for (const JobId id : s_.waiting) {
      Job& j = s_.jobs[static_cast<std::size_t>(id)];
      const auto mine = s_.pools_of(j);
      if (std::find(mine.begin(), mine.end(), pool) == mine.end()) continue;
      if (auto v = held_back(j)) {
        verdicts[id] = *v;
        continue;
      }
      lines[j.leaf].jobs.push_back(id);
    }
    for (auto& [leaf, line] : lines) {
      line.path = s_.path(leaf);
      std::sort(line.jobs.begin(), line.jobs.end(), [&](JobId a, JobId b) {
        return before_in_leaf(s_.jobs[static_cast<std::size_t>(a)], s_.jobs[static_cast<std::size_t>(b)]);
      });
    }
    return lines;
  }

  // Reasons that need no look at any node.
  std::optional<Verdict> held_back(const Job& j) const {
    Verdict v;
    if (j.leaf == kNone || !s_.tree[static_cast<std::size_t>(j.leaf)].known) {
      v.reason = Reason::kProjectNotFound;
      v.message = "no Project owns the namespace; make one whose spec.namespace.name it is";
      return v;
    }
    const auto path = s_.path(j.leaf);
    if (path.empty()) {
      v.reason = Reason::kProjectNotFound;
      v.message = "Project " + s_.tree[static_cast<std::size_t>(j.leaf)].spec.name + " hangs on no complete tree of Queues: look at its conditions";
      return v;
    }
    for (const LeafId at : path) {
      const QueueSpec& q = s_.tree[static_cast<std::size_t>(at)].spec;
      if (!q.hold) continue;
      v.reason = Reason::kQueueHeld;
      v.message = "Queue " + q.name + " starts nothing new (spec.admission: Hold)";
      return v;
    }
    return std::nullopt;
  }

  bool try_start(JobId id, PoolId pool, const std::vector<LeafId>& path, std::map<JobId, Verdict>& verdicts) {
    Job& j = s_.jobs[static_cast<std::size_t>(id)];
    if (j.assignment) return false;  // started in an earlier pool of this plan
    if (const auto bound = broken_bound(s_, path, pool, j.total, j.spec.preemptible)) {
      keep_first(verdicts, id, verdict_of(s_, *bound, pool));
      return false;
    }
    const std::string request = request_text(j.spec);
    if (const auto known = refused_.find(request); known != refused_.end()) {
      keep_first(verdicts, id, verdict_of(s_, j, known->second, pool, holders(pool)));
      return false;
    }
    Statement statement(s_);
    Shortage shortage;
    auto places = place_gang(s_, statement, id, pool, shortage);
    if (!places) {
      refused_[request] = shortage;
      keep_first(verdicts, id, verdict_of(s_, j, shortage, pool, holders(pool)));
      return false;
    }
    start(id, pool, std::move(*places), statement.commit());
    verdicts.erase(id);
    return true;
  }

  void start(JobId id, PoolId pool, std::vector<PodPlace> places, std::vector<Charge> charges) {
    std::vector<std::size_t> order(places.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tie(places[a].role, places[a].index) < std::tie(places[b].role, places[b].index);
    });
    s_.stop_waiting(id);
    Job& j = s_.jobs[static_cast<std::size_t>(id)];
    j.assignment = Assignment{s_.pools[static_cast<std::size_t>(pool)].spec.name, now_, {}};
    j.charges.clear();
    for (const std::size_t i : order) {
      j.assignment->pods.push_back(std::move(places[i]));
      j.charges.push_back(std::move(charges[i]));
    }
    j.assumed = true;
    s_.count(j.leaf, 1, 0);
    plan_.decisions.push_back({Decision::Kind::kStart, j.spec.id, *j.assignment, {}});
    holders_.reset();
  }

  // A job that waits in several pools says why in the first of them.
  static void keep_first(std::map<JobId, Verdict>& verdicts, JobId id, Verdict v) { verdicts.try_emplace(id, std::move(v)); }

  const std::vector<std::string>& holders(PoolId pool) {
    if (!holders_) holders_ = largest_holders(s_, pool);
    return *holders_;
  }

  void judge_the_unplaceable(std::map<JobId, Verdict>& verdicts) {
    for (const JobId id : s_.waiting) {
      if (verdicts.contains(id)) continue;
      const Job& j = s_.jobs[static_cast<std::size_t>(id)];
      auto v = held_back(j).value_or(Verdict{});
      if (v.reason == Reason::kNone && j.spec.pools.empty()) {
        v.reason = Reason::kNoDefaultPool;
        v.message = "the job names no pool and there is no default: make one NodePool, or give one spec.default: true";
      } else if (v.reason == Reason::kNone) {
        v.reason = Reason::kNoMatchingNodes;
        v.message = "none of the pools that the job names exists: ";
        for (std::size_t i = 0; i < j.spec.pools.size(); ++i) v.message += (i == 0 ? "" : ", ") + j.spec.pools[i];
      }
      verdicts[id] = std::move(v);
    }
  }

  void publish(std::map<JobId, Verdict>& verdicts) {
    for (auto& [id, v] : verdicts) {
      Job& j = s_.jobs[static_cast<std::size_t>(id)];
      if (j.assignment || j.verdict == v) continue;
      j.verdict = std::move(v);
      plan_.verdicts.push_back(j.spec.id);
    }
  }

  State& s_;
  Time now_;
  Plan plan_;
  std::map<std::string, Shortage> refused_;  // by request, in the pool that is being served
  std::optional<std::vector<std::string>> holders_;
};

}  // namespace

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::kNone: return "";
    case Reason::kInsufficientCapacity: return "InsufficientCapacity";
    case Reason::kFragmented: return "Fragmented";
    case Reason::kNoMatchingNodes: return "NoMatchingNodes";
    case Reason::kNoDefaultPool: return "NoDefaultPool";
    case Reason::kLimitReached: return "LimitReached";
    case Reason::kQuotaExceeded: return "QuotaExceeded";
    case Reason::kQueueHeld: return "QueueHeld";
    case Reason::kProjectNotFound: return "ProjectNotFound";
    case Reason::kInvalidSpec: return "InvalidSpec";
  }
  return "";
}

Plan plan(Cluster& cluster, Time now) {
  Plan result = Planner(cluster.state(), now).run();
#ifndef NDEBUG
  const auto violations = cluster.audit();
  assert(violations.empty() && "placement: the auditor found a broken invariant");
#endif
  return result;
}

}  // namespace muster::placement
