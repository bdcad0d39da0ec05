// Rule 3, admission: limits at the leaf and every ancestor; quota as well for what is not preemptible.
#pragma once

#include <optional>

#include "state.h"

namespace muster::placement {

// The first bound that `amounts` more would break, from the leaf upwards; nullopt: none.
struct BrokenBound {
  LeafId at = kNone;
  bool quota = false;    // else the limit
  const char* resource = "";
  std::int64_t need = 0, have = 0;  // asked for; left below the bound
  std::int64_t bound = 0;
};
std::optional<BrokenBound> broken_bound(const State& state, const std::vector<LeafId>& path, PoolId pool, const Resources& amounts,
                                        bool preemptible);

// allocated + amounts stays within quota at every level, in each accounted resource that is asked for.
bool within_quota(const State& state, const std::vector<LeafId>& path, PoolId pool, const Resources& amounts);

}  // namespace muster::placement
