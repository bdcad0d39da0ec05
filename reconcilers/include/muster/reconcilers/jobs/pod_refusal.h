// What the API server says about a pod that it does not take decides about the gang, not about one pod.
#pragma once

#include <optional>

#include "muster/client/error.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {

// What becomes of a job of which a pod, or an object its pods need, was not created.
//
// * The spec is at fault (422, 400, 413): evicted as InvalidSpec until the spec is edited.
// * Somebody forbids it (quota, RBAC, an admission policy): back to the queue, and again after a growing
//   delay; what forbids it can change without the job.
// * kAlreadyExists, of an object beside the pods: somebody else has its name. Likewise.
// * nullopt: it may be taken as it is at the next try. That is every passing fault, and a policy that the API
//   server could not set up: for up to 30 s after its start it does not find the kinds of custom resources
//   that policies have as parameters, and refuses whatever they match (failurePolicy: Fail).
std::optional<JobDecision> decision_on_refusal(const client::Error& error);

}  // namespace muster::reconcilers
