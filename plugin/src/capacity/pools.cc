#include "capacity/pools.h"

#include <algorithm>

#include "capacity/tree.h"
#include "output/text.h"

namespace muster::plugin {
Listing pools(const std::vector<crds::NodePool>& pools) {
  Listing listing;
  listing.columns = {{"POOL", "pool"},        {"NODES", "nodes"}, {"GPUS", "gpus"},
                     {"USED", "used"},        {"FREE", "free"},   {"LARGEST GANG", "largestGang"},
                     {"", "", Shown::kTables}};
  listing.if_empty = "There are no NodePools.\n";
  std::vector<const crds::NodePool*> in_order;
  for (const auto& pool : pools) in_order.push_back(&pool);
  std::ranges::sort(in_order, {}, [](const auto* pool) { return pool->metadata.name; });
  for (const auto* pool : in_order) {
    const auto& s = pool->status;
    const std::int64_t whole = milli_gpus(s.capacity);
    const std::int64_t used = whole - milli_gpus(s.free);
    listing.rows.push_back(
        {{cell(pool->metadata.name), cell(std::int64_t{s.nodes}), cell(gpus(s.capacity)),
          cell(crds::to_string(crds::MilliGpu{used})), cell(gpus(s.free)),
          cell(s.largest_gang ? crds::to_string(*s.largest_gang) : ""), cell(bar({used, used}, whole))}});
  }
  return listing;
}

}  // namespace muster::plugin
