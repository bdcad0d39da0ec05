// RULES.md 4.6 and 4.7: the GPUs of one node. Who has what of each, what would a pod take, and which ones are
// best for it?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/placement/job.h"
#include "muster/placement/node.h"
#include "muster/placement/pool.h"
#include "node/ids.h"

namespace muster::placement {

// In what way something is held.
enum class Hold : std::uint8_t {
  kRunning,
  kNominated,  // nominated: others have to leave first
  kLeaving,    // asked to go, still there
};

// From where a search looks at what is free.
enum class View : std::uint8_t {
  kNow,           // what nobody has or was nominated, and nobody is still leaving: can be used at once
  kTarget,        // as if all that are leaving had gone
  kForNominated,  // for a pod that holds a nomination itself: what nobody uses yet, nominated or not
};
constexpr bool counts(Hold hold, View view) {
  return view == View::kNow      ? true
         : view == View::kTarget ? hold != Hold::kLeaving
                                 : hold != Hold::kNominated;
}

// What one pod takes of one GPU.
struct GpuUse {
  JobId holder = kNoId;
  Hold hold = Hold::kRunning;
  bool whole = true;
  bool overcommit = false;
  bool by_memory = false;               // asked for memory: its milli-GPU is but a price
  std::int8_t compute = 0, slices = 0;  // MIG: compute slices of 7, memory slices of 8
  std::int32_t milli = 0;
  Bytes memory;

  bool operator==(const GpuUse&) const = default;
};

// One GPU of a node.
struct Gpu {
  std::vector<GpuUse> uses;

  bool idle(View view) const;
  std::int32_t milli(View view) const;  // as charged: memory shares may add up to more than 1000
};

// Slices of one profile that a node has cut already; pods hold a number of them, none by name.
struct CutSlices {
  std::string profile;
  std::int32_t count = 0;      // what the node has
  std::int32_t used = 0;       // by what runs and what is nominated
  std::int32_t nominated = 0;  // of these
  std::int32_t leaving = 0;    // beside these

  std::int64_t free(View view) const;
};

struct Allocation;
struct Node;

// "3g.40gb" -> 3 compute slices, 40 GB; nullopt: no such profile can be.
struct MigProfile {
  std::int32_t compute = 0, gigabytes = 0;
};
std::optional<MigProfile> mig_profile(const std::string& text);
// What a slice is charged: its part of the 7 compute slices of a GPU, rounded up.
constexpr std::int64_t mig_milli(const MigProfile& profile) {
  return (profile.compute * kMilliPerGpu + 6) / 7;
}

// Eighths of a GPU of this memory that the profile takes, rounded up; kMaxMemorySlices: more than all 8, or
// the memory is not known.
inline constexpr std::int32_t kMaxMemorySlices = 9;
std::int32_t mig_memory_slices(const MigProfile& profile, Bytes gpu_memory);

std::int32_t cut_slices(const NodeSpec& node, const std::string& profile);
std::int64_t free_cut_slices(const Node& node, const std::string& profile, View view);

// What one pod of the role takes of each of its GPUs on a node of this kind. Memory shares are charged by
// their part of the GPU's memory, rounded up (whole where that is not known).
GpuUse use_on(const NodeSpec& node, const RoleSpec& role);

// The node could give a pod of the role its GPUs if it were empty, were the pool's sharing mode the right
// one.
bool gpus_would_do(const NodeSpec& node, const RoleSpec& role);

// The same with the mode of the pool.
bool gives_such(const NodeSpec& node, const PoolSpec& pool, const RoleSpec& role);

// Healthy GPUs that nobody has a part of in that view. O(1) where nobody leaves and nothing is nominated,
// else O(GPUs).
std::int64_t idle_gpus(const Node& node, View view);

// How many pods of the role find GPUs on the node, at most `most`. O(GPUs), O(1) for whole ones where nobody
// is leaving.
std::int64_t room_on_gpus(const Node& node, const PoolSpec& pool, const RoleSpec& role, View view,
                          std::int64_t most);

// What the node's GPUs have left for such a role, whether or not a pod finds it in one place: milli-GPU.
MilliGpu left_for(const Node& node, const PoolSpec& pool, const RoleSpec& role, View view);

// No more than this can be charged for the node's GPUs beside what is, once all that are leaving have gone,
// with all that is rounded up. What is on GPUs that have failed, or were given out twice, takes nothing away.
MilliGpu spare_gpu(const Node& node, const PoolSpec& pool);

// A pod of the role could have its GPUs, CPU and memory on one NUMA node now. True where nothing is known of
// the node's NUMA nodes, or where the pod takes no GPUs.
bool fits_one_zone(const Node& node, const PoolSpec& pool, const RoleSpec& role, View view);

// For whom devices are chosen.
struct Chooser {
  JobId job = kNoId;  // what it has on the node already draws the next GPUs near
  // How many pods of the role are to come to the node: they must still find GPUs afterwards.
  std::int64_t pods = 1;
};

// The GPUs that a pod of the role had best take, ascending; nullopt: there are not enough. Empty for a role
// without GPUs, and for slices that the node has cut already. Whole GPUs: see links.h where the node tells
// its links, else those of the NUMA node with the fewest idle ones that can take the pod, else the first.
// Shares: on distinct GPUs (MIG: as they come), by the pool's order of GPUs the one that is left with least,
// or the emptiest. O(GPUs x log) but for links.
std::optional<std::vector<std::int32_t>> choose_devices(const Node& node, const PoolSpec& pool,
                                                        const RoleSpec& role, View view,
                                                        const Chooser& chooser);

// Nobody else has any GPU or slice of the allocation in this view, to which the allocation itself must not
// belong.
bool devices_available(const Node& node, const PoolSpec& pool, const Allocation& allocation, View view);

}  // namespace muster::placement
