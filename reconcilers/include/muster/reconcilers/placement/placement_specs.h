// Objects as placement takes them. Pure functions: the controller feeds its placement model with them, and
// `muster simulate` its own, so that both decide about the same thing.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/pod.h"
#include "muster/crds/crds.h"
#include "muster/placement/job.h"
#include "muster/placement/node.h"
#include "muster/placement/plan.h"
#include "muster/placement/pool.h"
#include "muster/placement/queue.h"
#include "muster/reconcilers/pods/requests.h"
#include "muster/reconcilers/pods/volumes.h"

namespace muster::placement {
class Cluster;
}

namespace muster::reconcilers {

// Annotations of nodes, where no driver publishes the same: the matrix of `nvidia-smi topo -m`, rows
// separated by newlines or semicolons; and the NUMA node of each GPU, "0,0,1,1".
inline constexpr std::string_view kGpuLinksAnnotation = "muster.dev/gpu-links";
inline constexpr std::string_view kGpuNumaAnnotation = "muster.dev/gpu-numa";
// GPUs that are not to be used, "3,5"; what runs on them is placed anew.
inline constexpr std::string_view kGpuUnhealthyAnnotation = "muster.dev/gpu-unhealthy";
// Taints on a whole node. The first says that somebody has work to do on it, the second that nothing runs
// there any more.
inline constexpr std::string_view kMaintenanceTaint = "muster.dev/maintenance";
inline constexpr std::string_view kOutOfServiceTaint = "node.kubernetes.io/out-of-service";

bool is_in_maintenance(const client::Node& node);
bool is_out_of_service(const client::Node& node);
std::string model_of(const client::Node& node);  // of its GPUs; "": it names none
// Empty where the annotation is absent or cannot be read.
std::vector<std::int32_t> unhealthy_gpus(const client::Node& node);

placement::Time to_time(const std::optional<crds::Time>& t);  // absent: the epoch
placement::Duration to_duration(crds::Duration d);
// GPU-seconds of status.disruption (of a job without GPUs CPU-seconds), and back, rounded up.
placement::WorkTime to_work_time(std::int64_t seconds);
std::int64_t to_seconds(placement::WorkTime work);
// Of resources known by name, those that some bound in the tree of this cluster is about.
crds::AmountsByModel to_amounts(const placement::Cluster& cluster, const placement::Resources& r);
crds::Waiting to_waiting(const placement::PendingReason& v);

placement::PoolSpec pool_spec(const crds::NodePool& pool);
placement::QueueSpec queue_spec(const crds::Queue& queue);
placement::QueueSpec queue_spec(const crds::Project& project);

// [i][j]: higher is better: NV4 > NV2 > NV1 > PIX > PXB > PHB > NODE > SYS. The header and the names of rows
// may be left out. The error says what is allowed.
std::expected<std::vector<std::vector<int>>, std::string> parse_gpu_links(std::string_view text);
std::expected<std::vector<std::int32_t>, std::string> parse_gpu_numa(std::string_view text);
// `gpu_resources`: the extended resources that count GPUs in any pool. Annotations that cannot be read are
// as if absent.
placement::NodeSpec node_spec(const client::Node& node, const std::set<std::string>& gpu_resources);

// `project`: what its namespace is charged to; "": nothing. `volumes` may be shorter than the roles.
placement::JobSpec job_spec(const crds::TrainingJob& job, std::string project, std::int32_t priority,
                            const std::vector<PodNeeds>& needs, const std::vector<VolumeTerms>& volumes);
// Makes the replica avoid the others of its service and revision, whose labels its roles have.
void keep_apart(placement::JobSpec& job, const crds::ReplicaPlacement& placement);
// Keeps the replica off nodes on which another of its service, of any revision, already has the ports: those
// of its roles that run on the node's network. `needs`: by role.
void keep_ports_apart(placement::JobSpec& job, const std::vector<PodNeeds>& needs);
// Of a job that holds an assignment.
placement::Progress progress_spec(const crds::TrainingJobSpec& spec, const crds::TrainingJobStatus& status);

// Pods of roles that the job does not have get the role -1.
placement::Assignment assignment_spec(const std::vector<crds::Role>& roles,
                                      const crds::Assignment& assignment, placement::Time since);

// A pod that no assignment means; what it asks for is counted as on nodes. Its devices are known where
// Muster's annotation names them. `may_share`: if it is a job's, it has of each what its annotation says;
// else whole ones.
placement::OtherPod other_pod(const client::Pod& pod, std::string project,
                              const std::set<std::string>& gpu_resources, bool may_share = true);

}  // namespace muster::reconcilers
