#include "victims/units.h"

#include <algorithm>
#include <limits>
#include <list>
#include <map>
#include <set>
#include <tuple>

#include "model/due.h"
#include "victims/movable.h"

namespace muster::placement {
namespace {

constexpr Duration kUnknownStart = seconds(60);

// A part of nothing counts as the largest.
std::int64_t millionths(std::int64_t part, std::int64_t whole) {
  constexpr std::int64_t kLargest = 1'000'000'000'000;
  if (part <= 0) return 0;
  if (whole <= 0) return kLargest;
  return static_cast<std::int64_t>(std::min<Wide>(static_cast<Wide>(part) * 1'000'000 / whole, kLargest));
}

// How many pods an elastic job gives or takes at once.
std::int32_t step_of(const Request& request) {
  return request.groups.empty() ? 1 : request.groups.front().size;
}

struct Gatherer {
  const ClusterModel& s;
  const UnitQuery& q;
  std::vector<Unit>& out;
  Safe& still;

  // `least`: how long what runs in its leaf is let be.
  bool safe(JobId id, const Job& j, Duration least) {
    if (j.nominated() || (j.started_in != 0 && j.started_in == s.plans)) return false;
    const Time until = j.progress.began + least;
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
      if (s.share(at, q.claimant->pool).weight == 0) return true;
    }
    return false;
  }

  void add(JobId id, const std::vector<QueueId>& path, bool own, std::int64_t over, bool surplus_only) {
    const Job& j = s.job(id);
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
    u.idle_room = idle_room(path);
    u.leaf = path.front();
    u.priority = j.spec.priority;
    for (const std::size_t i : u.pods) {
      u.amounts += j.allocations[i].amounts;
      u.nodes.push_back(j.allocations[i].node);
    }
    std::sort(u.nodes.begin(), u.nodes.end());
    u.nodes.erase(std::unique(u.nodes.begin(), u.nodes.end()), u.nodes.end());
    u.cost = lost_work(s, j, q.claimant->pool, u.amounts, q.now);
    u.over = -over;
    u.minus_began = -j.progress.began.ms;
    out.push_back(std::move(u));
    return static_cast<std::int32_t>(out.size()) - 1;
  }
};

// Merges the leaves' lists, each in its own order, always taking the cheapest head.
std::vector<Unit> in_order(const ClusterModel& s, const UnitQuery& q, std::vector<Unit> all) {
  std::map<QueueId, Resources> beyond;
  for (const Unit& u : all) beyond.try_emplace(u.leaf, beyond_quota(s, u.leaf, q.claimant->pool));
  // Higher: taken later. Own ones last, before them what leaves others below their quota; first of all go
  // leaves without a weight, which give idle room back first.
  const auto rank = [&](const Unit& u) {
    if (u.leaf == q.claimant->path.front()) return 3;
    if (exceeds(u.amounts, beyond.at(u.leaf), q.claimant->asked)) return 2;
    return u.idle_room ? 0 : 1;
  };
  const auto own_order = [&](std::size_t a, std::size_t b) {
    const Unit& x = all[a];
    const Unit& y = all[b];
    return std::tie(x.priority, x.cost, x.minus_began, s.job(x.job).spec.id) <
           std::tie(y.priority, y.cost, y.minus_began, s.job(y.job).spec.id);
  };
  std::map<QueueId, std::vector<std::size_t>> by_leaf;
  for (std::size_t i = 0; i < all.size(); ++i) by_leaf[all[i].leaf].push_back(i);
  using Head = std::tuple<int, Wide, std::int64_t, std::int64_t, std::string_view, QueueId>;
  std::map<QueueId, std::size_t> at;
  std::set<Head> heads;
  const auto put_head = [&](QueueId leaf) {
    const auto& list = by_leaf[leaf];
    if (at[leaf] == list.size()) return;
    const Unit& u = all[list[at[leaf]]];
    heads.emplace(rank(u), u.cost, u.over, u.minus_began, s.job(u.job).spec.id, leaf);
  };
  for (auto& [leaf, list] : by_leaf) {
    std::stable_sort(list.begin(), list.end(), own_order);
    put_head(leaf);
  }
  // Surplus before the minimum of the same job, whatever it costs: a unit that comes before the one that has
  // to go first waits until that is in the list.
  std::vector<Unit> out;
  std::vector<std::int32_t> place(all.size(), -1);
  std::map<std::int32_t, std::vector<std::size_t>> waiting;
  const auto emit = [&](auto&& self, std::size_t i) -> void {
    place[i] = static_cast<std::int32_t>(out.size());
    Unit u = std::move(all[i]);
    if (u.after >= 0) u.after = place[static_cast<std::size_t>(u.after)];
    out.push_back(std::move(u));
    if (const auto next = waiting.extract(static_cast<std::int32_t>(i))) {
      for (const std::size_t k : next.mapped()) self(self, k);
    }
  };
  while (!heads.empty()) {
    const QueueId leaf = std::get<5>(heads.extract(heads.begin()).value());
    const std::size_t i = by_leaf[leaf][at[leaf]++];
    if (all[i].after >= 0 && place[static_cast<std::size_t>(all[i].after)] < 0) {
      waiting[all[i].after].push_back(i);
    } else {
      emit(emit, i);
    }
    put_head(leaf);
  }
  return out;
}

}  // namespace

Wide lost_work(const ClusterModel& s, const Job& j, PoolId pool, const Resources& amounts, Time now) {
  if (j.nominated() || (j.started_in != 0 && j.started_in == s.plans)) return 0;
  Duration lost = now - std::max(j.progress.began, j.progress.saved.value_or(j.progress.began));
  if (j.spec.checkpoint_interval) lost = std::min(lost, *j.spec.checkpoint_interval);
  lost.ms = std::max<std::int64_t>(0, lost.ms) + j.progress.start_took.value_or(kUnknownStart).ms;
  const Resources& all = s.pool(pool).domains[0].capacity;
  const std::int64_t share =
      std::max({millionths(amounts.gpu.value, all.gpu.value), millionths(amounts.cpu.value, all.cpu.value),
                millionths(amounts.memory.value, all.memory.value)});
  return static_cast<Wide>(lost.ms) * share;
}

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
    if (leaf == kNoId) continue;
    const bool own = leaf == c.path.front();
    if (!moves && (own ? q.action == Action::kReclaim : q.action == Action::kPreempt)) continue;
    const auto& path = paths.emplace_back(s.path(leaf));
    if (path.empty()) continue;
    if (q.who.idle_room_only && !gather.idle_room(path)) continue;
    if (!moves && !own && !may_give(s, c, q.eligibility, path, {})) continue;
    const Duration least = min_runtime(s, path, !own);
    const std::int64_t over = millionths(s.sums(leaf, c.pool).allocated.gpu.value,
                                         (*c.fair)[static_cast<std::size_t>(leaf)].gpu.value);
    for (const JobId id : jobs) {
      const Job& j = s.job(id);
      if (!j.spec.preemptible || id == c.job || !j.assignment || !j.displaced.empty()) continue;
      if (moves && (j.spec.interactive || j.nominated())) continue;
      if (!moves && own && j.spec.priority >= s.job(c.job).spec.priority) continue;
      // What this very plan has started may stay if its leaf is entitled to it: its minimum, that is.
      const bool stays = !own && j.entitled && j.started_in != 0 && j.started_in == s.plans;
      if (gather.safe(id, j, least)) continue;
      candidates.push_back({id, &path, own, q.who.surplus_only || stays, over});
    }
  }
  if (moves) {
    Movable movable(s, c);
    std::erase_if(candidates, [&](const PossibleVictim& one) { return !movable.add(one.job); });
    std::erase_if(candidates, [&](const PossibleVictim& one) { return !movable.helps(one.job); });
  }
  for (const PossibleVictim& one : candidates)
    gather.add(one.job, *one.path, one.own, one.over, one.surplus_only);
  return in_order(s, q, std::move(all));
}

}  // namespace muster::placement
