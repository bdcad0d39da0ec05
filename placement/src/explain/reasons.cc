#include "explain/reasons.h"

#include <algorithm>
#include <set>

#include "node/resource_vector.h"
#include "node/sharing.h"
#include "place/nodes.h"
#include "shares/backfill.h"

namespace muster::placement {
namespace {

constexpr std::size_t kMaxHolders = 8;  // in Blocking::by
constexpr std::int64_t kStepsOfWords = 50;
constexpr std::int64_t kNodesAStep = 20;  // where only the roster is read, or one bit of each node
constexpr std::size_t kHoldersNamed = 3;  // in a sentence

std::string unit(const ClusterModel& s, PoolId pool, std::string_view resource) {
  if (resource == "gpu") return s.pool(pool).spec.gpu_resource;
  if (resource == "cpu") return "CPUs";
  return resource == "pods" ? "pod slots" : "memory";
}

// What is held there and could be taken back.
Resources lent(const ClusterModel& s, QueueId at, PoolId pool) {
  const TreeSums& sums = s.tree().sums(at, pool);
  return sums.allocated - sums.non_preemptible;
}

using Holders = std::vector<std::pair<std::int64_t, std::string>>;  // with amounts, the most first

void keep_most(Holders& list) {
  const auto most = static_cast<std::ptrdiff_t>(std::min(kMaxHolders, list.size()));
  const auto larger = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  std::partial_sort(list.begin(), list.begin() + most, list.end(), larger);
  list.resize(static_cast<std::size_t>(most));
}

// The jobs that hold most of a resource in the pool, and "other pods" where these hold some.
Holders holders(const ClusterModel& s, PoolId pool, ResourceKind what) {
  Holders list;
  if (what == ResourceKind::kGpu) {
    for (const auto& [minus, id] : s.pool(pool).holders) {
      if (list.size() == kMaxHolders) break;
      list.emplace_back(-minus, id);
    }
  } else {
    s.work.spend(static_cast<std::int64_t>(s.jobs().all().size()));
    for (const Job& j : s.jobs().all()) {
      if (!j.known || !j.assignment || j.assignment->pool != s.pool(pool).spec.name) continue;
      if (const auto amount = amount_of(s.request_of(j).total, what); amount > 0)
        list.emplace_back(amount, j.spec.id);
    }
    keep_most(list);
  }
  const std::int64_t others = amount_of(s.pool(pool).used_by_others, what);
  if (others > 0 && list.size() < kMaxHolders) list.emplace_back(others, "other pods");
  return list;
}

std::string held_by(const Holders& list, ResourceKind what) {
  std::string text;
  for (std::size_t i = 0; i < list.size() && i < kHoldersNamed; ++i) {
    text += (i == 0 ? "; held by " : ", ") + list[i].second + " (" + show(name_of(what), list[i].first) + ")";
  }
  if (list.size() > kHoldersNamed) text += ", …";
  return text;
}

// The usable nodes of the pool, without a look at them.
template <class Each>  // bool(NodeId); false: enough seen
bool each_node(const ClusterModel& s, PoolId pool, Each&& each) {
  for (const auto& [model, buckets] : s.pool(pool).domains[0].by_free) {
    for (const auto& [free, nodes] : buckets) {
      if (!std::all_of(nodes.begin(), nodes.end(), each)) return false;
    }
  }
  return true;
}

bool suits(const ClusterModel& s, const Request& request, PoolId pool, std::size_t role, NodeId id) {
  return request.eligible[role][static_cast<std::size_t>(id)] &&
         gives_such(s.node(id).spec, s.pool(pool).spec, request.roles[role]);
}

// O(1), and a look at all usable nodes after one of them has changed.
const Suited& suited(const ClusterModel& s, Request& request, PoolId pool, std::size_t role) {
  auto& by_role = request.suited[pool];
  by_role.resize(request.roles.size());
  Suited& known = by_role[role];
  if (known.members == s.pool(pool).members) return known;
  known = {s.pool(pool).members, true, true};
  s.work.spend(s.pool(pool).domains[0].nodes / kNodesAStep);
  const std::vector<bool>& eligible = request.eligible[role];
  const bool given = shared_as_asked(s.pool(pool).spec, request.roles[role]);  // then each node gives such
  for (const Roster::Row& row : roster_of(s.pool(pool), s.nodes().all()).rows) {
    const bool good =
        given ? eligible[static_cast<std::size_t>(row.node)] : suits(s, request, pool, role, row.node);
    (good ? known.none : known.all) = false;
    if (!known.none && !known.all) break;
  }
  return known;
}

// The same of the nodes alone that would do for some of these roles. O(1) where all do, else O(pods).
Holders holders(const ClusterModel& s, Request& request, PoolId pool, const std::vector<std::size_t>& roles,
                ResourceKind what) {
  if (std::any_of(roles.begin(), roles.end(), [&](std::size_t r) { return suited(s, request, pool, r).all; }))
    return holders(s, pool, what);
  const auto would_do = [&](NodeId id) {
    return std::any_of(roles.begin(), roles.end(),
                       [&](std::size_t r) { return suits(s, request, pool, r, id); });
  };
  Holders list;
  for (const auto& [leaf, jobs] : s.pool(pool).holding) {
    s.work.spend(static_cast<std::int64_t>(jobs.size()));
    for (const JobId id : jobs) {
      std::int64_t amount = 0;
      for (const Allocation& c : s.job(id).allocations)
        amount += c.node != kNoId && would_do(c.node) ? amount_of(c.amounts, what) : 0;
      if (amount > 0) list.emplace_back(amount, s.job(id).spec.id);
    }
  }
  keep_most(list);
  std::int64_t others = 0;
  each_node(s, pool, [&](NodeId id) {
    others += would_do(id) ? amount_of(s.node(id).used_by_others, what) : 0;
    return true;
  });
  if (others > 0 && list.size() < kMaxHolders) list.emplace_back(others, "other pods");
  return list;
}

// What the nodes have that would do for some role of the request.
struct RoomOnSuited {
  Resources capacity, free;
};
RoomOnSuited room_of(const ClusterModel& s, Request& request, PoolId pool,
                     const std::vector<std::size_t>& roles) {
  const Domain& whole = s.pool(pool).domains[0];
  const bool plain = std::all_of(roles.begin(), roles.end(), [&](std::size_t r) {
    return request.roles[r].gpus == 0 || (request.roles[r].share.kind == GpuShare::Kind::kWhole &&
                                          shared_as_asked(s.pool(pool).spec, request.roles[r]));
  });
  // Then there is no need to look at each node.
  if (plain &&
      std::any_of(roles.begin(), roles.end(), [&](std::size_t r) { return suited(s, request, pool, r).all; }))
    return {whole.capacity, whole.free};
  RoomOnSuited room;
  s.work.spend(s.pool(pool).domains[0].nodes);
  each_node(s, pool, [&](NodeId id) {
    const Node& n = s.node(id);
    Resources free = n.counted;
    free.gpu = {};
    bool any = false;
    for (const std::size_t r : roles) {
      const RoleSpec& role = request.roles[r];
      if (!suits(s, request, pool, r, id)) continue;
      any = true;
      if (role.gpus > 0) free.gpu = std::max(free.gpu, left_for(n, s.pool(pool).spec, role, View::kTarget));
    }
    if (!any) return true;
    room.capacity += capacity_of(n);
    room.free += free;
    return true;
  });
  return room;
}

// What is peculiar about the GPUs that the role asks for, to stand behind a number of them.
std::string share_text(const RoleSpec& r) {
  switch (r.share.kind) {
    case GpuShare::Kind::kWhole:
      return "";
    case GpuShare::Kind::kFraction:
      return ", " + show("gpu", r.share.milli.value) + " of each";
    case GpuShare::Kind::kMemory:
      return ", " + show("memory", r.share.memory.value) + " of the memory of each";
    case GpuShare::Kind::kMig:
      return ", MIG slices " + r.share.profile;
  }
  return "";
}

// The pool shares its GPUs in another way than the role asks for; nullopt: that is not why no node would do.
std::optional<PendingReason> not_shared_so(const ClusterModel& s, const Request& request, PoolId pool,
                                           std::size_t role) {
  const RoleSpec& r = request.roles[role];
  const PoolSpec& p = s.pool(pool).spec;
  if (shared_as_asked(p, r)) return std::nullopt;
  PendingReason v;
  v.reason = Reason::kNoMatchingNodes;
  v.message = "pool " + p.name;
  if (r.share.kind == GpuShare::Kind::kMig) {
    v.message +=
        " cuts no MIG slices (spec.sharing.mode is not MIG), and none of its nodes that would do has " +
        std::to_string(r.gpus) + " of " + r.share.profile + " cut already";
  } else {
    v.message += p.sharing.mode == SharingMode::kMig ? " shares its GPUs as MIG slices only"
                                                     : " gives out whole GPUs only";
    v.message += " (spec.sharing.mode), and role " + r.name + " asks for parts of them";
  }
  v.blocking.push_back({"pods", p.name, r.replicas, 0, {}});
  return v;
}

// Of what one pod needs more than any usable node has, if it were empty: "; no node has more than 0 CPUs".
std::string beyond_every_node(const ClusterModel& s, PoolId pool, const RoleSpec& r) {
  std::string text;
  for (const ResourceKind what : kAllKinds) {
    if (what == ResourceKind::kGpu && r.share.kind != GpuShare::Kind::kWhole) continue;
    std::int64_t most = 0;
    each_node(s, pool, [&](NodeId id) {
      most = std::max(most, amount_of(s.node(id).spec.allocatable, what));
      return true;
    });
    if (amount_of(r.per_pod, what) <= most) continue;
    text += text.empty() ? "; no node has more than " : ", ";
    text += show(name_of(what), most) + " " + unit(s, pool, name_of(what));
  }
  return text;
}

PendingReason no_node(const ClusterModel& s, const Request& request, PoolId pool, std::size_t role) {
  if (auto v = not_shared_so(s, request, pool, role)) return *v;
  const RoleSpec& r = request.roles[role];
  std::string asks;
  if (r.gpus > 0) {
    asks += std::to_string(r.gpus) + " " + s.pool(pool).spec.gpu_resource;
    if (!r.models.empty()) asks += " of " + join(r.models, kHoldersNamed);
    asks += share_text(r) + ", ";
  }
  if (r.numa_aligned) asks += "all on one NUMA node, ";
  asks += show("cpu", r.per_pod.cpu.value) + " CPUs, " + show("memory", r.per_pod.memory.value) +
          " memory, a pod slot";
  if (!r.node_selector.empty() || !r.required.empty()) asks += ", its node selector, affinity and volumes";
  PendingReason v;
  v.reason = Reason::kNoMatchingNodes;
  v.message = "none of the " + std::to_string(s.pool(pool).domains[0].nodes) + " usable nodes of pool " +
              s.pool(pool).spec.name + " would do for a pod of role " + r.name + " even if it were empty (" +
              asks + ", and the nodes' taints" + beyond_every_node(s, pool, r) + ")";
  if (!request.avoid.empty()) {
    v.message += "; " + join(request.avoid, kHoldersNamed) + (request.avoid.size() == 1 ? " has" : " have") +
                 " refused a pod of it, and a node is tried again when that is five minutes past " +
                 "(status.nodeRefusals)";
  }
  v.blocking.push_back({"pods", s.pool(pool).spec.name, r.replicas, 0, {}});
  return v;
}

// The bounds of sharing that apply to these roles: ", 48 MPS clients a GPU"; "" where none does.
std::string bound_text(const ClusterModel& s, const Request& request, PoolId pool,
                       const std::vector<std::size_t>& roles) {
  for (const std::size_t r : roles) {
    if (auto bound = sharing_bound(s.pool(pool).spec, request.roles[r]); !bound.empty()) return "; " + bound;
  }
  return "";
}

// `never`: it would be too little even if all were free.
std::optional<PendingReason> too_little(const ClusterModel& s, Request& request, PoolId pool,
                                        const std::vector<std::size_t>& roles, bool* never = nullptr) {
  const RoomOnSuited room = room_of(s, request, pool, roles);
  for (const ResourceKind what : kAllKinds) {
    std::vector<std::size_t> asking;
    std::int64_t need = 0;
    for (const std::size_t r : roles) {
      const auto amount = amount_of(s.per_pod(request.roles[r], pool) * request.roles[r].replicas, what);
      if (amount > 0) asking.push_back(r), need += amount;
    }
    const RoomOnSuited here = asking.size() == roles.size() ? room : room_of(s, request, pool, asking);
    const std::int64_t have = amount_of(here.free, what);
    if (need <= have) continue;
    if (never != nullptr) *never = need > amount_of(here.capacity, what);
    const auto by = holders(s, request, pool, asking, what);
    PendingReason v;
    v.reason = Reason::kInsufficientCapacity;
    v.message = "needs " + show(name_of(what), need) + " " + unit(s, pool, name_of(what)) + " in pool " +
                s.pool(pool).spec.name + ", " + show(name_of(what), have) + " free of " +
                show(name_of(what), amount_of(here.capacity, what)) + bound_text(s, request, pool, asking) +
                held_by(by, what);
    Blocking b{name_of(what), s.pool(pool).spec.name, need, have, {}};
    for (const auto& [amount, id] : by) b.by.push_back(id);
    v.blocking.push_back(std::move(b));
    return v;
  }
  return std::nullopt;
}

}  // namespace

PendingReason reason_of_sidelined(const ClusterModel& s, const Job& j) {
  PendingReason v;
  if (const Request& r = s.request_of(j); !r.invalid.empty()) {
    v.reason = Reason::kInvalidSpec;
    v.message = r.invalid;
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
  std::vector<std::string> whose;
  for (const QueueId at : held_back_for(s.tree(), path, pool, b.resource))
    whose.push_back(who(s.tree().queue(at).spec));
  PendingReason v;
  v.reason = Reason::kInsufficientCapacity;
  v.message = "needs " + show(b.resource, b.need) + " " + unit(s, pool, b.resource) + " in pool " + name +
              ", " + show(b.resource, b.have) + " free beside the " + show(b.resource, b.bound) + " that " +
              join(whose, kHoldersNamed) + (whose.size() == 1 ? " has" : " have") +
              " reserved and not in use";
  if (whose.size() > kMaxHolders) whose.resize(kMaxHolders);
  v.blocking.push_back({b.resource, name, b.need, b.have, std::move(whose)});
  return v;
}

PendingReason reason_of_bound(const ClusterModel& s, const BrokenBound& b, PoolId pool) {
  if (b.kind == Bound::kReservedPart) return reason_of_reserved_part(s, b, pool, s.tree().path(b.at));
  const bool quota = b.kind == Bound::kQuota;
  const std::string& name = s.pool(pool).spec.name;
  const std::string whose = who(s.tree().queue(b.at).spec);
  PendingReason v;
  v.reason = quota ? Reason::kQuotaExceeded : Reason::kLimitReached;
  v.message = "needs " + show(b.resource, b.need) + " " + unit(s, pool, b.resource) + " in pool " + name +
              "; " + whose + " has " + show(b.resource, b.have) + " left of its " +
              (quota ? "quota" : "limit") + " of " + show(b.resource, b.bound) +
              (quota ? ", and what is not preemptible must stay within it" : "");
  v.blocking.push_back({b.resource, name, b.need, b.have, {whose}});
  return v;
}

std::optional<PendingReason> reason_of_fair_share(const ClusterModel& s, const Claimant& c,
                                                  const Resources& theirs) {
  for (const ResourceKind what : kAccountedKinds) {
    const std::int64_t asked = amount_of(c.asked, what);
    if (asked <= 0) continue;
    for (const QueueId at : c.path) {
      // Where CPU or memory is not accounted, nobody's share of it binds.
      const std::int64_t fair = amount_of((*c.fair)[static_cast<std::size_t>(at)], what);
      const std::int64_t used = amount_of(s.tree().sums(at, c.pool).allocated, what);
      if (wrapping_add(used, asked) <= fair) continue;
      // What is exchanged inside an ancestor needs no room there.
      const std::int64_t exchanged = amount_of(lent(s, at, c.pool) - lent(s, c.path.front(), c.pool), what);
      if (at != c.path.front() && exchanged >= std::min(asked, wrapping_add(used, asked) - fair)) continue;
      if (amount_of(theirs, what) < asked) return std::nullopt;
      const std::string& name = s.pool(c.pool).spec.name;
      const std::string whose = who(s.tree().queue(at).spec);
      PendingReason v;
      v.reason = Reason::kFairShareReached;
      v.message = "needs " + show(name_of(what), asked) + " " + unit(s, c.pool, name_of(what)) + " in pool " +
                  name + ", too little is free, and nothing may be taken from others for it: " + whose +
                  " has " + show(name_of(what), used) + " of its fair share of " + show(name_of(what), fair);
      v.blocking.push_back({name_of(what), name, asked, std::max<std::int64_t>(0, fair - used), {whose}});
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
  v.message = "needs " + show(name_of(what), amount_of(asked, what)) + " " + unit(s, pool, name_of(what)) +
              " in pool " + p.spec.name + ", " + show(name_of(what), have) +
              " free beside what is reserved for " + p.reservation->name + ", the first in order" +
              (have >= amount_of(asked, what) ? ", but not in such pieces" : "") +
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
      v.message += "enough has left " + whose + ", which has " + show(b->resource, b->have) +
                   " left of its limit of " + show(b->resource, b->bound) + " " + unit(s, pool, b->resource);
      v.blocking.push_back({b->resource, j.assignment->pool, b->need, b->have, {whose}});
      return v;
    }
  }
  v.message +=
      by.empty() ? "what is there has left" : join({by.begin(), by.end()}, kHoldersNamed) + " has left them";
  v.blocking.push_back({"pods", j.assignment->pool, need, have, {by.begin(), by.end()}});
  if (v.blocking[0].by.size() > kMaxHolders) v.blocking[0].by.resize(kMaxHolders);
  return v;
}

PendingReason reason_of_shortage(ClusterModel& s, Request& request, PoolId pool, Refusal& refusal) {
  const std::size_t role = refusal.role;
  refusal.never = true;
  s.work.spend(kStepsOfWords + static_cast<std::int64_t>(s.nodes().size()) / kNodesAStep);
  s.requests.fill_eligible(request, s.nodes().all());
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < request.roles.size(); ++i) {
    if (request.roles[i].replicas == 0) continue;
    if (suited(s, request, pool, i).none) return no_node(s, request, pool, i);
    all.push_back(i);
  }
  if (auto v = reason_of_topology(s, request, pool, true)) return *v;
  refusal.never = false;
  if (auto v = too_little(s, request, pool, all, &refusal.never)) return *v;
  if (auto v = too_little(s, request, pool, {role}); v && all.size() > 1) return *v;
  if (auto v = reason_of_topology(s, request, pool, false)) return *v;
  const RoleSpec& r = request.roles[role];
  std::int64_t fit = 0;
  s.work.spend(s.pool(pool).domains[0].nodes);
  for (const NodeId id : s.pool(pool).nodes) {
    if (s.node(id).takes_part() && request.eligible[role][static_cast<std::size_t>(id)])
      fit += room_for(s.node(id), s.pool(pool).spec, r, View::kNow);
  }
  const ResourceKind what = r.gpus > 0 ? ResourceKind::kGpu : ResourceKind::kCpu;
  const auto by = holders(s, request, pool, {role}, what);
  const std::string& name = s.pool(pool).spec.name;
  PendingReason v;
  v.reason = Reason::kFragmented;
  std::int64_t need = r.replicas;
  if (fit < need) {
    v.message = "enough is free in pool " + name + " in all, but only " + std::to_string(fit) + " of " +
                std::to_string(need) + " pods of role " + r.name + " find it on one node" +
                (r.numa_aligned ? ", with all of a pod on one NUMA node" : "") +
                bound_text(s, request, pool, {role}) + held_by(by, what);
  } else {
    need = request.total.pods;
    fit = refusal.placed;
    const std::string found = std::to_string(fit) + " of " + std::to_string(need) + " pods found a place";
    v.message = request.about_pods
                    ? "enough is free in pool " + name + ", but not where its pod affinity, anti-affinity " +
                          "and spread constraints allow: " + found + held_by(by, what)
                : all.size() == 1 && !s.jobs().with_anti_affinity().empty()
                    ? "enough is free in pool " + name + ", but not where the anti-affinity of other pods " +
                          "allows: " + found + held_by(by, what)
                    : "the pods of role " + r.name + " would find room in pool " + name +
                          ", but not beside those of the other roles: " + found + held_by(by, what);
  }
  Blocking b{"pods", name, need, fit, {}};
  for (const auto& [amount, id] : by) b.by.push_back(id);
  v.blocking.push_back(std::move(b));
  return v;
}

}  // namespace muster::placement
