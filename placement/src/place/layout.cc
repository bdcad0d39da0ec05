#include "place/layout.h"

#include <algorithm>
#include <map>

#include "pool/topology.h"

namespace muster::placement {

Layout::Layout(const ClusterModel& s, const PlaceQuery& q, const std::vector<std::string>& shared)
    : request_(s.request_of(s.job(q.job))) {
  for (std::size_t r = 0; r < request_.roles.size(); ++r) {
    std::size_t to = r;
    for (std::size_t step = 0; request_.roles[to].colocate_with >= 0 && step < request_.roles.size(); ++step)
      to = static_cast<std::size_t>(request_.roles[to].colocate_with);
    leaders_.push_back(to);
    first_pod_.push_back(r == 0 ? 0 : first_pod_[r - 1] + request_.roles[r - 1].replicas);
  }
  add_layers(s.pool(q.pool).spec, shared);
  add_bundles(s, q);
}

DepthRule Layout::read(const PoolSpec& pool, const TopologyRule& rule) {
  DepthRule depths{depth_of(pool, rule.required), depth_of(pool, rule.preferred)};
  if (depths.required == kNoLevel) unknown_level = rule.required;
  depths.preferred = std::max(0, depths.preferred);  // a wish that the pool does not understand
  return depths;
}

// A gang that states no rule goes into the smallest domain that holds it all the same. Spread is about nodes:
// there that is none of single ones.
DepthRule Layout::smallest(const PoolSpec& pool) const {
  std::int64_t most = 0;
  for (const RoleSpec& r : request_.roles) most += r.most();
  const bool levels = finest_depth(pool) > 0;
  if (most < 2 || !levels) return {};
  return {0, pool.order == NodeOrder::kPack ? kHostDepth : finest_depth(pool)};
}

void Layout::add_layers(const PoolSpec& pool, const std::vector<std::string>& shared) {
  auto job = read(pool, request_.topology);
  if (job.none()) job = smallest(pool);
  if (!job.none()) layers_.push_back({Of::kJob, job, 0});
  bool any = false;
  for (std::size_t r = 0; r < request_.roles.size(); ++r) {
    DepthRule& rule = role_rules_.emplace_back(read(pool, request_.roles[r].topology));
    if (r < shared.size()) rule.required = std::max(rule.required, depth_of(pool, shared[r]));
    any = any || !role_rules_.back().none();
  }
  if (any) layers_.push_back({Of::kRoles, {}, 0});
  for (const GroupRule& g : request_.groups) {
    if (const auto rule = read(pool, g.rule); !rule.none()) layers_.push_back({Of::kGroups, rule, g.size});
  }
}

SetKey Layout::set_of(std::size_t layer, const PodWish& pod) const {
  const auto role = static_cast<std::size_t>(pod.role);
  const Layer& l = layers_[layer];
  if (l.of == Of::kJob) return {layer, 0, 0};
  if (l.of == Of::kRoles) return {layer, pod.role, 0};
  const std::int32_t least = request_.roles[role].replicas;
  if (pod.index < least) return {layer, 0, (first_pod_[role] + pod.index) / l.size};
  return {layer, pod.role + 1, (pod.index - least) / l.size};
}

DepthRule Layout::rule_of(const SetKey& set) const {
  const Layer& l = layers_[set.layer];
  return l.of == Of::kRoles ? role_rules_[static_cast<std::size_t>(set.part)] : l.rule;
}

void Layout::add_bundles(const ClusterModel& s, const PlaceQuery& q) {
  std::vector<PodWish> pods = q.pods;
  for (std::size_t r = 0; r < request_.roles.size() && q.pods.empty(); ++r) {
    for (std::int32_t i = 0; i < request_.roles[r].replicas; ++i)
      pods.push_back({static_cast<std::int32_t>(r), i});
  }
  // By leading pod, in the order of roles and indexes.
  std::map<std::pair<std::size_t, std::int32_t>, std::vector<PodWish>> together;
  for (const PodWish& w : pods) together[{leaders_[static_cast<std::size_t>(w.role)], w.index}].push_back(w);
  std::map<std::vector<std::size_t>, std::size_t> known;
  for (auto& [leading, list] : together) {
    const auto follows = [leader = leading.first](const PodWish& w) {
      return static_cast<std::size_t>(w.role) != leader;
    };
    std::sort(list.begin(), list.end(), [&](const PodWish& a, const PodWish& b) {
      return std::pair(follows(a), a.role) < std::pair(follows(b), b.role);
    });
    std::vector<std::size_t> roles;
    for (const PodWish& w : list) roles.push_back(static_cast<std::size_t>(w.role));
    const auto [shape, fresh] = known.emplace(roles, shapes.size());
    if (fresh) shapes.push_back(shape_of(s, s.pool(q.pool), request_, roles));
    bundles.push_back({shape->second, std::move(list)});
  }
}

}  // namespace muster::placement
