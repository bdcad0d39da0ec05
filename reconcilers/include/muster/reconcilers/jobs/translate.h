// From Kubernetes' and Muster's objects to what placement understands: pure functions of the caches.
#pragma once

#include <optional>
#include <string>

#include "muster/crds/training_job.h"
#include "muster/reconcilers/common/objects.h"
#include "muster/reconcilers/placement/translation.h"
#include "muster/reconcilers/pods/volumes.h"

namespace muster::reconcilers {

struct Caches;

// What the job takes from its namespace's Project. A job that holds an assignment keeps what it took when it
// was admitted.
crds::Effective effective_values(const crds::TrainingJob& job, const Caches& caches);

// The first field of the spec that placement can decide about but this version cannot carry out on a cluster,
// and what to do instead. nullopt: there is none. `muster simulate` takes all such fields.
std::optional<std::string> not_supported(const crds::TrainingJobSpec& spec);

// The job's spec has its effective values filled in.
Translation translate_job(const Object<crds::TrainingJob>& job, const Caches& caches);

// Claims of namespace `ns`, volumes and classes in the caches; good until the caches change.
VolumeLookup volume_lookup(const Caches& caches, const std::string& ns);

}  // namespace muster::reconcilers
