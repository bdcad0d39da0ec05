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
  // Others are over their fair share, and it is within its own, which is not owed to it yet.
  bool waits_for_fair_share = false;
  // When its waiting will have cost as much as what it would take inside its own Project.
  std::optional<Time> preempts;
};

// `due` becomes `then`, unless it is earlier.
inline void soonest(std::optional<Time>& due, Time then) {
  if (!due || then < *due) due = then;
}

}  // namespace muster::placement
