#include "muster/reconcilers/lifecycle/orphan.h"

#include <fmt/format.h>

namespace muster::reconcilers {

JobDecision eviction_of_orphan(const crds::TrainingJob& job) {
  JobDecision evict;
  evict.kind = JobDecision::Kind::kEvict;
  evict.generation = job.metadata.generation;
  evict.reason = "ProjectNotFound";
  evict.message = fmt::format("no Project has namespace {} any more", job.metadata.ns);
  return evict;
}

}  // namespace muster::reconcilers
