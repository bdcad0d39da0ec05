// `kubectl muster disruptions`: what jobs had to give, for whom, and what it cost them.
#pragma once

#include <vector>

#include "muster/crds/crds.h"
#include "output/listing.h"

namespace muster::plugin {

// Newest first. Each job remembers its latest crds::kMostDisruptions.
Listing disruptions(const std::vector<crds::TrainingJob>& jobs, crds::Time now);

}  // namespace muster::plugin
