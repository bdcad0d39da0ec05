// When a plan is to be made though nothing changes.
#pragma once

#include <optional>

#include "muster/placement/amounts.h"

namespace muster::placement {

// `due` becomes `then`, unless it is earlier.
inline void soonest(std::optional<Time>& due, Time then) {
  if (!due || then < *due) due = then;
}

}  // namespace muster::placement
