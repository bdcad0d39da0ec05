#include "muster/reconcilers/jobs/effective_job.h"

#include "muster/reconcilers/arrays/array_objects.h"
#include "muster/reconcilers/jobs/translate.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/projects/job_policy.h"
#include "muster/reconcilers/projects/project.h"

namespace muster::reconcilers {
namespace {

// A replica counts as submitted when its service was. So a replica that takes the place of another need not
// go behind those who came in between.
std::optional<crds::Time> submission(const Object<crds::TrainingJob>& replica, const Caches& caches) {
  const auto& own = replica.value.metadata.creation_timestamp;
  const auto label = replica.value.metadata.labels.find(std::string(kServiceLabel));
  if (label == replica.value.metadata.labels.end()) return own;
  const auto service = caches.services.store().find(client::make_key(replica.meta.ns, label->second));
  return service && service->meta.uid == replica.owner_uid ? service->value.metadata.creation_timestamp : own;
}

// Its array is suspended, or lets fewer indexes run than there are. A job whose array is gone goes too; until
// then it runs on.
bool is_suspended_by_array(const Object<crds::TrainingJob>& job, const Caches& caches) {
  const auto array = array_of(job, caches);
  if (!array || array->status_unreadable) return false;
  return is_suspended_by(array->value, *index_in(array->value, job.value));
}

}  // namespace

JobPtr effective(const JobPtr& job, const Caches& caches) {
  auto taken = effective_values(job->value, caches);
  const bool serves = is_replica(*job);
  if (serves) {  // these are of jobs: a server has no end
    taken.max_runtime.reset();
    taken.idle_timeout.reset();
  }
  // Only a service's own replicas answer at its address.
  const bool poses = !serves && job->value.metadata.labels.contains(std::string(kServiceLabel));
  const bool is_held = !job->value.spec.suspend && is_suspended_by_array(*job, caches);
  const bool takes_nothing = taken == crds::Effective{} && job->value.status.effective == taken;
  if (!serves && !poses && !is_held && takes_nothing) return job;
  auto copy = std::make_shared<Object<crds::TrainingJob>>(*job);
  if (serves) copy->value.metadata.creation_timestamp = submission(*job, caches);
  if (poses) copy->value.metadata.labels.erase(std::string(kServiceLabel));
  copy->value.spec = with(taken, std::move(copy->value.spec));
  copy->value.spec.suspend = copy->value.spec.suspend || is_held;
  copy->value.status.effective = std::move(taken);
  return copy;
}

}  // namespace muster::reconcilers
