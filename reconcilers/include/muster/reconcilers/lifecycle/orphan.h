// A job whose namespace belongs to no Project any more: it was deleted, or the namespace handed over to
// nobody.
#pragma once

#include "muster/crds/training_job.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {

// What runs there saves and gives back what it holds.
JobDecision eviction_of_orphan(const crds::TrainingJob& job);

}  // namespace muster::reconcilers
