#include "victims/units.h"

#include <algorithm>
#include <list>
#include <map>

#include "disruption/disruption.h"
#include "disruption/surge.h"
#include "model/due.h"
#include "victims/movable.h"
#include "victims/victim_order.h"

namespace muster::placement {
namespace {

constexpr std::int64_t kStepsOfALeaf = 5;   // its path and what it may give
constexpr std::int64_t kStepsOfAUnit = 10;  // it is made, and finds its place in the order

// For so long at most a minimum that is guaranteed waits before a job of the same priority restarts for it.
constexpr Duration kRestartOfPeer = seconds(120);

// How many pods an elastic job gives or takes at once.
std::int32_t step_of(const Request& request) {
  return request.groups.empty() ? 1 : request.groups.front().size;
}

struct Gatherer {
  const ClusterModel& s;
  const UnitQuery& q;
  std::vector<Unit>& out;
  Safe& still;
  struct Price {
    Wide cost = 0;
    std::int64_t downtime = 0;
  };
  struct {
    Price resizing, going;
  } price{};  // of the job that is being added

  // `least`: how long what runs in its leaf is let be.
  bool safe(JobId id, const Job& j, Duration least) {
    if (j.nominated() || (j.started_in != 0 && j.started_in == s.plans)) return false;
    const Time until = j.assignment->since + least;  // its admission, not a restart in place
    if (until <= q.now) return false;
    soonest(still.due, until);
    if (q.action != Action::kMove && (!still.by_right || until < still.by_right->first))
      still.by_right = {until, id};
    return true;
  }

  // Below the common ancestor with the claimant.
  bool idle_room(const std::vector<QueueId>& path) const {
    const auto& theirs = q.claimant->path;
    for (const QueueId at : path) {
      if (std::find(theirs.begin(), theirs.end(), at) != theirs.end()) return false;
      if (s.tree().share(at, q.claimant->pool).weight == 0) return true;
    }
    return false;
  }

  // What has not begun loses nothing.
  bool has_begun(const Job& j) const {
    return !j.nominated() && (j.started_in == 0 || j.started_in != s.plans);
  }

  // RULES.md 5.11: a disturbance that is not owed. What may be taken of the job?
  enum class Part : std::uint8_t { kNothing, kSurplus, kAll };
  Part allowed(const Job& j, const DisruptionTerms& terms) {
    if (q.who.owed || terms.free() || !has_begun(j)) return Part::kAll;
    // Nobody misses it: that is within any bound.
    if (j.spec.serves)
      return q.action == Action::kMove && may_surge(j) && terms.max_overhead > 0 ? Part::kAll
                                                                                 : Part::kNothing;
    const Bounded whole = within_bound(j, terms, downtime_of_going(j, q.now), q.now);
    if (whole.allowed) return Part::kAll;
    if (whole.from) soonest(still.due, *whole.from);
    if (q.action == Action::kMove || !s.request_of(j).elastic) return Part::kNothing;
    const Bounded some =
        within_bound(j, terms, downtime_of_resizing(j, q.now), q.now, !j.spec.resizes_in_place);
    if (some.allowed) return Part::kSurplus;
    if (some.from) soonest(still.due, *some.from);
    return Part::kNothing;
  }

  // RULES.md 5.4: it gives surplus to one that is not of higher priority, and that would cost it a restart.
  bool lets_restart_wait(JobId id, const Job& j) {
    if (j.spec.resizes_in_place || !q.priced || !has_begun(j)) return false;
    const Claimant& c = *q.claimant;
    Resources held;
    for (const Allocation& a : j.allocations) held += a.amounts;
    const Time since = waits_since(s.job(c.job)), latest = since + kRestartOfPeer;
    const auto pays = breaks_even(cost_in_pool(s, c.pool, held, downtime_of_resizing(j, q.now)),
                                  cost_in_pool(s, c.pool, c.asked, Duration{1}), since);
    const Time until = std::min(pays.value_or(latest), latest);
    if (until <= q.now) return false;
    soonest(still.due, until);
    if (!still.restarts || until < still.restarts->first) still.restarts = {until, id};
    return true;
  }

  void add(JobId id, const std::vector<QueueId>& path, bool own, std::int64_t over, bool surplus_only) {
    const Job& j = s.job(id);
    price = {};
    if (has_begun(j)) {
      const DisruptionTerms terms = disruption_terms(s.tree(), path);
      const std::int64_t size = size_of(j);
      Resources held;
      for (const Allocation& a : j.allocations) held += a.amounts;
      const auto of = [&](Duration down) {
        return Price{terms.free() ? 0 : cost_in_pool(s, q.claimant->pool, held, down),
                     wrapping_mul(size, down.ms)};
      };
      price.resizing = of(downtime_of_resizing(j, q.now));
      price.going = of(downtime_of_going(j, q.now));
    }
    const Request& request = s.request_of(j);
    std::int32_t after = -1;
    std::vector<std::size_t> left;
    std::vector<bool> gone(j.allocations.size(), false);
    for (std::size_t i = 0; i < j.allocations.size(); ++i) {
      if (j.allocations[i].node != kNoId) left.push_back(i);
    }
    // Surplus: of each elastic role what is nominated and not there yet, then from the end; as many at once
    // as belong together.
    if (request.elastic && q.action != Action::kMove) {
      const auto step = static_cast<std::size_t>(step_of(request));
      for (std::size_t r = request.roles.size(); r-- > 0;) {
        const RoleSpec& role = request.roles[r];
        if (role.most() == role.replicas) continue;
        std::vector<std::tuple<bool, std::int32_t, std::size_t>> pods;  // by falling index
        for (const std::size_t i : left) {
          const bool there = j.allocations[i].hold != Hold::kNominated;
          if (static_cast<std::size_t>(j.assignment->pods[i].role) == r)
            pods.emplace_back(there, -j.assignment->pods[i].index, i);
        }
        std::sort(pods.begin(), pods.end());
        const auto least = static_cast<std::size_t>(role.replicas);
        for (std::size_t at = 0; pods.size() - at >= least + step; at += step) {
          std::vector<std::size_t> some;
          for (std::size_t k = at; k < at + step; ++k) some.push_back(std::get<std::size_t>(pods[k]));
          for (const std::size_t pod : some) gone[pod] = true;
          after = push(id, path, own, over, some, false, after);
        }
      }
      std::erase_if(left, [&](std::size_t pod) { return gone[pod]; });
    }
    if (!surplus_only && !left.empty()) push(id, path, own, over, std::move(left), true, after);
  }

  std::int32_t push(JobId id, const std::vector<QueueId>& path, bool own, std::int64_t over,
                    std::vector<std::size_t> pods, bool last, std::int32_t after) {
    const Job& j = s.job(id);
    Unit u;
    u.job = id;
    u.pods = std::move(pods);
    std::sort(u.pods.begin(), u.pods.end());
    u.last = last;
    u.after = after;
    u.own = own;
    u.of_peer = own && j.spec.priority >= s.job(q.claimant->job).spec.priority;
    u.idle_room = idle_room(path);
    u.leaf = j.leaf;
    u.priority = j.spec.priority;
    for (const std::size_t i : u.pods) {
      u.amounts += j.allocations[i].amounts;
      u.nodes.push_back(j.allocations[i].node);
    }
    std::sort(u.nodes.begin(), u.nodes.end());
    u.nodes.erase(std::unique(u.nodes.begin(), u.nodes.end()), u.nodes.end());
    const Price before = after < 0 ? Price{} : price.resizing;
    const Price with = last ? price.going : price.resizing;
    u.cost = q.priced ? std::max<Wide>(0, with.cost - before.cost)
                      : lost_work(s, j, q.claimant->pool, u.amounts, q.now);
    u.downtime = {std::max<std::int64_t>(0, with.downtime - before.downtime)};
    u.over = -over;
    // Of those that cost the same who has run the longest since its last start: else who has just come back
    // would be the next to go again.
    u.began = q.priced ? j.progress.began.ms : -j.progress.began.ms;
    out.push_back(std::move(u));
    return static_cast<std::int32_t>(out.size()) - 1;
  }
};

}  // namespace

std::vector<Unit> units(const ClusterModel& s, const UnitQuery& q, Safe& safe) {
  std::vector<Unit> all;
  Gatherer gather{s, q, all, safe};
  const Claimant& c = *q.claimant;
  const bool moves = q.action == Action::kMove;
  struct PossibleVictim {
    JobId job;
    const std::vector<QueueId>* path;
    bool own, surplus_only;
    std::int64_t over;
  };
  std::list<std::vector<QueueId>> paths;
  std::vector<PossibleVictim> candidates;
  for (const auto& [leaf, jobs] : s.pool(c.pool).holding) {
    s.work.spend(kStepsOfALeaf);
    if (leaf == kNoId) continue;
    const bool own = leaf == c.path.front();
    if (!moves && (own ? q.action == Action::kReclaim : q.action == Action::kPreempt)) continue;
    const auto& path = paths.emplace_back(s.tree().path(leaf));
    // Where the tree above is broken nothing is guaranteed. Whoever claims by quota may take from there.
    if (path.empty() && (moves || q.eligibility != Eligibility::kByQuota)) continue;
    if (q.who.idle_room_only && !gather.idle_room(path)) continue;
    if (!moves && !own && !may_give(s.tree(), c, q.eligibility, path, {})) continue;
    const Duration least = min_runtime(s.tree(), path, !own);
    const DisruptionTerms terms = disruption_terms(s.tree(), path);
    const std::int64_t over = millionths(s.tree().sums(leaf, c.pool).allocated.gpu.value,
                                         (*c.fair)[static_cast<std::size_t>(leaf)].gpu.value);
    s.work.spend(static_cast<std::int64_t>(jobs.size()));
    for (const JobId id : jobs) {
      const Job& j = s.job(id);
      if (id == c.job || !j.assignment || !j.displaced.empty() || is_surging(j)) continue;
      if (!j.spec.preemptible && !(moves && may_surge(j))) continue;
      if (moves && (j.spec.interactive || j.nominated())) continue;
      const bool peer = !moves && own && j.spec.priority == s.job(c.job).spec.priority;
      if (peer && (!q.who.peers || !s.request_of(j).elastic || gather.lets_restart_wait(id, j))) continue;
      if (!moves && own && j.spec.priority > s.job(c.job).spec.priority) continue;
      // What this very plan has started may stay if its leaf is entitled to it: its minimum, that is.
      const bool stays = !own && j.entitled && j.started_in != 0 && j.started_in == s.plans;
      if (gather.safe(id, j, least)) continue;
      const auto part = own ? Gatherer::Part::kAll : gather.allowed(j, terms);
      if (part == Gatherer::Part::kNothing) continue;
      const bool surplus_only = q.who.surplus_only || stays || peer || part == Gatherer::Part::kSurplus;
      candidates.push_back({id, &path, own, surplus_only, over});
    }
  }
  if (moves) {
    Movable movable(s, c);
    std::erase_if(candidates, [&](const PossibleVictim& one) { return !movable.add(one.job); });
    std::erase_if(candidates, [&](const PossibleVictim& one) { return !movable.helps(one.job); });
  }
  for (const PossibleVictim& one : candidates)
    gather.add(one.job, *one.path, one.own, one.over, one.surplus_only);
  s.work.spend(kStepsOfAUnit * static_cast<std::int64_t>(all.size()));
  return in_taking_order(s, c, std::move(all));
}

}  // namespace muster::placement
