// What Muster's children are called: pure functions of job, role, index and attempt, so that a repeated
// create is a harmless conflict and every process finds the same names. Names that would be too long are cut
// and end in a hash of the whole, so that they stay unique and the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// Labels of every pod (and of Service and ConfigMap: kJobLabel only).
inline constexpr std::string_view kJobLabel = "muster.dev/job";          // job_label(job)
inline constexpr std::string_view kRoleLabel = "muster.dev/role";        // the role's name
inline constexpr std::string_view kIndexLabel = "muster.dev/index";      // from 0, within the role
inline constexpr std::string_view kAttemptLabel = "muster.dev/attempt";  // from 1
inline constexpr std::string_view kTryLabel = "muster.dev/try";          // from 0
// Labels of an InferenceService's replicas (TrainingJobs) and of their pods.
inline constexpr std::string_view kServiceLabel = "muster.dev/service";    // job_label(service)
inline constexpr std::string_view kRevisionLabel = "muster.dev/revision";  // of the spec it was made from
// Labels of the pods of a replica that is a set of roles (role_groups.h).
inline constexpr std::string_view kGroupLabel = "muster.dev/group-index";    // from 0, within the role
inline constexpr std::string_view kWorkerLabel = "muster.dev/worker-index";  // within the group; 0 leads it
inline constexpr std::string_view kTrafficLabel = "muster.dev/traffic";  // "true": its service leads to it
// Labels of the jobs of an array's indexes and of their pods; and the annotation of such a job that has its
// parameter.
inline constexpr std::string_view kArrayLabel = "muster.dev/array";             // job_label(array)
inline constexpr std::string_view kArrayIndexLabel = "muster.dev/array-index";  // from 0
inline constexpr std::string_view kArrayParameterAnnotation = "muster.dev/array-parameter";
// Annotation of such a job: the number of the retry that it was made after.
inline constexpr std::string_view kArrayRetryAnnotation = "muster.dev/array-retry";
// Of the namespace and of every object that Muster keeps in it: the Project's name.
inline constexpr std::string_view kProjectLabel = "muster.dev/project";
// Of the objects that Muster keeps in the namespace, not of the namespace itself. They are watched by it.
inline constexpr std::string_view kManagedByLabel = "app.kubernetes.io/managed-by";
inline constexpr std::string_view kManagedBy = "muster";
// The ServiceAccount that a job's pods get where their template names none: without rights, and its token is
// not mounted.
inline constexpr std::string_view kJobAccount = "muster-job";

// Annotation of pods that hold GPUs: the devices on the node, "0,1".
inline constexpr std::string_view kGpusAnnotation = "muster.dev/gpus";
// What a pod has of each of these devices, where that is less than a whole one (gpu_share.h). And the uids of
// the pods that hold them for it, in the same order.
inline constexpr std::string_view kShareAnnotation = "muster.dev/gpu-share";
inline constexpr std::string_view kHoldersAnnotation = "muster.dev/gpu-holders";
// Label of holder pods, which hold a GPU for those who share it: "true".
inline constexpr std::string_view kHolderPodLabel = "muster.dev/gpu-reservation";

// Label of the activators' pods, in Muster's own namespace: "true".
inline constexpr std::string_view kActivatorLabel = "muster.dev/activator";

// The first `digits`, at most 16, of FNV-1a (64 bits, hexadecimal): the same in every process and release,
// which std::hash does not promise.
std::string hash_of(std::string_view text, std::size_t digits);

// The label's value for a job: its name, cut to 63 characters where longer.
std::string job_label(std::string_view job);

// "<job>-<role>-<index>-<attempt>", "-r<tries>" behind it when tries > 0; at most 253 characters. A role
// with a dash in its name gets a hash behind it, or jobs "a-b" and "a" could mean the same pod:
// "<job>-<role>-<hash>-<index>-…".
std::string pod_name(std::string_view job, std::string_view role, std::int32_t index, std::int32_t attempt,
                     std::int32_t tries);

// The labels that Muster gives to all pods of a role alike: job, role, and those of an InferenceService or of
// an array.
crds::StringMap labels_of_pods(const crds::TrainingJob& job, const crds::Role& role);

// The TrainingJob that is replica `ordinal` of a revision: "<service>-<revision>-<ordinal>", at most 40
// characters for ordinals up to 9999.
std::string replica_name(std::string_view service, std::string_view revision, std::int32_t ordinal);
// The TrainingJob that is one index of an array: "<array>-<index>", which the schema keeps within 40
// characters.
std::string index_job_name(std::string_view array, std::int32_t index);
// The index that the label of such a job says; nullopt: it has none.
std::optional<std::int32_t> array_index_of(const crds::StringMap& labels);
// Five digits for a spec's text.
std::string revision_of(std::string_view spec);

// "<role>-<index>", at most 63 characters: the pod's hostname, the same in every attempt.
std::string host_name(std::string_view role, std::int32_t index);
// The headless Service of the job: its name where that is a DNS-1035 label of at most 63 characters,
// else "j-<cut>-<hash>".
std::string service_name(std::string_view job);
// Labels of all pods of the job, as a selector.
std::string selector_of(std::string_view job);
// "<job>-hosts".
std::string hosts_config_map_name(std::string_view job);

// "gpu-<index>-<node>": the pod that holds this GPU of the node for those who share it.
std::string holder_pod_name(std::string_view node, std::int32_t gpu);

// "0,1,5".
std::string gpu_list(const std::vector<std::int32_t>& gpus);
// The devices that such a text names; empty where it cannot be read.
std::vector<std::int32_t> parse_gpu_list(std::string_view text);
// More than any machine has: what a node or a pod states beyond is not believed.
inline constexpr std::int32_t kMaxGpusOfNode = 1024;
// Numbers from 0 to `most`, separated by commas; nullopt: something else.
std::optional<std::vector<std::int32_t>> parse_numbers(std::string_view text, std::int32_t most);

}  // namespace muster::reconcilers
