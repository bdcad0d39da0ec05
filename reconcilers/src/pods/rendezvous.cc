#include "muster/reconcilers/pods/rendezvous.h"

#include <algorithm>
#include <cstddef>

#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/role_groups.h"

namespace muster::reconcilers {
namespace {

using crds::Framework;
using crds::Role;
using crds::TrainingJob;

constexpr std::string_view kClusterKey = "tf-cluster";
constexpr std::string_view kClusterVariable = "MUSTER_TF_CLUSTER";
constexpr std::string_view kEvaluator = "evaluator";
constexpr std::string_view kLauncher = "launcher";

// Each member that leaves costs torchrun's other agents one of them: docs/decisions/0041.
constexpr const char* kRestartsInPlace = "10";

constexpr std::size_t kMaxConfigMap = 1 << 20;  // bytes of all files of a ConfigMap
// Linux: name, '=', value and the zero behind it (MAX_ARG_STRLEN).
constexpr std::size_t kMaxVariable = 128UZ * 1024;

// Gangs are large and their service has one name: the part behind the host is made once.
std::string domain_of(const TrainingJob& job) {
  return "." + service_name(job.metadata.name) + "." + job.metadata.ns + ".svc";
}

std::string first_host(const TrainingJob& job) {
  return host_name(job.spec.roles.front().name, 0) + domain_of(job);
}

std::int32_t gpus_of(const Role& role) {
  return role.gpus ? crds::devices_of(*role.gpus) : 0;
}

std::int32_t size_of_gang(const TrainingJob& job) {
  std::int32_t sum = 0;
  for (const Role& role : job.spec.roles) sum += size_of(job, role);
  return sum;
}

std::string endpoint(const std::string& host, std::int32_t port) {
  return host + ":" + std::to_string(port);
}

// As Kubernetes hands it over unchanged: it would put other variables in the place of $(NAME).
std::string literally(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '$' ? 2 : 1, c);
  return out;
}

void add_groups(std::vector<EnvVar>& env, const TrainingJob& job, const Role& role, const PodNumbers& n) {
  const std::int32_t size = group_size_of(job, role.name);
  if (size == 0) return;
  const std::string leader = n.leader + domain_of(job);
  env.push_back({"MUSTER_GROUPS", std::to_string(size_of(job, role) / size)});
  env.push_back({"MUSTER_GROUP_INDEX", n.group});
  env.push_back({"MUSTER_GROUP_SIZE", std::to_string(size)});
  env.push_back({"MUSTER_WORKER_INDEX", n.worker});
  env.push_back({"MUSTER_LEADER_ADDRESS", leader});
  env.push_back({"LWS_LEADER_ADDRESS", leader});
  env.push_back({"LWS_GROUP_SIZE", std::to_string(size)});
  env.push_back({"LWS_WORKER_INDEX", n.worker});
}

// One file of each role: the leaders of its groups.
void add_leaders(std::vector<std::pair<std::string, std::string>>& files, const TrainingJob& job) {
  const std::string domain = domain_of(job);
  for (const Role& role : job.spec.roles) {
    const std::int32_t size = group_size_of(job, role.name);
    if (size == 0) continue;
    std::string leaders;
    for (std::int32_t i = 0; i < size_of(job, role); i += size)
      leaders += host_name(role.name, i) + domain + "\n";
    files.emplace_back("leaders-" + role.name, std::move(leaders));
  }
}

void add_pytorch(std::vector<EnvVar>& env, const TrainingJob& job, const Role& role, const PodNumbers& n) {
  const std::string host = first_host(job);
  const std::string pods = std::to_string(size_of_gang(job));
  const bool in_place = crds::resizes_in_place(job.spec);
  const std::string bounds =
      std::to_string(crds::replicas_of(job.spec)) + ":" + std::to_string(crds::most_replicas_of(job.spec));
  env.push_back({"MASTER_ADDR", host});
  env.push_back({"MASTER_PORT", std::to_string(kMasterPort)});
  env.push_back({"WORLD_SIZE", pods});
  env.push_back({"RANK", n.rank});
  env.push_back({"PET_NNODES", in_place ? bounds : pods});
  env.push_back({"PET_NODE_RANK", n.rank});
  env.push_back({"PET_NPROC_PER_NODE", std::to_string(std::max(1, gpus_of(role)))});
  env.push_back({"PET_RDZV_BACKEND", "c10d"});
  env.push_back({"PET_RDZV_ENDPOINT", endpoint(host, kMasterPort)});
  env.push_back({"PET_RDZV_ID", job.metadata.uid + "-" + n.attempt});
  env.push_back({"PET_RDZV_CONF", "is_host=" + n.is_first});
  env.push_back({"PET_MAX_RESTARTS", in_place ? kRestartsInPlace : "0"});
  // Without it, a member that joins later waits in vain for an address that is given out in the first round
  // only.
  if (in_place) env.push_back({"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"});
}

void add_jax(std::vector<EnvVar>& env, const TrainingJob& job, const PodNumbers& n) {
  env.push_back({"JAX_COORDINATOR_ADDRESS", endpoint(first_host(job), kCoordinatorPort)});
  env.push_back({"JAX_NUM_PROCESSES", std::to_string(size_of_gang(job))});
  env.push_back({"JAX_PROCESS_ID", n.rank});
}

// The text of the cluster is the same in every pod and grows with the gang, so all pods together would hold
// the square of the gang's size. Therefore each pod refers to the one copy in the ConfigMap, and the kubelet
// puts it in the place of $(…).
void add_tensorflow(std::vector<EnvVar>& env, const Role& role, const PodNumbers& n) {
  env.push_back({std::string(kClusterVariable), "", std::string(kClusterKey)});
  env.push_back({"TF_CONFIG", R"({"cluster":$()" + std::string(kClusterVariable) + R"(),"task":{"type":")" +
                                  role.name + R"(","index":)" + n.index + "}}"});
}

void add_mpi(std::vector<EnvVar>& env) {
  const std::string directory = std::string(kHostsDirectory) + "/";
  // Open MPI 4 (orte) and 5 (prte) cut host names at the first dot unless told not to.
  env.push_back({"OMPI_MCA_orte_default_hostfile", directory + "hostfile"});
  env.push_back({"OMPI_MCA_orte_keep_fqdn_hostnames", "true"});
  env.push_back({"PRTE_MCA_prte_default_hostfile", directory + "hostfile"});
  env.push_back({"PRTE_MCA_prte_keep_fqdn_hostnames", "true"});
  env.push_back({"I_MPI_HYDRA_HOST_FILE", directory + "machinefile"});
  env.push_back({"HYDRA_HOST_FILE", directory + "machinefile"});
}

// fn(role, fqdn) for every pod that there is (of a fixed gang: is to be), in rank order.
template <class Fn>
void for_each_pod(const TrainingJob& job, Fn fn) {
  const std::string domain = domain_of(job);
  const auto& assigned = job.status.assignment.pods;
  for (const Role& role : job.spec.roles) {
    if (crds::is_elastic(role) && !assigned.empty()) {
      for (const auto& p : assigned) {
        if (p.role == role.name) fn(role, host_name(role.name, p.index) + domain);
      }
      continue;
    }
    for (std::int32_t i = 0; i < crds::least_replicas(role); ++i) fn(role, host_name(role.name, i) + domain);
  }
}

// At its largest.
TrainingJob grown(TrainingJob job) {
  job.status.assignment = {};
  for (Role& role : job.spec.roles) role.min_replicas = role.max_replicas;
  return job;
}

// The "cluster" of TF_CONFIG.
std::string tensorflow_cluster(const TrainingJob& job) {
  std::string text = "{";
  const Role* open = nullptr;
  for_each_pod(job, [&](const Role& role, const std::string& host) {
    if (role.name == kEvaluator) return;
    if (open != &role) {
      if (open != nullptr) text += "],";
      text += '"' + role.name + "\":[";
      open = &role;
    } else {
      text += ',';
    }
    text += '"' + endpoint(host, kTensorFlowPort) + '"';
  });
  if (open != nullptr) text += ']';
  return text + '}';
}

}  // namespace

std::vector<EnvVar> environment(const TrainingJob& job, const Role& role, const PodNumbers& numbers) {
  std::vector<EnvVar> env;
  env.reserve(20);
  env.push_back({"MUSTER_JOB", job.metadata.name});
  env.push_back({"MUSTER_ROLE", role.name});
  env.push_back({"MUSTER_INDEX", numbers.index});
  env.push_back({"MUSTER_REPLICAS", std::to_string(size_of(job, role))});
  env.push_back({"MUSTER_HOSTS_FILE", std::string(kHostsFile)});
  env.push_back({"MUSTER_ATTEMPT", numbers.attempt});
  add_groups(env, job, role, numbers);
  if (const auto index = array_index_of(job.metadata.labels))
    env.push_back({"MUSTER_ARRAY_INDEX", std::to_string(*index)});
  const auto parameter = job.metadata.annotations.find(std::string(kArrayParameterAnnotation));
  if (parameter != job.metadata.annotations.end())
    env.push_back({"MUSTER_ARRAY_PARAMETER", literally(parameter->second)});
  const auto& resume = job.status.assignment.resume;
  if (resume.step) env.push_back({"MUSTER_RESUME_STEP", std::to_string(*resume.step)});
  if (resume.step && !resume.uri.empty()) env.push_back({"MUSTER_RESUME_URI", literally(resume.uri)});
  switch (job.spec.framework) {
    case Framework::kGeneric:
      break;
    case Framework::kPyTorch:
      add_pytorch(env, job, role, numbers);
      break;
    case Framework::kJax:
      add_jax(env, job, numbers);
      break;
    case Framework::kTensorFlow:
      add_tensorflow(env, role, numbers);
      break;
    case Framework::kMpi:
      add_mpi(env);
      break;
  }
  return env;
}

std::vector<std::pair<std::string, std::string>> rendezvous_files(const TrainingJob& job) {
  std::vector<std::pair<std::string, std::string>> files;
  std::string hosts;
  for_each_pod(job, [&](const Role&, const std::string& host) { hosts += host + "\n"; });
  files.emplace_back("hosts", std::move(hosts));
  add_leaders(files, job);
  if (crds::is_elastic(job.spec)) files.emplace_back("size", std::to_string(size_of_gang(job)) + "\n");
  if (job.spec.framework == Framework::kTensorFlow) files.emplace_back(kClusterKey, tensorflow_cluster(job));
  if (job.spec.framework == Framework::kMpi) {
    std::string hostfile;
    std::string machinefile;
    for_each_pod(job, [&](const Role& role, const std::string& host) {
      if (role.name == kLauncher && job.spec.roles.size() > 1) return;
      const std::string slots = std::to_string(std::max(1, gpus_of(role)));
      hostfile += host + " slots=" + slots + "\n";
      machinefile += host + ":" + slots + "\n";
    });
    files.emplace_back("hostfile", std::move(hostfile));
    files.emplace_back("machinefile", std::move(machinefile));
  }
  return files;
}

std::optional<crds::FieldError> rendezvous_problem(const TrainingJob& job) {
  const auto problem = [&](const std::string& what) {
    return crds::FieldError{.object = "TrainingJob " + job.metadata.ns + "/" + job.metadata.name,
                            .field = "spec.roles",
                            .message = what + "; use fewer pods or shorter names",
                            .location = {}};
  };
  std::size_t total = 0;
  for (const auto& [key, text] : rendezvous_files(crds::is_elastic(job.spec) ? grown(job) : job)) {
    total += key.size() + text.size();
    // TF_CONFIG is the cluster and the pod's task around it.
    constexpr std::size_t kTask = 128;
    if (key == kClusterKey && text.size() + kTask > kMaxVariable) {
      return problem("must fit into the environment variable TF_CONFIG, which Linux bounds to " +
                     std::to_string(kMaxVariable) + " bytes, but need " +
                     std::to_string(text.size() + kTask));
    }
  }
  if (total <= kMaxConfigMap) return std::nullopt;
  return problem("must have host names that fit into a ConfigMap of " + std::to_string(kMaxConfigMap) +
                 " bytes, but need " + std::to_string(total));
}

}  // namespace muster::reconcilers
