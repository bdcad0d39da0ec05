// Rule 3, admission: limits at the leaf and every ancestor; quota as well for what is not preemptible.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "state.h"

namespace muster::placement {

// The first bound that `amounts` more would break in this view (kPromise: `amounts` are promised already),
// from the leaf upwards; nullopt: none.
struct BrokenBound {
  LeafId at = kNoId;
  bool quota = false;  // else the limit
  const char* resource = "";
  std::int64_t need = 0, have = 0;  // asked for; left below the bound
  std::int64_t bound = 0;
};
std::optional<BrokenBound> broken_bound(const State& state, const std::vector<LeafId>& path, PoolId pool,
                                        const Resources& amounts, bool preemptible, View view = View::kNow);

// The name of a tree node on `path` that stands beyond a bound in what was asked for; "": none. For the
// auditor: right after a start there is none.
std::string breach(const State& state, const std::vector<LeafId>& path, PoolId pool, const Resources& asked,
                   bool preemptible);

}  // namespace muster::placement
