// RULES.md 7.4, what is lacking on the nodes: none would do, too little is free, or it is free in the wrong
// pieces.
#include <algorithm>
#include <map>

#include "explain/reasons.h"
#include "node/numa.h"
#include "node/resource_vector.h"
#include "node/sharing.h"
#include "place/nodes.h"

namespace muster::placement {
namespace {

constexpr std::int64_t kStepsOfWords = 50;
constexpr std::int64_t kNodesAStep = 20;  // where only the roster is read, or one bit of each node

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
      std::int64_t amount = 0;  // an elastic job may hold more than it asked for
      for (const Allocation& c : j.allocations) amount += amount_of(c.amounts, what);
      if (amount > 0) list.emplace_back(amount, j.spec.id);
      s.work.spend(static_cast<std::int64_t>(j.allocations.size()));
    }
    keep_most(list);
  }
  const std::int64_t others = amount_of(s.pool(pool).used_by_others, what);
  if (others > 0 && list.size() < kMaxHolders) list.emplace_back(others, "other pods");
  return list;
}

std::string held_by(const ClusterModel& s, const Holders& list, ResourceKind what) {
  std::string text;
  for (std::size_t i = 0; i < list.size() && i < kHoldersNamed; ++i) {
    text += (i == 0 ? "; held by " : ", ") + list[i].second + " (" +
            show(s.resource_names.name_of(what), list[i].first) + ")";
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
  const auto look = [&](const std::string& name, std::int64_t asked, auto&& amount) {
    std::int64_t most = 0;
    each_node(s, pool, [&](NodeId id) {
      most = std::max(most, amount(s.node(id).spec));
      return true;
    });
    if (asked <= most) return;
    text += text.empty() ? "; no node has more than " : ", ";
    text += show(name, most) + " " + unit_of(s.pool(pool).spec, name);
  };
  for (const ResourceKind what :
       {ResourceKind::kGpu, ResourceKind::kCpu, ResourceKind::kMemory, ResourceKind::kPods}) {
    if (amount_of(r.per_pod, what) == 0) continue;
    if (what == ResourceKind::kGpu && r.share.kind != GpuShare::Kind::kWhole) continue;
    look(name_of(what), amount_of(r.per_pod, what),
         [&](const NodeSpec& n) { return amount_of(n.allocatable, what); });
  }
  for (const auto& [name, asked] : r.named) {
    look(name, asked, [&](const NodeSpec& n) {
      const auto has = n.named.find(name);
      return has == n.named.end() ? 0 : has->second;
    });
  }
  return text;
}

// Why pods that demand alignment go to none of the nodes that say why; the most frequent reason comes first.
std::string why_unaligned(const ClusterModel& s, PoolId pool) {
  std::map<std::string, std::int64_t> nodes;
  each_node(s, pool, [&](NodeId id) {
    if (const std::string& why = s.node(id).spec.unaligned; !why.empty()) ++nodes[why];
    return true;
  });
  Holders reasons;
  for (const auto& [why, count] : nodes) reasons.emplace_back(count, why);
  keep_most(reasons);
  std::string text;
  for (const auto& [count, why] : reasons)
    text += "; on " + std::to_string(count) + " of them no pod is aligned: " + why;
  return text;
}

PendingReason no_node(const ClusterModel& s, const Request& request, PoolId pool, std::size_t role) {
  if (s.pool(pool).domains[0].nodes == 0) {
    const std::string& name = s.pool(pool).spec.name;
    PendingReason v;
    v.reason = Reason::kNoMatchingNodes;
    v.message =
        "pool " + name +
        " has no usable node: none is there, or they are not Ready, cordoned or in another pool as well";
    v.blocking.push_back({"pods", name, request.roles[role].replicas, 0, {}});
    return v;
  }
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
  for (const auto& [name, amount] : r.named) asks += ", " + show(name, amount) + " " + name;
  if (!r.node_selector.empty() || !r.required.empty()) asks += ", its node selector, affinity and volumes";
  PendingReason v;
  v.reason = Reason::kNoMatchingNodes;
  v.message = "none of the " + std::to_string(s.pool(pool).domains[0].nodes) + " usable nodes of pool " +
              s.pool(pool).spec.name + " would do for a pod of role " + r.name + " even if it were empty (" +
              asks + ", and the nodes' taints" + beyond_every_node(s, pool, r) + ")";
  if (r.numa_aligned) v.message += why_unaligned(s, pool);
  if (r.named.contains(s.pool(pool).spec.gpu_resource)) v.message += "; GPUs are asked for with gpus";
  if (!request.avoid.empty()) {
    v.message += "; " + join(request.avoid, kHoldersNamed) + (request.avoid.size() == 1 ? " has" : " have") +
                 " refused a pod of it or had a full GPU for it, and a node is tried again when that is five "
                 "minutes past " +
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
    const char* name = s.resource_names.name_of(what);
    PendingReason v;
    v.reason = Reason::kInsufficientCapacity;
    v.message = "needs " + show(name, need) + " " + unit_of(s.pool(pool).spec, name) + " in pool " +
                s.pool(pool).spec.name + ", " + show(name, have) + " free of " +
                show(name, amount_of(here.capacity, what)) + bound_text(s, request, pool, asking) +
                held_by(s, by, what);
    Blocking b{name, s.pool(pool).spec.name, need, have, {}};
    for (const auto& [amount, id] : by) b.by.push_back(id);
    v.blocking.push_back(std::move(b));
    return v;
  }
  return std::nullopt;
}

}  // namespace

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
  bool aligned = false;
  s.work.spend(s.pool(pool).domains[0].nodes);
  for (const NodeId id : s.pool(pool).nodes) {
    const Node& n = s.node(id);
    if (!n.takes_part() || !request.eligible[role][static_cast<std::size_t>(id)]) continue;
    fit += room_for(n, s.pool(pool).spec, r, View::kNow);
    aligned = aligned || must_align(n.spec, r);
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
                (aligned ? ", with all of a pod on one NUMA node" : "") +
                (aligned && !r.numa_aligned ? " where kubelets align" : "") +
                bound_text(s, request, pool, {role}) + held_by(s, by, what);
  } else {
    need = request.total.pods;
    fit = refusal.placed;
    const std::string found = std::to_string(fit) + " of " + std::to_string(need) + " pods found a place";
    v.message = request.about_pods
                    ? "enough is free in pool " + name + ", but not where its pod affinity, anti-affinity " +
                          "and spread constraints allow: " + found + held_by(s, by, what)
                : all.size() == 1 && !s.jobs().with_anti_affinity().empty()
                    ? "enough is free in pool " + name + ", but not where the anti-affinity of other pods " +
                          "allows: " + found + held_by(s, by, what)
                    : "the pods of role " + r.name + " would find room in pool " + name +
                          ", but not beside those of the other roles: " + found + held_by(s, by, what);
  }
  Blocking b{"pods", name, need, fit, {}};
  for (const auto& [amount, id] : by) b.by.push_back(id);
  v.blocking.push_back(std::move(b));
  return v;
}

}  // namespace muster::placement
