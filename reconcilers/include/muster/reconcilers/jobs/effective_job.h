// The job as it counts, which is not always as it is written.
#pragma once

#include "muster/crds/training_job.h"
#include "muster/reconcilers/caches/reconciler_context.h"

namespace muster::reconcilers {

using JobPtr = client::Ptr<Object<crds::TrainingJob>>;

// The job with what it takes from its Project, what a replica takes from its service, and suspended where it
// is an index of an array that says so. Status and metadata are the server's, with three exceptions:
// status.effective, the submission time of a replica, and a label that would make a job look like a replica,
// which is left out. Returns the same pointer where nothing differs.
JobPtr effective(const JobPtr& job, const Caches& caches);

}  // namespace muster::reconcilers
