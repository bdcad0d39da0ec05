// The GPUs of one node: who has what of each, what a pod would take, and which ones it had best take.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ids.h"
#include "muster/placement/job.h"
#include "muster/placement/node.h"
#include "muster/placement/pool.h"

namespace muster::placement {

// In what way something is held.
enum class Hold : std::uint8_t {
  kRunning,
  kPromised,  // nominated: others have to leave first
  kLeaving,   // asked to go, still there
};

// From where a search looks at what is free.
enum class View : std::uint8_t {
  kNow,      // what nobody has or was promised, and nobody is still leaving: can be used at once
  kTarget,   // as if all that are leaving had gone
  kPromise,  // for a pod that holds a promise itself: what nobody uses yet, promised or not
};
constexpr bool counts(Hold hold, View view) {
  return view == View::kNow ? true : view == View::kTarget ? hold != Hold::kLeaving : hold != Hold::kPromised;
}

// What one pod takes of one GPU.
struct GpuUse {
  JobId holder = kNoId;
  Hold hold = Hold::kRunning;
  bool whole = true;
  bool overcommit = false;
  std::int8_t compute = 0, slices = 0;  // MIG: compute slices of 7, memory slices of 8
  std::int32_t milli = 0;
  Bytes memory;
};

// One GPU of a node.
struct Gpu {
  std::vector<GpuUse> uses;

  bool idle(View view) const;
  std::int32_t milli(View view) const;  // beyond 1000: given out twice, see State::crowded
};

struct Node;
struct Pool;

// "3g.40gb" -> 3 compute slices, 40 GB; nullopt: no such profile can be.
struct MigProfile {
  std::int32_t compute = 0, gigabytes = 0;
};
std::optional<MigProfile> mig_profile(const std::string& text);

// What one pod of the role takes of each of its GPUs on a node of this kind. Memory shares are charged by
// their part of the GPU's memory, rounded up (whole where that is not known).
GpuUse use_on(const NodeSpec& node, const RoleSpec& role);

// The milli-GPUs that a pod of the role is charged on the node.
MilliGpu charge_on(const NodeSpec& node, const RoleSpec& role);

// The node could give a pod of the role its GPUs if it were empty. False also where the pool's sharing mode
// does not have what is asked.
bool gpus_would_do(const NodeSpec& node, const RoleSpec& role);

// How many pods of the role find GPUs on the node, at most `most`.
std::int64_t room_on_gpus(const Node& node, const Pool& pool, const RoleSpec& role, View view,
                          std::int64_t most);

// The GPUs that a pod of the role had best take; nullopt: there are not enough. Empty for a role without
// GPUs.
struct DeviceChoice {
  std::vector<std::int32_t> gpus;
  std::int32_t zone = -1;  // the NUMA node that all of the pod is on, where known
};
std::optional<DeviceChoice> choose_devices(const Node& node, const Pool& pool, const RoleSpec& role,
                                           View view);

}  // namespace muster::placement
