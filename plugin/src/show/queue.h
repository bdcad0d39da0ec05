// `kubectl muster queue`: what waits, in the order in which it is served.
#pragma once

#include <string>
#include <vector>

#include "muster/crds/crds.h"
#include "output/listing.h"

namespace muster::plugin {

// By pool and position; what has no position (nothing may start in its Project, or it was not judged yet)
// comes last.
// The pool that it waits for; "(default)" where nobody has named one.
std::string pool_of(const crds::TrainingJob& job);
Listing queue(const std::vector<crds::TrainingJob>& jobs, crds::Time now);

}  // namespace muster::plugin
