// What a job holds at one instant, and what it does with it, told from its status and its pods. Pure.
#pragma once

#include <vector>

#include "muster/client/informer.h"
#include "muster/client/pod.h"
#include "muster/crds/training_job.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/placement/translation.h"
#include "muster/reconcilers/usage/ledger.h"

namespace muster::reconcilers {

// `status` counts, not that of `job`: it may be on its way. `pods`: all that the job has. `cost`: as for
// describe(). The Project is the caller's matter. Complexity: O(pods log pods).
//
// Held is what its assignment has, and what pods have that stand for no place of it and have not ended. A pod
// whose GPUs the assignment has again (the gang starts anew where it stood) counts once.
JobUse use_of(const crds::TrainingJob& job, const crds::TrainingJobStatus& status, const Translation& wish,
              const std::vector<client::Ptr<client::Pod>>& pods, const PlaceCost& cost);

}  // namespace muster::reconcilers
