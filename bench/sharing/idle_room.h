// Why GPUs are free although work waits.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace muster::bench {

// The first that holds, of what waits and would take the room:
enum class IdleCause : std::uint8_t {
  kLimits,     // it fits, and a quota or a limit is in the way
  kReserved,   // it fits, and the nodes are reserved for another
  kPromised,   // it fits, and the room is kept for it or others until all of it is there
  kUndecided,  // it fits: it waits for a delay or a decision
  kFragments,  // as many GPUs are free as it asks for, in pieces that are too small
  kGrowth,     // none of those; an elastic one that runs could grow, and does when it pays
  kGangs,      // it asks for more than is free
};
inline constexpr std::array<std::string_view, 7> kIdleCauseNames = {
    "limits", "reservations", "kept for others", "undecided", "fragmentation", "growth", "gangs that wait"};

using IdleRoom = std::array<double, kIdleCauseNames.size()>;  // GPUs, or GPU-seconds

// What asks for room: `pods` of `gpus` each, on whichever nodes.
struct Wish {
  std::int32_t pods = 1, gpus = 1;
  std::string reason;  // as it was last told (docs/simulate.md, Waiting); "": it was not

  std::int64_t total() const { return std::int64_t{pods} * gpus; }
  auto operator<=>(const Wish&) const = default;
};

// `nodes_by_free[n]`: how many nodes have n GPUs free. `waiting`: how many wishes there are of each kind.
// `growth`: GPUs that elastic jobs lack. Each free GPU is counted once at most: for those first that would
// fit, in the order above, and no more than they ask for. O(kinds).
IdleRoom idle_room(const std::vector<std::int64_t>& nodes_by_free,
                   const std::map<Wish, std::int64_t>& waiting, std::int64_t growth);

}  // namespace muster::bench
