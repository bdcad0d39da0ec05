// Rule 7: the one reason that binds, in words and numbers.
#pragma once

#include "admission.h"
#include "place.h"
#include "state.h"

namespace muster::placement {

Verdict verdict_of(const State& state, const BrokenBound& bound, PoolId pool);
// `holders`: who holds most of the pool's GPUs, as largest_holders() says.
Verdict verdict_of(const State& state, const Job& job, const Shortage& shortage, PoolId pool, const std::vector<std::string>& holders);
// At most 8 jobs ("namespace/name") that hold the most GPUs in the pool, and "other pods" where these hold some.
std::vector<std::string> largest_holders(const State& state, PoolId pool);

// "3", "2500m", "512Mi" as people write amounts of the resource.
std::string show(const char* resource, std::int64_t amount);

}  // namespace muster::placement
