// The sums of the nodes of each pool.
#pragma once

#include <vector>

#include "muster/crds/crds.h"
#include "output/listing.h"

namespace muster::plugin {

// In the order of their names.
Listing pools(const std::vector<crds::NodePool>& pools);

}  // namespace muster::plugin
