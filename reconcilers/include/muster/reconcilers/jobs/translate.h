// From Kubernetes' and Muster's objects to what placement understands: pure functions of the caches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/training_job.h"
#include "muster/reconcilers/pods/requests.h"
#include "muster/reconcilers/pods/volumes.h"

namespace muster::reconcilers {

struct Caches;

// What a TrainingJob asks of placement, or why it cannot be asked.
struct Translation {
  std::optional<std::string> invalid;          // can never run as it is
  std::string invalid_reason = "InvalidSpec";  // NotSupported or PolicyViolation
  // Valid, but not to be placed now: volumes, the namespace's account, pods that have the names of its own.
  std::optional<std::string> blocked;
  std::string blocked_reason = "NoMatchingNodes";  // or NamespaceNotReady, BackingOff
  std::int32_t priority = 0;
  std::vector<PodNeeds> needs;       // per role, in the spec's order; empty when they cannot be told
  std::vector<VolumeTerms> volumes;  // likewise
};

// What the job takes from its namespace's Project. What holds an assignment keeps what it took when it
// was admitted.
crds::Effective effective_values(const crds::TrainingJob& job, const Caches& caches);

// The field that placement decides about and this version cannot carry out on a cluster, with what to do
// instead; nullopt: none. `muster simulate` takes them all.
std::optional<std::string> not_supported(const crds::TrainingJobSpec& spec);

// The job's spec has its effective values filled in.
Translation translate_job(const crds::TrainingJob& job, const Caches& caches);

// Claims of namespace `ns`, volumes and classes in the caches; good until the caches change.
VolumeLookup volume_lookup(const Caches& caches, const std::string& ns);

}  // namespace muster::reconcilers
