// When a plan is to be made though nothing changes.
#pragma once

#include <optional>
#include <utility>

#include "model/cluster_model.h"

namespace muster::placement {

// Those that minRuntime keeps from a claimant still.
struct Safe {
  std::optional<Time> due;                         // when the first of them ceases to be safe
  std::optional<std::pair<Time, JobId>> by_right;  // the same of those that it has a right to take
  // There is room for it at the cost of a disturbance that is not owed, which does not pay yet. From then on
  // it does; absent: there is no such room.
  bool costs_too_much = false;
  std::optional<Time> pays;
  // Until when the first of those is let be that would have to restart to give surplus to its minimum
  // (RULES.md 5.4).
  std::optional<std::pair<Time, JobId>> restarts;
  // Others are over their fair share, and it is within its own, which is not owed to it yet.
  bool waits_for_fair_share = false;
  // Somebody was let be because a service would have had no replica left (RULES.md 5.12).
  bool kept_a_service = false;
};

// `due` becomes `then`, unless it is earlier.
inline void soonest(std::optional<Time>& due, Time then) {
  if (!due || then < *due) due = then;
}

}  // namespace muster::placement
