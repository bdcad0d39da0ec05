// The job as it counts, which is not always as it is written.
#pragma once

#include "muster/crds/training_job.h"
#include "muster/reconcilers/caches/reconciler_context.h"

namespace muster::reconcilers {

using JobPtr = client::Ptr<Object<crds::TrainingJob>>;

// The job with what it takes from its Project, and for a replica from its service; status and metadata are
// the server's but for status.effective, a replica's submission time, and a label that makes a job look like
// a replica. The same pointer where nothing is taken.
JobPtr effective(const JobPtr& job, const Caches& caches);

}  // namespace muster::reconcilers
