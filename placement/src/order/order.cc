#include "order/order.h"

#include <algorithm>
#include <limits>

#include "node/resource_vector.h"
#include "node/wide.h"

namespace muster::placement {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

// used / max(quota, fair), in millionths; a base of 0 counts as the largest.
std::int64_t part(std::int64_t used, std::int64_t quota, std::int64_t fair) {
  const std::int64_t base = std::max(quota, fair);
  if (used <= 0) return 0;
  if (base <= 0) return kLargest;
  const Wide millionths = static_cast<Wide>(used) * 1'000'000 / base;
  return millionths > kLargest ? kLargest : static_cast<std::int64_t>(millionths);
}

// DRF (Ghodsi et al., NSDI 2011): the largest part over the resources.
std::int64_t dominant(const AccountedKinds& kinds, const Resources& used, const Bounds& quota,
                      const Resources& fair) {
  std::int64_t largest = 0;
  for (const ResourceKind kind : kinds) {
    largest = std::max(largest,
                       part(amount_of(used, kind), quota_of(quota, kind).value_or(0), amount_of(fair, kind)));
  }
  return largest;
}

// In GPUs where GPUs are asked for, and in those of the model that must be; else in what the quota accounts
// for: CPU, memory, and what is asked for of resources known by name.
bool below_quota(const AccountedKinds& kinds, const Resources& used, const Bounds& quota,
                 const Resources& asked) {
  if (asked.gpu.value > 0) {
    const bool of_models = std::all_of(kinds.begin(), kinds.end(), [&](ResourceKind kind) {
      return !kinds.is_model(kind) || amount_of(asked, kind) <= 0 ||
             amount_of(used, kind) < bound_of(quota, kind).value_or(kUnbounded);
    });
    return of_models && used.gpu < quota.gpu.value_or(MilliGpu{});
  }
  return std::all_of(kinds.begin(), kinds.end(), [&](ResourceKind kind) {
    if (kind == ResourceKind::kGpu || (kind >= ResourceKind::kNamed && amount_of(asked, kind) <= 0))
      return true;
    return amount_of(used, kind) < bound_of(quota, kind).value_or(kUnbounded);
  });
}

// Gives each leaf its place in the order of `key`; equal keys share one.
template <class Key>
void number(const std::vector<QueueId>& leaves, Key&& key, std::map<QueueId, Seniority>& out,
            std::int32_t Seniority::* field) {
  using Value = decltype(key(QueueId{}));
  std::vector<std::pair<Value, QueueId>> sorted;
  for (const QueueId leaf : leaves) sorted.emplace_back(key(leaf), leaf);
  std::sort(sorted.begin(), sorted.end());
  std::int32_t place = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i].first != sorted[i - 1].first) ++place;
    out[sorted[i].second].*field = place;
  }
}

}  // namespace

std::map<QueueId, Seniority> seniority(const QueueTree& tree, PoolId pool,
                                       const std::vector<QueueId>& leaves) {
  std::map<QueueId, Seniority> out;
  const auto by_priority = [&](QueueId leaf) {
    std::vector<std::int64_t> list;
    for (const QueueId at : tree.path(leaf)) list.push_back(-tree.share(at, pool).priority);
    std::reverse(list.begin(), list.end());
    return list;
  };
  const auto by_age = [&](QueueId leaf) {
    return std::pair(tree.queue(leaf).spec.created, tree.queue(leaf).spec.name);
  };
  number(leaves, by_priority, out, &Seniority::priority);
  number(leaves, by_age, out, &Seniority::age);
  return out;
}

LeafRank rank_leaf(const QueueTree& tree, const std::vector<QueueId>& path, PoolId pool,
                   const std::vector<Resources>& fair, const Seniority& seniority,
                   const Resources& candidate) {
  const AccountedKinds& kinds = tree.accounted();
  bool below = true, fits = true;
  for (const QueueId at : path) {
    const Resources& used = tree.sums(at, pool).allocated;
    below = below && below_quota(kinds, used, tree.share(at, pool).quota, candidate);
    fits = fits && !exceeds(kinds, used + candidate, fair[static_cast<std::size_t>(at)], candidate);
  }
  const QueueId leaf = path.front();
  const Resources& used = tree.sums(leaf, pool).allocated;
  const Bounds& quota = tree.share(leaf, pool).quota;
  const Resources& mine = fair[static_cast<std::size_t>(leaf)];
  LeafRank rank;
  rank.not_below = !below;
  rank.not_within = !fits;
  rank.priority = seniority.priority;
  rank.share_with = dominant(kinds, used + candidate, quota, mine);
  rank.share_without = dominant(kinds, used, quota, mine);
  rank.age = seniority.age;
  return rank;
}

}  // namespace muster::placement
