#include "place.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace muster::placement {
namespace {

// The node would do for a pod of the role if it were empty.
bool would_do(const Node& n, const RoleSpec& r, const std::vector<std::string>& avoid) {
  if (!takes_part(n) || r.gpus > n.spec.gpus) return false;
  const Resources& a = n.spec.allocatable;
  if (r.per_pod.cpu > a.cpu || r.per_pod.memory > a.memory || r.per_pod.pods > a.pods) return false;
  if (r.gpus > 0 && !r.models.empty() && std::find(r.models.begin(), r.models.end(), n.spec.gpu_model) == r.models.end()) return false;
  for (const auto& [key, value] : r.node_selector) {
    const auto found = n.spec.labels.find(key);
    if (found == n.spec.labels.end() || found->second != value) return false;
  }
  for (const AnyOf& terms : r.required) {
    if (!matches(terms, n.spec)) return false;
  }
  return untolerated(n.spec, r.tolerations) == nullptr && std::find(avoid.begin(), avoid.end(), n.spec.name) == avoid.end();
}

// How many pods of the role the node has room for now.
std::int64_t room_for(const Node& n, const RoleSpec& r) {
  const Resources free = n.free();
  std::int64_t k = free.pods;
  if (r.gpus > 0) k = std::min<std::int64_t>(k, n.free_gpus() / r.gpus);
  if (r.per_pod.cpu.value > 0) k = std::min(k, free.cpu.value / r.per_pod.cpu.value);
  if (r.per_pod.memory.value > 0) k = std::min(k, free.memory.value / r.per_pod.memory.value);
  return std::max<std::int64_t>(0, k);
}

std::int64_t preference(const Node& n, const RoleSpec& r) {
  std::int64_t sum = 0;
  for (const auto& [weight, term] : r.preferred) {
    if (matches(term, n.spec)) sum += weight;
  }
  return sum;
}

struct Candidate {
  NodeId node = kNone;
  std::int64_t room = 0;
  // Smaller is better, in this order.
  std::int64_t dislike = 0;    // minus the weight of preferred affinity
  std::int64_t gpus_spoilt = 0;  // for pods without GPUs: GPU nodes last
  std::int64_t rank1 = 0, rank2 = 0;

  bool operator<(const Candidate& o) const {
    return std::tie(dislike, gpus_spoilt, rank1, rank2, node) < std::tie(o.dislike, o.gpus_spoilt, o.rank1, o.rank2, o.node);
  }
};

Candidate rate(NodeId id, const Node& n, const RoleSpec& r, std::int64_t room, std::int64_t wanted, NodeOrder order) {
  Candidate c{id, room, -preference(n, r), 0, 0, 0};
  const std::int64_t hosts = std::min(room, wanted);
  if (r.gpus == 0) {
    c.gpus_spoilt = n.free_gpus();
    c.rank1 = order == NodeOrder::kPack ? n.free().cpu.value : -n.free().cpu.value;
    return c;
  }
  if (order == NodeOrder::kSpread) {
    c.rank1 = -n.free_gpus();
    return c;
  }
  // As few nodes as possible, then the one with least left over.
  c.rank1 = -hosts;
  c.rank2 = n.free_gpus() - hosts * r.gpus;
  return c;
}

// The best node for the next of `wanted` pods of the role; kNone: no node has room.
Candidate best_node(const State& s, const Pool& pool, const RoleSpec& r, std::int64_t wanted, const std::vector<std::string>& avoid) {
  Candidate best;
  const auto look = [&](NodeId id) {
    const Node& n = s.nodes[static_cast<std::size_t>(id)];
    const std::int64_t room = room_for(n, r);
    if (room == 0 || !would_do(n, r, avoid)) return false;
    const Candidate c = rate(id, n, r, room, wanted, pool.spec.order);
    if (best.node == kNone || c < best) best = c;
    return true;
  };
  // One packed pod without preferences: the first that fits in the fullest bucket is the best there is.
  const bool first_will_do = r.gpus > 0 && pool.spec.order == NodeOrder::kPack && r.preferred.empty();
  for (const auto& [model, buckets] : pool.models) {
    if (r.gpus > 0 && !r.models.empty() && std::find(r.models.begin(), r.models.end(), model) == r.models.end()) continue;
    const auto enough = first_will_do ? buckets.by_free.lower_bound(static_cast<std::int32_t>(std::min<std::int64_t>(wanted * r.gpus, 1 << 20)))
                                      : buckets.by_free.end();
    bool found = false;
    for (auto it = enough; it != buckets.by_free.end() && !found; ++it) {
      for (const NodeId id : it->second) {
        const std::int64_t room = room_for(s.nodes[static_cast<std::size_t>(id)], r);
        if (room >= wanted && look(id)) {
          found = true;
          break;
        }
      }
    }
    if (found) continue;
    for (auto it = buckets.by_free.lower_bound(r.gpus); it != buckets.by_free.end(); ++it) {
      for (const NodeId id : it->second) look(id);
    }
  }
  return best;
}

std::vector<std::int32_t> free_devices(const Node& n, std::int32_t count) {
  std::vector<std::int32_t> list;
  for (std::int32_t i = 0; i < n.spec.gpus && static_cast<std::int32_t>(list.size()) < count; ++i) {
    if (n.gpu_holder[static_cast<std::size_t>(i)] == kNone) list.push_back(i);
  }
  return list;
}

Shortage explain(const State& s, const Pool& pool, const RoleSpec& r, std::size_t role, const std::vector<std::string>& avoid) {
  Shortage x;
  x.role = role;
  x.need = r.per_pod * r.replicas;
  x.no_node_would_do = true;
  for (const NodeId id : pool.nodes) {
    const Node& n = s.nodes[static_cast<std::size_t>(id)];
    if (!would_do(n, r, avoid)) continue;
    x.no_node_would_do = false;
    x.fit += room_for(n, r);
    Resources free = n.free();
    free.gpu = MilliGpu{n.free_gpus() * kMilliPerGpu};
    x.free += free;
  }
  return x;
}

// Free GPUs of the pool, by bucket: an upper bound that refutes most hopeless gangs without a search.
std::int64_t free_gpus_at_least(const Pool& pool, const RoleSpec& r) {
  std::int64_t sum = 0;
  for (const auto& [model, buckets] : pool.models) {
    if (!r.models.empty() && std::find(r.models.begin(), r.models.end(), model) == r.models.end()) continue;
    for (auto it = buckets.by_free.lower_bound(r.gpus); it != buckets.by_free.end(); ++it) {
      sum += it->first / r.gpus * static_cast<std::int64_t>(it->second.size());
    }
  }
  return sum;
}

// Hungriest roles first: they have the least choice.
std::vector<std::size_t> role_order(const JobSpec& spec) {
  std::vector<std::size_t> order(spec.roles.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const RoleSpec& x = spec.roles[a];
    const RoleSpec& y = spec.roles[b];
    return std::tie(x.gpus, x.per_pod.cpu, x.per_pod.memory) > std::tie(y.gpus, y.per_pod.cpu, y.per_pod.memory);
  });
  return order;
}

}  // namespace

void Statement::place(JobId job, const RoleSpec& role, const PodPlace& p, LeafId leaf, PoolId pool, bool fixed) {
  charges_.push_back(state_.take(job, p.node, p.gpus, role, leaf, pool, fixed, nullptr));
}
void Statement::rollback() {
  for (auto it = charges_.rbegin(); it != charges_.rend(); ++it) state_.give_back(*it, kNone);
  charges_.clear();
}
std::vector<Charge> Statement::commit() { return std::exchange(charges_, {}); }

std::optional<std::vector<PodPlace>> place_gang(State& s, Statement& statement, JobId id, PoolId pool_id, Shortage& shortage) {
  const Job& job = s.jobs[static_cast<std::size_t>(id)];
  const Pool& pool = s.pools[static_cast<std::size_t>(pool_id)];
  const auto give_up = [&](std::size_t role) {
    statement.rollback();
    shortage = explain(s, pool, job.spec.roles[role], role, job.spec.avoid_nodes);
    return std::nullopt;
  };
  const auto order = role_order(job.spec);
  for (const std::size_t role : order) {
    const RoleSpec& r = job.spec.roles[role];
    if (r.gpus > 0 && free_gpus_at_least(pool, r) < r.replicas) return give_up(role);
  }
  std::vector<PodPlace> places;
  for (const std::size_t role : order) {
    const RoleSpec& r = job.spec.roles[role];
    std::int32_t next = 0;
    while (next < r.replicas) {
      const Candidate c = best_node(s, pool, r, r.replicas - next, job.spec.avoid_nodes);
      if (c.node == kNone) return give_up(role);
      const std::int64_t here = pool.spec.order == NodeOrder::kSpread ? 1 : std::min<std::int64_t>(c.room, r.replicas - next);
      for (std::int64_t k = 0; k < here; ++k, ++next) {
        const Node& n = s.nodes[static_cast<std::size_t>(c.node)];
        PodPlace p{static_cast<std::int32_t>(role), next, n.spec.name, free_devices(n, r.gpus)};
        statement.place(id, r, p, job.leaf, pool_id, !job.spec.preemptible);
        places.push_back(std::move(p));
      }
    }
  }
  return places;
}

std::optional<PodPlace> place_pod(State& s, Statement& statement, JobId id, PoolId pool_id, std::int32_t role, std::int32_t index) {
  const Job& job = s.jobs[static_cast<std::size_t>(id)];
  const RoleSpec& r = job.spec.roles[static_cast<std::size_t>(role)];
  const Candidate c = best_node(s, s.pools[static_cast<std::size_t>(pool_id)], r, 1, job.spec.avoid_nodes);
  if (c.node == kNone) return std::nullopt;
  const Node& n = s.nodes[static_cast<std::size_t>(c.node)];
  PodPlace p{role, index, n.spec.name, free_devices(n, r.gpus)};
  statement.place(id, r, p, job.leaf, pool_id, !job.spec.preemptible);
  return p;
}

}  // namespace muster::placement
