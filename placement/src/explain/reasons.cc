#include "explain/reasons.h"

#include <algorithm>
#include <set>

#include "node/resource_vector.h"
#include "shares/backfill.h"

namespace muster::placement {
namespace {

// What is held there and could be taken back.
Resources lent(const ClusterModel& s, QueueId at, PoolId pool) {
  const TreeSums& sums = s.tree().sums(at, pool);
  return sums.allocated - sums.non_preemptible;
}

}  // namespace

PendingReason reason_of_sidelined(const ClusterModel& s, const Job& j) {
  PendingReason v;
  if (const Request& r = s.request_of(j); !r.refusal().empty()) {
    v.reason = Reason::kInvalidSpec;
    v.message = r.refusal();
    return v;
  }
  if (auto held =
          reason_of_leaf(s.tree(), j.leaf, j.leaf == kNoId ? std::vector<QueueId>{} : s.tree().path(j.leaf)))
    return *held;
  if (j.spec.pools.empty()) {
    v.reason = Reason::kNoDefaultPool;
    v.message =
        "the job names no pool and there is no default: make one NodePool, or give exactly one spec.default: "
        "true";
  } else {
    v.reason = Reason::kNoMatchingNodes;
    v.message = "none of the pools that the job names exists: " + join(j.spec.pools, kMaxHolders);
  }
  return v;
}

PendingReason reason_of_reserved_part(const ClusterModel& s, const BrokenBound& b, PoolId pool,
                                      const std::vector<QueueId>& path) {
  const std::string& name = s.pool(pool).spec.name;
  const char* const resource = s.resource_names.name_of(b.what);
  std::vector<std::string> whose;
  for (const QueueId at : held_back_for(s.tree(), path, pool, b.what))
    whose.push_back(who(s.tree().queue(at).spec));
  PendingReason v;
  v.reason = Reason::kInsufficientCapacity;
  v.message = "needs " + show(resource, b.need) + " " + unit_of(s.pool(pool).spec, resource) + " in pool " +
              name + ", " + show(resource, b.have) + " free beside the " + show(resource, b.bound) +
              " that " + join(whose, kHoldersNamed) + (whose.size() == 1 ? " has" : " have") +
              " reserved and not in use";
  if (whose.size() > kMaxHolders) whose.resize(kMaxHolders);
  v.blocking.push_back({resource, name, b.need, b.have, std::move(whose)});
  return v;
}

PendingReason reason_of_bound(const ClusterModel& s, const BrokenBound& b, PoolId pool) {
  if (b.kind == Bound::kReservedPart) return reason_of_reserved_part(s, b, pool, s.tree().path(b.at));
  const bool quota = b.kind == Bound::kQuota;
  const std::string& name = s.pool(pool).spec.name;
  const char* const resource = s.resource_names.name_of(b.what);
  const std::string whose = who(s.tree().queue(b.at).spec);
  PendingReason v;
  v.reason = quota ? Reason::kQuotaExceeded : Reason::kLimitReached;
  v.message = "needs " + show(resource, b.need) + " " + unit_of(s.pool(pool).spec, resource) + " in pool " +
              name + "; " + whose + " has " + show(resource, b.have) + " left of its " +
              (quota ? "quota" : "limit") + " of " + show(resource, b.bound) +
              (quota ? ", and what is not preemptible must stay within it" : "");
  v.blocking.push_back({resource, name, b.need, b.have, {whose}});
  return v;
}

std::optional<PendingReason> reason_of_fair_share(const ClusterModel& s, const Claimant& c,
                                                  const Resources& theirs) {
  for (const ResourceKind what : s.tree().accounted()) {
    const std::int64_t asked = amount_of(c.asked, what);
    if (asked <= 0) continue;
    for (const QueueId at : c.path) {
      // Where a resource is not accounted, nobody's share of it binds.
      const std::int64_t fair = amount_of((*c.fair)[static_cast<std::size_t>(at)], what);
      const std::int64_t used = amount_of(s.tree().sums(at, c.pool).allocated, what);
      if (wrapping_add(used, asked) <= fair) continue;
      // What is exchanged inside an ancestor needs no room there.
      const std::int64_t exchanged = amount_of(lent(s, at, c.pool) - lent(s, c.path.front(), c.pool), what);
      if (at != c.path.front() && exchanged >= std::min(asked, wrapping_add(used, asked) - fair)) continue;
      if (amount_of(theirs, what) < asked) return std::nullopt;
      const std::string& name = s.pool(c.pool).spec.name;
      const char* const resource = s.resource_names.name_of(what);
      const std::string whose = who(s.tree().queue(at).spec);
      const std::int64_t free = amount_of(s.pool(c.pool).domains[0].free, what);
      PendingReason v;
      v.reason = Reason::kFairShareReached;
      v.message =
          "needs " + show(resource, asked) + " " + unit_of(s.pool(c.pool).spec, resource) + " in pool " +
          name + ", " +
          (free < asked ? "too little is free" : show(resource, free) + " are free in the wrong places") +
          ", and nothing may be taken from others for it: " + whose + " has " + show(resource, used) +
          " of its fair share of " + show(resource, fair);
      v.blocking.push_back({resource, name, asked, std::max<std::int64_t>(0, fair - used), {whose}});
      return v;
    }
  }
  return std::nullopt;
}

PendingReason reason_of_reservation(const ClusterModel& s, const Job& j, PoolId pool) {
  const Pool& p = s.pool(pool);
  const Resources asked = s.asked(s.request_of(j), pool);
  const ResourceKind what = asked.gpu.value > 0 ? ResourceKind::kGpu : ResourceKind::kCpu;
  const std::int64_t have = amount_of(free_beside_reservation(s, p, asked), what);
  PendingReason v;
  v.reason = Reason::kReserved;
  v.message = "needs " + show(name_of(what), amount_of(asked, what)) + " " +
              unit_of(s.pool(pool).spec, name_of(what)) + " in pool " + p.spec.name + ", " +
              show(name_of(what), have) + " free beside what is reserved for " + p.reservation->name +
              ", the first in order" + (have >= amount_of(asked, what) ? ", but not in such pieces" : "") +
              "; this one does not say that it ends before that starts";
  v.blocking.push_back({name_of(what), p.spec.name, amount_of(asked, what), have, {p.reservation->name}});
  return v;
}

PendingReason reason_of_owner(const ClusterModel& s, PendingReason v, const Reservation& r) {
  std::vector<std::string> names;
  for (const NodeId id : r.nodes) names.push_back(s.node(id).spec.name);
  v.message += "; " + std::to_string(names.size()) + (names.size() == 1 ? " node is" : " nodes are") +
               " reserved for it (" + join(names, kHoldersNamed) + ")";
  return v;
}

PendingReason reason_of_nomination(ClusterModel& s, JobId id) {
  Job& j = s.job(id);
  const PoolId pool = s.find_pool(j.assignment->pool);
  // How many of its pods could be there now, one beside the other; none before its own have left.
  const auto version = s.pool(pool).version;
  std::vector<std::size_t> there;
  std::set<std::string> by;
  Resources amounts;
  for (const std::size_t i : j.nominated_pods) {
    Allocation& c = j.allocations[i];
    amounts += c.amounts;
    if (j.leaving.empty() && s.available(c, View::kForNominated)) {
      s.turn(c, Hold::kRunning);
      there.push_back(i);
      continue;
    }
    for (const Gpu& gpu : s.node(c.node).gpus) {
      for (const GpuUse& use : gpu.uses) {
        if (use.hold == Hold::kLeaving && use.holder != kOther) by.insert(s.job(use.holder).spec.id);
      }
    }
  }
  for (const std::size_t i : there) s.turn(j.allocations[i], Hold::kNominated);
  s.pool(pool).version = version;
  if (!j.leaving.empty()) by.insert(j.spec.id);
  const auto need = static_cast<std::int64_t>(j.nominated_pods.size());
  const auto have = static_cast<std::int64_t>(there.size());
  PendingReason v;
  v.reason = Reason::kWaitingForVictims;
  v.message = need == 1 ? "its pod has its place, and starts when "
                        : "its " + std::to_string(need) + " pods have their places, and start when ";
  if (have == need) {  // then it is room under a limit that others have still to leave
    if (const auto b =
            broken_bound(s, s.tree().path(j.leaf), pool, amounts, Applicant{}, View::kForNominated)) {
      const std::string whose = who(s.tree().queue(b->at).spec);
      const char* const resource = s.resource_names.name_of(b->what);
      v.message += "enough has left " + whose + ", which has " + show(resource, b->have) +
                   " left of its limit of " + show(resource, b->bound) + " " +
                   unit_of(s.pool(pool).spec, resource);
      v.blocking.push_back({resource, j.assignment->pool, b->need, b->have, {whose}});
      return v;
    }
  }
  v.message +=
      by.empty() ? "what is there has left" : join({by.begin(), by.end()}, kHoldersNamed) + " has left them";
  v.blocking.push_back({"pods", j.assignment->pool, need, have, {by.begin(), by.end()}});
  if (v.blocking[0].by.size() > kMaxHolders) v.blocking[0].by.resize(kMaxHolders);
  return v;
}

}  // namespace muster::placement
