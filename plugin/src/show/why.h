// `kubectl muster why`: what binds, who is ahead, what would help, when it may start; and of what runs, what
// was taken from it.
#pragma once

#include <string>

#include "cluster/workload.h"
#include "muster/crds/crds.h"
#include "muster/ui/what_helps.h"
#include "output/listing.h"

namespace muster::plugin {

// A paragraph for people, not wrapped; a second one where there is a past to tell.
std::string why(const crds::TrainingJob& job, crds::Time now);
std::string why(const crds::InferenceService& service, crds::Time now);
std::string why(const Workload& workload, crds::Time now);

// For programs: kind, namespace, name, text (the paragraphs), phase, and of what waits `waiting` (as
// status.queue) and `helps`.
Data why_data(const Workload& workload, crds::Time now);

using ui::what_helps;

}  // namespace muster::plugin
