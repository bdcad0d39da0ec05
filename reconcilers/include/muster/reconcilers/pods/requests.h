// What a pod template asks of a node: resources as the Kubernetes scheduler counts them, and the terms under
// which it may go there.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/error.h"
#include "muster/crds/quantity.h"
#include "muster/crds/training_job.h"
#include "muster/placement/job.h"
#include "muster/placement/node.h"

namespace muster::reconcilers {

// Terms are placement's own, so that nothing is translated twice.
using NodeOperator = placement::Operator;  // In, NotIn, Exists, DoesNotExist, Gt, Lt
// In, NotIn: at least one value; Gt, Lt: one integer; else none.
using NodeRequirement = placement::Requirement;
// All of them hold. A term with no requirement matches no node, as in Kubernetes.
using NodeTerm = placement::Term;
// One of them holds.
using NodeTerms = placement::AnyOf;
using Toleration = placement::Toleration;

struct PreferredTerm {
  std::int32_t weight = 1;  // 1 to 100
  NodeTerm term;

  bool operator==(const PreferredTerm&) const = default;
};

struct PodRequests {
  crds::MilliCpu cpu;
  crds::Bytes memory;
  // Extended resources ("rdma/hca"), and in bytes local disk and huge pages; only amounts above 0.
  placement::NamedAmounts named{};

  bool operator==(const PodRequests&) const = default;
};

// What a pod of one role needs of its node.
struct PodNeeds {
  std::int32_t gpus = 0;                // whole ones, slices, or GPUs that are shared: as `share` says
  placement::GpuShare share;            // what it wants of each of them
  bool numa_aligned = false;            // all on one NUMA node
  std::vector<std::string> gpu_models;  // any of these; empty: any
  bool host_network = false;            // its ports are those of the node
  std::string runtime_class{};          // whose overhead and terms are not in here: RuntimeClass; "": none
  crds::StringMap labels;               // of the pod, Muster's own among them
  PodRequests requests;
  crds::StringMap node_selector;  // all of them
  // A list of alternatives, one of which must hold; empty: any node.
  NodeTerms required;
  std::vector<PreferredTerm> preferred;
  std::vector<Toleration> tolerations;
  std::vector<placement::PodTerm> pod_affinity, pod_anti_affinity;          // all of them
  std::vector<std::pair<std::int64_t, placement::PodTerm>> preferred_pods;  // weight; negative: apart
  std::vector<placement::SpreadConstraint> spread;

  bool operator==(const PodNeeds&) const = default;
};

// `field` is the template's path in its object ("spec.roles[0].template"), for errors. `pod_template` is
// a PodTemplateSpec.
//
// Effective requests are the sum over containers and sidecars, or what the init containers need at one time
// if that is more. A limit without a request is a request. Resources of the pod as a whole take the place of
// the sum. The overhead comes on top.
crds::Result<PodRequests> effective_requests(const crds::Json& pod_template, std::string_view field);

// Terms that Muster's placement does not know are refused, never passed over: ports under hostNetwork,
// scheduling gates, resource claims, matchFields beside metadata.name. GPUs are asked for with gpus and not
// by a container. Of extended resources and huge pages the requests must be the limits.
// `set_labels`: those that Muster gives to such a pod, beside the template's.
crds::Result<PodNeeds> pod_needs(const crds::Json& pod_template, const std::optional<crds::Gpus>& gpus,
                                 std::string_view field, const crds::StringMap& set_labels = {});
// Of a server's pods, which restart as their template says.
crds::Result<PodNeeds> server_needs(const crds::Json& pod_template, const std::optional<crds::Gpus>& gpus,
                                    std::string_view field, const crds::StringMap& set_labels = {});
// False also where nothing can be told.
bool asks_for_no_gpu(const std::vector<PodNeeds>& needs);
bool asks_for_parts_of_gpus(const std::vector<PodNeeds>& needs);
// What a pod at this place asks for of CPUs. `needs`: of each role of the spec, in order.
crds::MilliCpu cpus_of(const crds::TrainingJobSpec& spec, const std::vector<PodNeeds>& needs,
                       const crds::PodAssignment& place);
crds::NamedAmounts named_of(const crds::TrainingJobSpec& spec, const std::vector<PodNeeds>& needs,
                            const crds::PodAssignment& place);  // the same of resources known by name
bool asks_for_named(const std::vector<PodNeeds>& needs);
// Of each role, in order; the first error in order. Also says what rendezvous_problem says.
crds::Result<std::vector<PodNeeds>> pod_needs(const crds::TrainingJob& job);

}  // namespace muster::reconcilers
