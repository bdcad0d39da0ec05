// What a TrainingJob asks of placement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/inference_service.h"
#include "muster/reconcilers/pods/requests.h"
#include "muster/reconcilers/pods/volumes.h"

namespace muster::reconcilers {

// What a TrainingJob asks of placement, or why it cannot be asked.
struct Translation {
  std::optional<std::string> invalid;          // can never run as it is
  std::string invalid_reason = "InvalidSpec";  // or PolicyViolation
  // Valid, but not to be placed now: volumes, the namespace's account, pods that have the names of its own.
  std::optional<std::string> blocked;
  std::string blocked_reason = "NoMatchingNodes";  // or NamespaceNotReady, BackingOff
  std::int32_t priority = 0;
  bool serves = false;         // it is a replica of an InferenceService
  std::string service;         // of which one: its key
  std::int32_t max_surge = 0;  // how many of its replicas may be replaced by one more at once
  std::optional<crds::ReplicaPlacement> spread;  // of a replica: where it goes relative to the others
  std::vector<PodNeeds> needs;       // per role, in the spec's order; empty when they cannot be told
  std::vector<VolumeTerms> volumes;  // likewise
};

}  // namespace muster::reconcilers
