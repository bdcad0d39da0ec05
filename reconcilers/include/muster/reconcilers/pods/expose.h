// spec.expose: the Service that leads to a job's first pod, and how people reach it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// "<job>-expose". "<job>" is the headless Service by which pods find each other.
std::string expose_service_name(std::string_view job);

// Index 0 of the first role, of whichever attempt: so it stays as it is, with its address, over restarts and
// suspensions. Until that pod is ready it leads nowhere.
crds::Json expose_service_json(const crds::TrainingJob& job);

// In the order of the spec.
std::vector<crds::Endpoint> endpoints_of(const crds::TrainingJob& job);

}  // namespace muster::reconcilers
