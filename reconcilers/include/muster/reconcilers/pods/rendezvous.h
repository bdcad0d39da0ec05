// How the pods of a gang find each other: environment and files of each framework. Every role takes part;
// ranks count roles in the spec's order, then index, and rank 0 leads.
//
//   always      MUSTER_JOB, MUSTER_ROLE, MUSTER_INDEX (within the role), MUSTER_REPLICAS (of the role, when
//               the pod was made), MUSTER_HOSTS_FILE, MUSTER_ATTEMPT; where the attempt resumes from a
//               checkpoint MUSTER_RESUME_STEP and, if it was reported, MUSTER_RESUME_URI
//   groups      of a role whose pods are groups (role_groups.h): MUSTER_GROUPS (of the role in this gang),
//               MUSTER_GROUP_INDEX, MUSTER_GROUP_SIZE, MUSTER_WORKER_INDEX, MUSTER_LEADER_ADDRESS, and the
//               names that LeaderWorkerSet gives to the last three
//   PyTorch     MASTER_ADDR, MASTER_PORT, WORLD_SIZE (pods), RANK, and torchrun's PET_*. PET_RDZV_ID
//               changes with every attempt, PET_NNODES is "least:most" where members join and leave,
//               PET_MAX_RESTARTS is 0 because Muster restarts and counts (kRestartsInPlace where members
//               join and leave), PET_RDZV_CONF tells rank 0 that it hosts the store, which torchrun would
//               else guess from DNS, too early for it to know
//   JAX         JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID
//   TensorFlow  TF_CONFIG; the cluster in it is kept once, in the job's ConfigMap. A role named evaluator
//               is a task that is not in the cluster
//   MPI         hostfile (Open MPI: "fqdn slots=N") and machinefile (MPICH, Intel MPI: "fqdn:N"), N the
//               GPUs of the pod or 1. A role named launcher is not in them
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/crds/error.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

inline constexpr std::string_view kHostsDirectory = "/etc/muster";
inline constexpr std::string_view kHostsFile = "/etc/muster/hosts";
inline constexpr std::int32_t kMasterPort = 29500;      // PyTorch's own default
inline constexpr std::int32_t kCoordinatorPort = 8476;  // JAX's
inline constexpr std::int32_t kTensorFlowPort = 2222;   // TensorFlow's

// One variable: `value`, or what the job's ConfigMap has under `config_map_key` where that is not empty.
struct EnvVar {
  std::string name;
  std::string value;
  std::string config_map_key{};

  bool operator==(const EnvVar&) const = default;
};

// What differs from pod to pod, as text: a number, or whatever a renderer wants to stand in its place.
struct PodNumbers {
  std::string index;
  std::string rank;
  std::string attempt;
  std::string is_first;  // "true" for rank 0, else "false"
  // Of a pod in a group.
  std::string group{};
  std::string worker{};
  std::string leader{};  // the host name of the group's first pod
};

// The environment of a pod of this role (one of job.spec.roles), in the order in which it is to be
// injected. O(roles).
std::vector<EnvVar> environment(const crds::TrainingJob& job, const crds::Role& role,
                                const PodNumbers& numbers);

// Files of the job's ConfigMap by key: "hosts" (one FQDN a line, in rank order), of an elastic gang "size"
// (pods in all), of a role whose pods are groups "leaders-<role>" (the first of each), and what the framework
// needs. They follow the assignment. O(pods).
std::vector<std::pair<std::string, std::string>> rendezvous_files(const crds::TrainingJob& job);

// A gang whose names are more than Kubernetes or the kernel take: a ConfigMap above 1 MiB, a variable above
// 128 KiB. O(pods).
std::optional<crds::FieldError> rendezvous_problem(const crds::TrainingJob& job);

}  // namespace muster::reconcilers
