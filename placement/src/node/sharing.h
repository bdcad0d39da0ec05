// RULES.md 4.7: one GPU and those who share it. What may stand beside what, and how much room is left?
#pragma once

#include <cstdint>
#include <string>

#include "node/devices.h"
#include "node/node.h"

namespace muster::placement {

inline constexpr std::int32_t kMigComputeSlices = 7;  // of a GPU
inline constexpr std::int32_t kMigMemorySlices = 8;
inline constexpr std::int32_t kMpsClients = 48;

// What a GPU gives at most.
struct GpuLimits {
  Bytes memory;                          // 0: not known, then it takes no memory shares
  std::int64_t overcommit_milli = 1000;  // of the memory, where all who share the GPU have opted in
  std::int32_t clients = 0;              // 0: any number
};
GpuLimits limits_of(const NodeSpec& node, const PoolSpec& pool);

// What stands on a GPU, summed.
struct GpuLoad {
  std::int32_t milli = 0;      // as charged; memory shares that overlap may add up to more than 1000
  std::int32_t fractions = 0;  // milli-GPU of those who asked for a fraction
  std::int32_t clients = 0;    // of all kinds
  std::int32_t compute = 0, slices = 0;
  bool whole = false;
  bool by_memory = false;
  bool opted_in = true;  // all of them accept that memory is promised twice
  Bytes memory;

  void add(const GpuUse& use);
};
GpuLoad load_of(const Gpu& gpu, View view);

// How many more such uses the GPU takes, at most `most`. O(1).
std::int64_t room_beside(const GpuLoad& load, const GpuUse& use, const GpuLimits& limits, std::int64_t most);

// What is on the GPU in the target view cannot all be there. Limits of the pool that were set later do not
// make a conflict of what runs.
bool in_conflict(const Gpu& gpu, Bytes gpu_memory);

// The pool shares its GPUs in the way that the role asks for; slices that a node has cut already are for any
// pool.
bool shared_as_asked(const PoolSpec& pool, const RoleSpec& role);

// What bounds how many can share a GPU, for people: "7 MIG compute slices and 8 memory slices a GPU"; "":
// nothing but its size.
std::string sharing_bound(const PoolSpec& pool, const RoleSpec& role);

}  // namespace muster::placement
