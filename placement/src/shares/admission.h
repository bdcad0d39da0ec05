// Rule 3, admission: limits at the leaf and every ancestor; quota as well for what is not preemptible; and
// what is reserved for others stays free.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/state.h"

namespace muster::placement {

enum class Bound : std::uint8_t {
  kLimit,
  kQuota,
  kReserved,  // too little of the pool would stay free for the unused reserved parts beside the path
};

// The first bound that `amounts` more would break in this view (kPromise: `amounts` are promised already):
// limits and quotas from the leaf upwards, then what is reserved. nullopt: none. What is reserved is counted
// with what is leaving as free, and GPUs as whole ones where whole ones are asked for. It does not bind who
// stays within the reserved part of its leaf or of an ancestor, as against all that is not below that.
// O(depth).
struct BrokenBound {
  LeafId at = kNoId;  // kReserved: the leaf itself
  Bound kind = Bound::kLimit;
  const char* resource = "";
  std::int64_t need = 0, have = 0;  // asked for; left below the bound
  std::int64_t bound = 0;           // kReserved: what others have reserved and do not use
  bool binds = true;                // kReserved: so much is free at all
};
std::optional<BrokenBound> broken_bound(const State& state, const std::vector<LeafId>& path, PoolId pool,
                                        const Resources& amounts, bool preemptible, View view = View::kNow);

// The tree nodes beside the path for which something of the resource is held back.
std::vector<LeafId> held_back_for(const State& state, const std::vector<LeafId>& path, PoolId pool,
                                  std::string_view resource);

// The name of a tree node on `path` that stands beyond a bound in what was asked for; "": none. For the
// auditor: right after a start there is none.
std::string breach(const State& state, const std::vector<LeafId>& path, PoolId pool, const Resources& asked,
                   bool preemptible);

}  // namespace muster::placement
