#include "place.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "reservation.h"

namespace muster::placement {
namespace {

// What to look for, and where.
struct Search {
  const State& state;
  const Pool& pool;
  const PlaceQuery& query;
  const RoleSpec& role;
  const std::vector<bool>& eligible;
  std::vector<ModelId> models;  // sorted; nodes without GPUs first
  bool zones = false;           // some node may take a pod on one NUMA node, another may not
};

Search search_for(State& s, const Pool& pool, const PlaceQuery& query, const Request& request,
                  std::size_t role) {
  const RoleSpec& r = request.roles[role];
  Search search{s, pool, query, r, request.eligible[role], {}};
  search.zones = r.gpus > 0 && !pool.zone_gpus.empty() && r.gpus <= pool.zone_gpus.rbegin()->first;
  for (const auto& [name, id] : s.model_ids) {
    if (r.gpus > 0 && name.empty()) continue;
    const bool accepted = r.gpus == 0 || r.models.empty() ||
                          std::find(r.models.begin(), r.models.end(), name.substr(4)) != r.models.end();
    if (accepted && pool.by_free.contains(id)) search.models.push_back(id);
  }
  return search;  // model_ids is sorted by name, and that of nodes without GPUs is empty
}

// Smaller is better.
struct Candidate {
  NodeId node = kNoId;
  std::int64_t room = 0;
  std::int64_t dislike = 0;      // minus the weight of preferred affinity
  std::int64_t gpus_beside = 0;  // of pods without GPUs: what they would make hard to use
  std::int64_t scattered = 0;    // 1: a pod's GPUs, CPU and memory would be on several NUMA nodes
  std::int64_t first = 0, second = 0;

  auto key() const { return std::tie(dislike, scattered, gpus_beside, first, second, node); }
  bool better_than(const Candidate& o) const { return o.node == kNoId || key() < o.key(); }
};

std::int64_t preference(const NodeSpec& n, const RoleSpec& r) {
  std::int64_t sum = 0;
  for (const auto& [weight, term] : r.preferred) {
    if (matches(term, n)) sum = wrapping_add(sum, std::clamp<std::int64_t>(weight, -1'000'000, 1'000'000));
  }
  return sum;
}

Candidate rate(const Search& x, NodeId id, std::int64_t room, std::int64_t wanted) {
  const Node& n = x.state.node(id);
  Candidate c;
  c.node = id;
  c.room = room;
  c.dislike = -preference(n.spec, x.role);
  if (x.zones) c.scattered = fits_one_zone(n, x.pool, x.role, x.query.view) ? 0 : 1;
  const bool pack = x.pool.spec.order == NodeOrder::kPack;
  if (x.role.gpus == 0) {
    c.gpus_beside = n.spec.gpus == 0 && n.spec.mig.empty() ? 0 : 1 + std::max(0, n.free_gpus());
    c.first = pack ? n.free().cpu.value : -n.free().cpu.value;
  } else if (pack) {
    const std::int64_t hosts = std::min(room, wanted);
    c.first = -hosts;
    c.second = n.free_gpus() - hosts * x.role.gpus;
  } else {
    c.first = -n.free_gpus();
  }
  return c;
}

bool shunned(const NodeSpec& n, const RoleSpec& r) {
  return std::any_of(n.taints.begin(), n.taints.end(), [&](const Taint& t) {
    return t.effect == "PreferNoSchedule" &&
           std::none_of(r.tolerations.begin(), r.tolerations.end(), [&](const Toleration& o) {
             if (!o.effect.empty() && o.effect != t.effect) return false;
             return o.key.empty() ? o.exists : o.key == t.key && (o.exists || o.value == t.value);
           });
  });
}

// Looks at one bucket of nodes with equally many free GPUs; true: it has one that takes `enough` pods, and no
// other of this bucket can be better.
bool look_at(const Search& x, const std::set<NodeId>& nodes, std::int64_t wanted, std::int64_t enough,
             bool shun, Candidate& best) {
  for (const NodeId id : nodes) {
    if (!x.eligible[static_cast<std::size_t>(id)]) continue;
    const Node& n = x.state.node(id);
    const std::int64_t room = room_for(n, x.pool, x.role, x.query.view);
    if (room == 0 || (shun && shunned(n.spec, x.role))) continue;
    const Candidate c = rate(x, id, room, wanted);
    if (c.better_than(best)) best = c;
    if (enough > 0 && std::min(room, wanted) >= enough && c.scattered == 0) return true;
  }
  return false;
}

// Packing by buckets: first those from which one node takes all that is wanted, the tightest first; then the
// others, the emptiest first. Stops where no bucket to come can be better.
void look_for_tightest(const Search& x, ModelId model, std::int64_t wanted, bool shun, Candidate& best) {
  const auto& buckets = x.pool.by_free.at(model);
  const std::int64_t gpus = x.role.gpus;
  const auto most = static_cast<std::int32_t>(std::min<std::int64_t>(wanted * gpus, 1 << 20));
  const auto whole = buckets.lower_bound(most);
  for (auto it = whole; it != buckets.end(); ++it) {
    if (best.node != kNoId && best.scattered == 0 &&
        std::pair(best.first, best.second) < std::pair(-wanted, it->first - wanted * gpus))
      break;
    if (look_at(x, it->second, wanted, wanted, shun, best)) break;
  }
  for (auto it = whole; it != buckets.begin();) {
    --it;
    const std::int64_t hosts = it->first / gpus;
    if (it->first < gpus || (best.node != kNoId && best.scattered == 0 && -hosts > best.first)) break;
    look_at(x, it->second, wanted, hosts, shun, best);
  }
}

Candidate best_node(const Search& x, std::int64_t wanted, bool shun) {
  Candidate best;
  const bool whole = x.role.share.kind == GpuShare::Kind::kWhole;
  const bool by_buckets = x.role.gpus > 0 && whole && x.role.preferred.empty();
  for (const ModelId model : x.models) {
    const auto& buckets = x.pool.by_free.at(model);
    if (by_buckets && x.pool.spec.order == NodeOrder::kPack) {
      look_for_tightest(x, model, wanted, shun, best);
      continue;
    }
    for (auto it = buckets.rbegin();
         it != buckets.rend() && (x.role.gpus == 0 || !whole || it->first >= x.role.gpus); ++it) {
      // Spread: the first that fits in the emptiest bucket is the best of its model.
      if (look_at(x, it->second, wanted, by_buckets ? 1 : 0, shun, best)) break;
    }
    if (best.node != kNoId && x.role.gpus == 0 && x.role.preferred.empty() && best.gpus_beside == 0) break;
  }
  return best;
}

Candidate best_node(const Search& x, std::int64_t wanted) {
  const Candidate best = best_node(x, wanted, true);
  return best.node != kNoId ? best : best_node(x, wanted, false);
}

// What the pool has free at most, against what is asked: refutes most impossible gangs without a look at any
// node.
std::optional<std::size_t> refuted_role(const Domain& domain, const Request& request) {
  Resources sum;
  for (std::size_t i = 0; i < request.roles.size(); ++i) {
    const RoleSpec& r = request.roles[i];
    sum += r.per_pod * r.replicas;
    const bool too_much =
        sum.cpu > domain.free.cpu || sum.memory > domain.free.memory || sum.pods > domain.free.pods;
    if (too_much) return i;
    if (r.gpus == 0 || r.share.kind != GpuShare::Kind::kWhole) continue;
    std::int64_t room = 0;
    for (const auto& [key, nodes] : domain.nodes_by_free) {
      if (key.second >= r.gpus) room += static_cast<std::int64_t>(key.second / r.gpus) * nodes;
    }
    if (room < r.replicas) return i;
  }
  return std::nullopt;
}

// Hungriest roles first: they have the least choice. Otherwise those first for which the fewest nodes would
// do.
std::vector<std::size_t> role_order(const Request& request, bool by_choice) {
  std::vector<std::size_t> order(request.roles.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto choice = [&](std::size_t i) {
    return by_choice ? std::count(request.eligible[i].begin(), request.eligible[i].end(), true) : 0;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const RoleSpec& x = request.roles[a];
    const RoleSpec& y = request.roles[b];
    const auto p = choice(a), q = choice(b);
    if (p != q) return p < q;
    return std::tie(x.gpus, x.per_pod.cpu, x.per_pod.memory) >
           std::tie(y.gpus, y.per_pod.cpu, y.per_pod.memory);
  });
  return order;
}

// Places the next pods of the role on the node until they are `most` or no more fit.
void fill_node(State& s, Statement& statement, const PlaceQuery& q, const RoleSpec& r, NodeId node,
               const std::vector<PodWish>& pods, std::size_t& next, std::int64_t most,
               std::vector<PodPlace>& places) {
  for (std::int64_t k = 0; k < most && next < pods.size(); ++k, ++next) {
    const auto to_come = std::min(most - k, static_cast<std::int64_t>(pods.size() - next));
    auto devices = choose_devices(s.node(node), s.pool(q.pool), r, q.view, {q.job, to_come});
    if (!devices) return;
    PodPlace p{pods[next].role, pods[next].index, s.node(node).spec.name, *std::move(devices)};
    statement.place(q.job, p, q.pool, q.hold);
    places.push_back(std::move(p));
  }
}

// All wanted pods of one role; false: not all fit.
bool place_role(State& s, Statement& statement, const Search& search, const std::vector<PodWish>& pods,
                std::vector<PodPlace>& places) {
  for (std::size_t next = 0; next < pods.size();) {
    const auto left = static_cast<std::int64_t>(pods.size() - next);
    const Candidate c = best_node(search, left);
    if (c.node == kNoId) return false;
    const bool pack = search.pool.spec.order == NodeOrder::kPack;
    const std::size_t before = next;
    fill_node(s, statement, search.query, search.role, c.node, pods, next, pack ? std::min(c.room, left) : 1,
              places);
    if (next == before) return false;
  }
  return true;
}

std::vector<std::vector<PodWish>> by_role(const PlaceQuery& q, const Request& request) {
  std::vector<std::vector<PodWish>> wishes(request.roles.size());
  for (const PodWish& w : q.pods) wishes[static_cast<std::size_t>(w.role)].push_back(w);
  for (std::size_t r = 0; r < wishes.size() && q.pods.empty(); ++r) {
    for (std::int32_t i = 0; i < request.roles[r].replicas; ++i)
      wishes[r].push_back({static_cast<std::int32_t>(r), i});
  }
  return wishes;
}

}  // namespace

std::int64_t room_for(const Node& n, const Pool& pool, const RoleSpec& r, View view) {
  if (n.reserved && pool.closed) return 0;
  const Resources free = n.free(view);
  std::int64_t k = free.pods;
  if (r.per_pod.cpu.value > 0) k = std::min(k, free.cpu.value / r.per_pod.cpu.value);
  if (r.per_pod.memory.value > 0) k = std::min(k, free.memory.value / r.per_pod.memory.value);
  return k <= 0 ? 0 : room_on_gpus(n, pool, r, view, k);
}

bool refuted_by_totals(const State& s, const PlaceQuery& q) {
  if (!q.pods.empty()) return false;
  return refuted_role(s.pool(q.pool).domains[static_cast<std::size_t>(q.within)], s.request_of(s.job(q.job)))
      .has_value();
}

std::optional<std::vector<PodPlace>> place(State& s, Statement& statement, const PlaceQuery& q,
                                           Refusal* refusal) {
  Request& request = s.requests.at(s.job(q.job).request);
  Pool& pool = s.pool(q.pool);
  const Closing closing(pool, !q.anywhere && kept_off(s, q.job, q.pool));
  if (const auto role = q.pods.empty()
                            ? refuted_role(pool.domains[static_cast<std::size_t>(q.within)], request)
                            : std::nullopt) {
    if (refusal != nullptr) refusal->role = *role, refusal->placed = 0;
    return std::nullopt;
  }
  s.requests.fill_eligible(request, s.nodes);
  const auto wishes = by_role(q, request);
  const std::size_t start = statement.mark();
  std::vector<std::size_t> tried;
  for (const bool by_choice : {false, true}) {
    const auto order = role_order(request, by_choice);
    if (order == tried) break;
    tried = order;
    std::vector<PodPlace> places;
    bool fits = true;
    for (const std::size_t role : order) {
      if (wishes[role].empty()) continue;
      fits = place_role(s, statement, search_for(s, pool, q, request, role), wishes[role], places);
      if (fits) continue;
      if (!by_choice && refusal != nullptr)
        refusal->role = role, refusal->placed = static_cast<std::int64_t>(places.size());
      break;
    }
    if (fits) return places;
    statement.rollback(start);
  }
  return std::nullopt;
}

}  // namespace muster::placement
