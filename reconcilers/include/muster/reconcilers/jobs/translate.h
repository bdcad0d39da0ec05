// From Kubernetes' and Muster's objects to what placement understands: pure functions of the caches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/crds/training_job.h"
#include "muster/reconcilers/common/objects.h"
#include "muster/reconcilers/placement/translation.h"
#include "muster/reconcilers/pods/volumes.h"

namespace muster::reconcilers {

struct Caches;

// The priority of a job that names no class. Of several classes with globalDefault it is the smallest value,
// as Kubernetes has it for pods; 0: no class has it. `classes`: a range of things with `global_default` and
// `value`.
template <class Classes>
std::int32_t default_priority(const Classes& classes) {
  std::optional<std::int32_t> least;
  for (const auto& c : classes) {
    if (c.global_default && (!least || c.value < *least)) least = c.value;
  }
  return least.value_or(0);
}

// The array that owns the job as one of its indexes. nullptr: none does. Labels and a name alone, which
// anybody can write, make no index.
client::Ptr<Object<crds::TrainingJob>> array_of(const Object<crds::TrainingJob>& job, const Caches& caches);

// What the job takes from its namespace's Project. A job that holds an assignment keeps what it took when it
// was admitted.
crds::Effective effective_values(const crds::TrainingJob& job, const Caches& caches);

// The job's spec has its effective values filled in.
Translation translate_job(const Object<crds::TrainingJob>& job, const Caches& caches);

// Claims of namespace `ns`, volumes and classes in the caches; good until the caches change.
VolumeLookup volume_lookup(const Caches& caches, const std::string& ns);

}  // namespace muster::reconcilers
