// What a domain can hold of a set of pods: bounds from above without a look at its nodes, then counts.
#include <algorithm>

#include "node/resource_vector.h"
#include "place/gang.h"
#include "pool/topology.h"

namespace muster::placement {

Gang::Demand Gang::demand_of(const Bundles& bundles) const {
  Demand demand;
  for (const std::size_t b : bundles) ++demand.of_shape[layout_.bundles[b].shape];
  for (const auto& [shape, count] : demand.of_shape) demand.sum += layout_.shapes[shape].sum * count;
  return demand;
}

// Whole groups of one kind of pod are asked for, so rooms may be counted in groups.
bool Gang::whole_groups(const Demand& demand) const {
  if (demand.of_shape.size() > 1 || !held_.empty()) return false;
  const auto& [shape, count] = *demand.of_shape.begin();
  if (layout_.shapes[shape].roles.size() > 1) return false;
  for (std::size_t l = 0; l < layout_.layers(); ++l) {
    const std::int32_t size = layout_.group_size(l);
    if (size > 0 && count % size != 0 && size % count != 0) return false;
  }
  return true;
}

bool Gang::could_hold(DomainId id, const Demand& demand, std::size_t layer) const {
  s_.work.spend(1);
  if (q_.view == View::kForNominated) return true;
  const Domain& d = pool_.domains[static_cast<std::size_t>(id)];
  if (demand.sum.gpu > d.free.gpu || !fits_beside_gpus(demand.sum, d.free)) return false;
  std::int64_t together = 1;
  for (std::size_t l = layer; l < layout_.layers() && together == 1; ++l) {
    const bool host = layout_.group_size(l) > 0 && layout_.rule_of({l, 0, 0}).required == kHostDepth;
    if (host && whole_groups(demand)) together = layout_.group_size(l);
  }
  return std::all_of(demand.of_shape.begin(), demand.of_shape.end(), [&](const auto& part) {
    return most_in(d, layout_.shapes[part.first], together) >= part.second;
  });
}

bool Gang::has_room(DomainId id, const Demand& demand, std::size_t layer) const {
  const std::size_t from = whole_groups(demand) ? layer : layout_.layers();
  return std::all_of(demand.of_shape.begin(), demand.of_shape.end(), [&](const auto& part) {
    return room(id, layout_.shapes[part.first], from) >= part.second;
  });
}

std::int64_t Gang::room(DomainId id, const Shape& shape, std::size_t layer) const {
  const Domain& d = pool_.domains[static_cast<std::size_t>(id)];
  for (std::size_t l = layer; l < layout_.layers(); ++l) {
    const std::int32_t size = layout_.group_size(l);
    if (size == 0) continue;
    const std::int32_t depth = layout_.rule_of({l, 0, 0}).required;
    if (depth == kHostDepth) return room_in(s_, pool_, d, request_, shape, q_.view, limits_, size);
    if (depth <= d.depth) continue;
    std::int64_t sum = 0;
    for (const DomainId inner : domains_at(pool_, id, depth)) sum += room(inner, shape, l + 1) / size * size;
    return sum;
  }
  return room_in(s_, pool_, d, request_, shape, q_.view, limits_);
}

}  // namespace muster::placement
