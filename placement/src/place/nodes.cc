#include "place/nodes.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "node/resource_vector.h"
#include "place/affinity.h"

namespace muster::placement {
namespace {

std::int64_t preference(const NodeSpec& n, const RoleSpec& r) {
  std::int64_t sum = 0;
  for (const auto& [weight, term] : r.preferred) {
    if (matches(term, n)) sum = wrapping_add(sum, std::clamp<std::int64_t>(weight, -1'000'000, 1'000'000));
  }
  return sum;
}

bool has_preferences(const NodeSearch& x) {
  return std::any_of(x.shape.roles.begin(), x.shape.roles.end(), [&](std::size_t r) {
    return !x.request.roles[r].preferred.empty() || (x.affinity != nullptr && x.affinity->prefers(r));
  });
}

std::int64_t shared_domains(const Node& a, const Node& b) {
  std::size_t k = 0;
  while (k < a.domains.size() && k < b.domains.size() && a.domains[k] == b.domains[k]) ++k;
  return static_cast<std::int64_t>(k);
}

constexpr std::int64_t kSeveral = 2;  // pods are wanted; how many does not matter

// By what the next of so many pods may be placed: by what it wastes. Gangs of whole GPUs are not: they go by
// what fits tightest, which needs no look at all nodes for each pod, and stay near each other.
using Matters = Fragmentation::Matters;
Matters graded(const NodeSearch& x, std::int64_t wanted) {
  if (x.pool.spec.order != NodeOrder::kPack || x.shape.roles.size() != 1 || x.near != nullptr ||
      (wanted > 1 && !x.shape.shares))
    return Matters::kNot;
  const Matters matters = x.pool.fragmentation.matters();
  return !x.shape.takes_gpus() && matters == Matters::kByCount ? Matters::kNot : matters;
}

RankedNode rate(const NodeSearch& x, NodeId id, std::int64_t room, std::int64_t wanted) {
  const Node& n = x.state.node(id);
  RankedNode c;
  c.node = id;
  c.room = room;
  for (const std::size_t r : x.shape.roles) {
    c.dislike -= preference(n.spec, x.request.roles[r]);
    if (x.affinity != nullptr) c.dislike += x.affinity->dislike(r, id);
  }
  for (std::size_t k = 0; k < x.shape.roles.size() && x.shape.zones && c.scattered == 0; ++k)
    c.scattered = fits_one_zone(n, x.pool.spec, x.request.roles[x.shape.roles[k]], x.view) ? 0 : 1;
  if (x.near != nullptr) c.apart = -shared_domains(n, *x.near);
  const bool pack = x.pool.spec.order == NodeOrder::kPack;
  if (graded(x, wanted) != Matters::kNot) {
    c.gpus_beside = x.shape.takes_gpus() || (n.spec.gpus == 0 && n.spec.mig.empty()) ? 0 : 1;
    c.first = -std::min(room, wanted);
    c.waste =
        x.pool.fragmentation.increase(n, static_cast<std::size_t>(id), x.request.roles[x.shape.roles[0]]);
    c.second = n.free_gpus();
  } else if (!x.shape.takes_gpus()) {
    c.gpus_beside = n.spec.gpus == 0 && n.spec.mig.empty() ? 0 : 1 + std::max(0, n.free_gpus());
    c.first = pack ? n.free().cpu.value : -n.free().cpu.value;
  } else if (pack) {
    const std::int64_t hosts = std::min(room, wanted);
    c.first = -hosts;
    c.second = n.free_gpus() - hosts * x.shape.gpus;
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

bool admissible(const NodeSearch& x, NodeId id, bool shun) {
  for (const std::size_t r : x.shape.roles) {
    if (!x.request.eligible[r][static_cast<std::size_t>(id)]) return false;
    if (shun && shunned(x.state.node(id).spec, x.request.roles[r])) return false;
    if (x.affinity != nullptr && !x.affinity->allows(r, id)) return false;
  }
  return x.banned == nullptr || std::find(x.banned->begin(), x.banned->end(), id) == x.banned->end();
}

// How many bundles are wanted, and how many a node must take to be looked at.
struct Want {
  std::int64_t all = 1, least = 1;
  bool shun = false;  // no nodes with a taint PreferNoSchedule
};

// Looks at nodes with equally many free GPUs; true: there is one that takes `enough`, and no other of them
// can be better.
bool look_at(const NodeSearch& x, const std::vector<NodeId>& nodes, const Want& want, std::int64_t enough,
             RankedNode& best) {
  for (const NodeId id : nodes) {
    x.state.work.spend(1);
    if (!admissible(x, id, want.shun)) continue;
    const std::int64_t room = room_for(x.state.node(id), x.pool.spec, x.request, x.shape, x.view, x.limits);
    if (room < want.least) continue;
    const RankedNode c = rate(x, id, room, want.all);
    if (c.better_than(best)) best = c;
    if (enough > 0 && std::min(room, want.all) >= enough && c.scattered == 0) return true;
  }
  return false;
}

// The same with those first that stand near.
bool look_near(const NodeSearch& x, ModelId model, const Buckets::value_type& bucket, const Want& want,
               std::int64_t enough, RankedNode& best) {
  if (x.near != nullptr && enough > 0) {
    const auto inner = static_cast<std::size_t>(x.domain->depth) + 1;
    for (std::size_t k = x.near->domains.size(); k > inner; --k) {
      const Domain& d = x.pool.domains[static_cast<std::size_t>(x.near->domains[k - 1])];
      const auto buckets = d.by_free.find(model);
      if (buckets == d.by_free.end()) continue;
      const auto same = buckets->second.find(bucket.first);
      if (same != buckets->second.end() && look_at(x, same->second, want, enough, best)) return true;
    }
  }
  return look_at(x, bucket.second, want, enough, best);
}

// Packing by buckets: first those from which one node takes all that is wanted, the tightest first; then the
// others, the emptiest first. Stops where no bucket to come can be better.
void look_for_tightest(const NodeSearch& x, ModelId model, const Want& want, RankedNode& best) {
  const Buckets& buckets = x.domain->by_free.at(model);
  const std::int64_t gpus = x.shape.gpus;
  const auto most = static_cast<std::int32_t>(std::min<std::int64_t>(want.all * gpus, 1 << 20));
  const auto whole = buckets.lower_bound(most);
  for (auto it = whole; it != buckets.end(); ++it) {
    if (best.node != kNoId && best.scattered == 0 &&
        std::pair(best.first, best.second) < std::pair(-want.all, it->first - want.all * gpus))
      break;
    if (look_near(x, model, *it, want, want.all, best)) break;
  }
  for (auto it = whole; it != buckets.begin();) {
    --it;
    const std::int64_t hosts = it->first / gpus;
    if (hosts < want.least || (best.node != kNoId && best.scattered == 0 && -hosts > best.first)) break;
    look_near(x, model, *it, want, hosts, best);
  }
}

RankedNode best_of(const NodeSearch& x, const Want& want) {
  RankedNode best;
  const bool preferences = has_preferences(x);
  const bool bounded = x.view != View::kForNominated;  // buckets are bounds
  const Matters matters = graded(x, want.all);
  const bool by_buckets =
      x.shape.gpus > 0 && !x.shape.shares && !preferences && bounded && matters != Matters::kByNode;
  for (const ModelId model : x.shape.models) {
    const auto found = x.domain->by_free.find(model);
    if (found == x.domain->by_free.end()) continue;
    if (by_buckets && x.pool.spec.order == NodeOrder::kPack && matters == Matters::kNot) {
      look_for_tightest(x, model, want, best);
      continue;
    }
    const Buckets& buckets = found->second;
    // More GPUs may be in use than there are: that is no matter to pods without.
    const std::int32_t from =
        bounded && x.shape.gpus > 0 ? x.shape.gpus : std::numeric_limits<std::int32_t>::min();
    for (auto it = buckets.rbegin(); it != buckets.rend() && it->first >= from; ++it) {
      // Spread: the first that fits in the emptiest bucket is the best of its model.
      const bool found_one = look_near(x, model, *it, want, by_buckets ? want.least : 0, best);
      if (found_one && matters == Matters::kNot) break;
    }
    if (best.node != kNoId && !x.shape.takes_gpus() && !preferences && best.gpus_beside == 0) break;
  }
  return best;
}

// What the order of nodes depends on is the node alone, and all of them would have to be looked at.
bool can_be_ranked(const NodeSearch& x, std::int64_t wanted) {
  const bool whole_pool = x.domain->depth == 0 && x.view != View::kForNominated &&
                          !x.limits.without_reserved && x.limits.min_gpu_memory.value == 0 &&
                          x.limits.spared_models == ModelPlaces{};
  const bool by_node_alone = x.near == nullptr && x.affinity == nullptr && x.shape.roles.size() == 1 &&
                             (x.banned == nullptr || x.banned->empty()) && !has_preferences(x);
  if (!whole_pool || !by_node_alone) return false;
  const Matters matters = graded(x, wanted);
  return matters == Matters::kNot ? !x.shape.takes_gpus() : matters == Matters::kByNode && wanted == 1;
}

RankedNode best_ranked(const NodeSearch& x, std::int64_t wanted, std::int64_t least) {
  const bool by_waste = graded(x, wanted) != Matters::kNot;
  for (const bool shun : {true, false}) {
    const auto candidate = [&](NodeId id) -> std::optional<RankedNode> {
      x.state.work.spend(1);
      const Node& n = x.state.node(id);
      const bool here = n.takes_part() && &x.state.pool(n.pool) == &x.pool;
      if (!here || std::find(x.shape.models.begin(), x.shape.models.end(), n.model) == x.shape.models.end() ||
          !admissible(x, id, shun))
        return std::nullopt;
      const std::int64_t room = room_for(n, x.pool.spec, x.request, x.shape, x.view, x.limits);
      return room < least ? std::nullopt : std::optional(rate(x, id, room, wanted));
    };
    const NodeId best = x.pool.rankings.best(
        {x.request.serial, x.shape.roles[0], x.view, shun, by_waste, least}, x.pool.fragmentation.version(),
        x.pool.nodes, [&](NodeId id) { return x.state.node(id).stamp; },
        [&](NodeId id) -> std::optional<Rank> {
          const auto c = candidate(id);
          if (!c) return std::nullopt;
          return Rank{(c->scattered << 32) + c->gpus_beside, by_waste ? c->waste : c->first, c->second};
        });
    if (best != kNoId) return *candidate(best);
  }
  return {};
}

template <class Each>  // bool(model, bucket)
void for_buckets(const Domain& domain, const Shape& shape, std::int64_t from, Each&& each) {
  for (const ModelId model : shape.models) {
    const auto found = domain.by_free.find(model);
    if (found == domain.by_free.end()) continue;
    const auto first = from <= 0 ? found->second.begin()
                                 : found->second.lower_bound(static_cast<std::int32_t>(std::min<std::int64_t>(
                                       from, std::numeric_limits<std::int32_t>::max())));
    for (auto it = first; it != found->second.end(); ++it) each(*it);
  }
}

}  // namespace

Shape shape_of(const ClusterModel& s, const Pool& pool, const Request& request,
               std::vector<std::size_t> roles) {
  Shape shape;
  shape.roles = std::move(roles);
  for (const std::size_t i : shape.roles) {
    const RoleSpec& r = request.roles[i];
    shape.sum += r.per_pod;
    shape.alone = shape.alone || repels_itself_on_host(r);
    if (r.gpus == 0) continue;
    shape.zones = shape.zones || (!pool.zone_gpus.empty() && r.gpus <= pool.zone_gpus.rbegin()->first);
    (r.share.kind == GpuShare::Kind::kWhole) ? shape.gpus += r.gpus : shape.shares = true;
  }
  shape.sum.gpu = MilliGpu{shape.gpus * kMilliPerGpu};
  for (const auto& [name, id] :
       s.nodes().models()) {  // sorted by name, and that of nodes without GPUs is empty
    const bool accepted = std::all_of(shape.roles.begin(), shape.roles.end(), [&](std::size_t i) {
      const RoleSpec& r = request.roles[i];
      if (r.gpus == 0) return true;
      return !name.empty() && (r.models.empty() ||
                               std::find(r.models.begin(), r.models.end(), name.substr(4)) != r.models.end());
    });
    if (accepted) shape.models.push_back(id);
  }
  return shape;
}

std::int64_t room_for(const Node& n, const PoolSpec& pool, const RoleSpec& r, View view,
                      const SearchLimits& limits) {
  if (n.kept_for_reservation && limits.without_reserved) return 0;
  if (r.gpus > 0 && limits.spares_gpus_of(n)) return 0;
  if (r.share.kind == GpuShare::Kind::kMemory && n.spec.gpu_memory < limits.min_gpu_memory) return 0;
  const Resources free = n.free(view);
  const std::int64_t k = times_in(free, r.per_pod, free.pods);
  return k <= 0 ? 0 : room_on_gpus(n, pool, r, view, k);
}

std::int64_t room_for(const Node& n, const PoolSpec& pool, const Request& request, const Shape& shape,
                      View view, const SearchLimits& limits) {
  if (shape.roles.size() == 1) {
    const std::int64_t room = room_for(n, pool, request.roles[shape.roles.front()], view, limits);
    return shape.alone ? std::min<std::int64_t>(room, 1) : room;
  }
  if (n.kept_for_reservation && limits.without_reserved) return 0;
  if (shape.takes_gpus() && limits.spares_gpus_of(n)) return 0;
  const Resources free = n.free(view);
  std::int64_t k =
      std::min(free.pods / shape.sum.pods, shape.alone ? 1 : std::numeric_limits<std::int64_t>::max());
  k = times_in(free, shape.sum, k);
  if (shape.gpus > 0 && view == View::kTarget)
    k = std::min<std::int64_t>(k, std::max(0, n.free_gpus()) / shape.gpus);
  for (const std::size_t r : shape.roles) {
    if (k <= 0) return 0;
    if (request.roles[r].share.kind == GpuShare::Kind::kMemory && n.spec.gpu_memory < limits.min_gpu_memory)
      return 0;
    if (request.roles[r].gpus > 0) k = std::min(k, room_on_gpus(n, pool, request.roles[r], view, k));
  }
  return k;
}

std::int64_t most_in(const Domain& domain, const Shape& shape, std::int64_t together) {
  const std::int64_t most =
      times_in(domain.free, shape.sum, domain.free.pods / std::max<std::int64_t>(1, shape.sum.pods));
  if (shape.gpus == 0) return most;
  std::int64_t room = 0;
  const std::int64_t step = shape.gpus * together;
  for_buckets(domain, shape, step, [&](const auto& bucket) {
    const std::int64_t each = shape.alone ? 1 : bucket.first / step * together;
    room += each * static_cast<std::int64_t>(bucket.second.size());
  });
  return std::min(most, room);
}

std::int64_t room_in(const ClusterModel& s, const Pool& pool, const Domain& domain, const Request& request,
                     const Shape& shape, View view, const SearchLimits& limits, std::int64_t together) {
  const NodeSearch x{s, pool, request, shape, view, limits, &domain};
  std::int64_t room = 0;
  const std::int64_t from = view == View::kForNominated ? 0 : shape.gpus * together;
  for_buckets(domain, shape, from, [&](const auto& bucket) {
    s.work.spend(static_cast<std::int64_t>(bucket.second.size()));
    for (const NodeId id : bucket.second) {
      if (admissible(x, id, false))
        room += room_for(s.node(id), pool.spec, request, shape, view, limits) / together * together;
    }
  });
  return room;
}

RankedNode best_node(const NodeSearch& x, std::int64_t wanted, std::int64_t least) {
  const auto search = [&] {
    const RankedNode best = best_of(x, {wanted, least, true});
    return best.node != kNoId ? best : best_of(x, {wanted, least, false});
  };
  if (!can_be_ranked(x, wanted)) return search();
  const RankedNode best = best_ranked(x, wanted, least);
  assert(best.node == search().node);
  return best;
}

std::vector<RankedNode> nodes_by_room(const NodeSearch& x, bool shun) {
  std::vector<RankedNode> list;
  for_buckets(*x.domain, x.shape, 0, [&](const auto& bucket) {
    x.state.work.spend(static_cast<std::int64_t>(bucket.second.size()));
    for (const NodeId id : bucket.second) {
      if (!admissible(x, id, shun)) continue;
      const std::int64_t room = room_for(x.state.node(id), x.pool.spec, x.request, x.shape, x.view, x.limits);
      if (room < 1) continue;
      RankedNode& c = list.emplace_back(rate(x, id, room, kSeveral));
      c.second = std::exchange(c.first, -room);
    }
  });
  return list;
}

std::int64_t fewest_nodes(const NodeSearch& x, std::int64_t bundles) {
  if (x.shape.shares) return 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> nodes;  // how many each takes, and how many of them
  std::map<std::int64_t, std::int64_t> looked_at;            // the same
  for_buckets(*x.domain, x.shape, x.shape.gpus, [&](const auto& bucket) {
    if (x.shape.gpus > 0) {
      nodes.emplace_back(x.shape.alone ? 1 : bucket.first / x.shape.gpus, bucket.second.size());
      return;
    }
    x.state.work.spend(static_cast<std::int64_t>(bucket.second.size()));
    for (const NodeId id : bucket.second) {
      if (admissible(x, id, false))
        ++looked_at[room_for(x.state.node(id), x.pool.spec, x.request, x.shape, x.view, x.limits)];
    }
  });
  nodes.insert(nodes.end(), looked_at.begin(), looked_at.end());
  std::sort(nodes.begin(), nodes.end(), std::greater<>());
  std::int64_t taken = 0;
  for (const auto& [each, count] : nodes) {
    if (each < 1) break;
    if (each * count >= bundles) return taken + (bundles + each - 1) / each;
    taken += count;
    bundles -= each * count;
  }
  return taken;
}

}  // namespace muster::placement
