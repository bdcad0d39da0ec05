// What Muster keeps for an InferenceService: a TrainingJob for each replica, the Service that leads to them,
// and the PodDisruptionBudget. Pure functions from the service to JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/client/pod.h"
#include "muster/crds/inference_service.h"

namespace muster::reconcilers {

// A name for what replicas are made from. That is all of the spec but the number of replicas (autoscaling
// included), the port, the way of rolling out and how long a start may take. Every process gives specs that
// say the same the same name.
std::string revision_of(const crds::InferenceService& service);
// Replaces what is no part of a revision.
void take_over_the_rest(crds::InferenceServiceSpec& to, const crds::InferenceServiceSpec& from);

// A replica is a gang like any other. `priority_class`: "" for none. `is_guaranteed`: it is not preemptible.
crds::Json replica_json(const crds::InferenceService& service, std::string_view revision,
                        std::int32_t ordinal, std::string_view priority_class, bool is_guaranteed);

// Takes what was said of a replica's spec, and says it of the service's: with the service's own fields, and
// without the replica as the subject of the API server's sentence. With roles the fields are the same.
std::string in_terms_of_service(std::string_view text, const crds::InferenceServiceSpec& spec);

// The selector of all its pods, for HorizontalPodAutoscalers: "muster.dev/service=<name>".
std::string pod_selector(const crds::InferenceService& service);
// "http://<name>.<namespace>.svc:<port>".
std::string url_of(const crds::InferenceService& service);

// Leads to the first pod of every replica whose readiness probe says so; with roles to the leaders of the
// role that takes the traffic.
crds::Json endpoint_json(const crds::InferenceService& service);
// "<service>-<role>": a headless Service, whose name resolves to the leaders of the role that are ready.
std::string role_service_name(std::string_view service, std::string_view role);
crds::Json role_endpoint_json(const crds::InferenceService& service, std::string_view role);
// Whether the Service of the service leads to the pod.
bool takes_requests(const crds::InferenceServiceSpec& spec, const client::Pod& pod);
// Keeps all replicas but as many as a rollout may lack. At least one may go, so that a drain can go on.
// The only replica of a service is kept, because it is moved with a surge when its node is cordoned; unless
// it cannot be (`cannot_move`), so that no node waits for it for ever.
crds::Json disruption_budget_json(const crds::InferenceService& service, bool cannot_move = false);

}  // namespace muster::reconcilers
