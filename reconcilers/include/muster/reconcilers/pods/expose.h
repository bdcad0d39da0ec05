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

// In the order of the spec. `external_urls`: in the same; empty: it is not reached from outside.
std::vector<crds::Endpoint> endpoints_of(const crds::TrainingJob& job,
                                         const std::vector<std::string>& external_urls = {});

// The condition of what leads there from outside the cluster, and its reasons while nothing is to.
inline constexpr const char* kPublished = "Published";
inline constexpr const char* kNoGateway = "NoGateway";
inline constexpr const char* kJobEnded = "JobEnded";

}  // namespace muster::reconcilers
