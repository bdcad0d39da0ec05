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
  kAny,          // nothing said: fractions and memory shares, no limit of their number
  kNone,         // whole GPUs only
  kFraction,     // fractions and memory shares
  kTimeSlicing,  // the same, in turns
  kMps,          // the same, at most 48 clients a GPU
  kMig,          // slices of a GPU: at most 7 compute slices and 8 memory slices
};
struct Sharing {
  SharingMode mode = SharingMode::kAny;
  std::int32_t max_clients = 0;  // per GPU; 0: the mode's own (MPS 48), else none
  bool operator==(const Sharing&) const = default;
};

struct PoolSpec {
  std::string name;
  std::vector<Requirement> selector;       // all hold; none: every node
  NodeOrder order = NodeOrder::kPack;      // of nodes
  NodeOrder gpu_order = NodeOrder::kPack;  // of fractions on the GPUs of a node
  Sharing sharing;
  std::int64_t memory_overcommit_milli = 1000;  // GPU memory promised / present, for those who opt in
  Duration reservation_after = seconds(600);    // the first in order gets a place reserved after so long
  bool is_default = false;
  std::vector<std::string> topology;            // label keys, coarse to fine
  std::string gpu_resource = "nvidia.com/gpu";  // how messages call a GPU
  bool operator==(const PoolSpec&) const = default;
};

// Which of all pools is meant where none is named: the only one, or the one that alone is marked so. `marks`:
// is_default of each. nullopt: none, and several are as good as none.
std::optional<std::size_t> default_among(const std::vector<bool>& marks);

}  // namespace muster::placement
