// Indexes into the tables of ClusterModel.
#pragma once

#include <cstdint>

namespace muster::placement {

using NodeId = std::int32_t;
using PoolId = std::int32_t;
using ModelId = std::int32_t;
using DomainId = std::int32_t;
using JobId = std::int32_t;
using QueueId = std::int32_t;  // of any tree node
using RequestId = std::int32_t;
inline constexpr std::int32_t kNoId = -1;
inline constexpr JobId kOther = -2;  // holder of a GPU: a pod outside assignments

}  // namespace muster::placement
