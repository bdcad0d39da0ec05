// Node pools: which nodes belong together, and how they are filled.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "muster/placement/node.h"

namespace muster::placement {

enum class NodeOrder : std::uint8_t { kPack, kSpread };

enum class SharingMode : std::uint8_t {
  kAny,          // the pool does not say: fractions and memory shares, in any number
  kNone,         // whole GPUs only
  kFraction,     // fractions and memory shares
  kTimeSlicing,  // the same; the sharers take turns
  kMps,          // the same, with at most 48 clients on a GPU
  kMig,          // a GPU is cut into slices: at most 7 compute slices and 8 memory slices
};
struct Sharing {
  SharingMode mode = SharingMode::kAny;
  std::int32_t max_clients = 0;  // on one GPU; 0: the bound of the mode, if it has one
  bool operator==(const Sharing&) const = default;
};

struct PoolSpec {
  std::string name;
  std::vector<Requirement> selector;       // a node must meet all of them; empty: every node is selected
  NodeOrder order = NodeOrder::kPack;      // in which order nodes are filled
  NodeOrder gpu_order = NodeOrder::kPack;  // in which order the GPUs of a node are filled with fractions
  Sharing sharing;
  // How much GPU memory may be given out, in thousandths of what is there. Only for jobs that have agreed.
  std::int64_t memory_overcommit_milli = 1000;
  // RULES.md 7.1: the first in order gets nodes reserved when it has waited for so long.
  Duration reservation_after = seconds(600);
  bool is_default = false;
  std::vector<std::string> topology;            // the label keys of its levels, coarse to fine
  std::string gpu_resource = "nvidia.com/gpu";  // what messages call a GPU
  bool operator==(const PoolSpec&) const = default;
};

// Which pool is meant by a job that names none: the only pool there is, or the only one that is marked as the
// default. `marks` has is_default of each pool. nullopt: there is no default, because no pool or several
// pools are marked.
std::optional<std::size_t> default_among(const std::vector<bool>& marks);

}  // namespace muster::placement
