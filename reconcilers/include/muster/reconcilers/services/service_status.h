// What an InferenceService's replicas come to, for its status. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/informer.h"
#include "muster/client/pod.h"
#include "muster/crds/inference_service.h"
#include "muster/crds/training_job.h"
#include "muster/reconcilers/services/autoscale_rule.h"
#include "muster/reconcilers/services/revisions.h"
#include "muster/reconcilers/services/rollout_rule.h"
#include "muster/reconcilers/services/service_plan.h"

namespace muster::reconcilers {

// A replica, its TrainingJob and its pods.
struct ReplicaView {
  const crds::TrainingJob* job = nullptr;
  std::int32_t ready_pods = 0;
  std::string_view revision;                           // it is made of; into the job
  std::map<std::string, std::int32_t> ready_groups{};  // of each role whose pods are groups
  Replica state;
};
// `pods`: all that this very job owns. `revision`: of the spec in force.
ReplicaView view_of(const crds::TrainingJob& job, const std::vector<client::Ptr<client::Pod>>& pods,
                    std::string_view revision);

// Whether the pod will give its place back without anybody doing more. Either it was told to go and its grace
// period is not over, or its replica is gone (`has_replica` is false) and the garbage collector comes for it.
// A pod that stays longer than its grace period (because its node is away) is not waited for.
bool is_leaving(const client::Pod& pod, bool has_replica, crds::Time now);

struct Refused {
  std::string reason;  // "": nothing was
  std::string message;
};

// What is known of the service's revisions.
struct RevisionsView {
  RolloutDecision decision;
  std::vector<KeptRevision> kept;
};

// The status as it is to be: `service.status` is what was. `rollout`: see ServicePlan. `scaling`: nothing
// where the service is not autoscaled, or was not read yet by this process. `revisions`: nothing where they
// are not known; what the status says of them stays.
crds::InferenceServiceStatus status_of(const crds::InferenceService& service,
                                       const std::vector<ReplicaView>& replicas, std::string_view revision,
                                       const Refused& refused, RolloutMemory rollout, crds::Time now,
                                       const std::optional<ScalingVerdict>& scaling = {},
                                       const RevisionsView* revisions = nullptr);

// What the status remembers, for a plan of this revision.
RolloutMemory rollout_before(const crds::InferenceServiceStatus& status, std::string_view revision);

// Whether they differ in nothing but numbers, and words that repeat numbers. Such a write can wait a moment.
bool only_numbers_differ(const crds::InferenceServiceStatus& a, const crds::InferenceServiceStatus& b);

}  // namespace muster::reconcilers
