#include "muster/reconcilers/pods/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/role_groups.h"
#include "sample_jobs.h"

namespace muster::reconcilers {
namespace {

using crds::Framework;
using Variables = std::map<std::string, std::string>;

std::vector<EnvVar> environment_of(const crds::TrainingJob& job, std::string_view role, std::int32_t index,
                                   std::int32_t attempt) {
  const std::int32_t rank = first_rank(job, role) + index;
  const PodNumbers numbers{std::to_string(index), std::to_string(rank), std::to_string(attempt),
                           rank == 0 ? "true" : "false"};
  return environment(job, *std::ranges::find(job.spec.roles, role, &crds::Role::name), numbers);
}

Variables variables(const crds::TrainingJob& job, std::string_view role, std::int32_t index,
                    std::int32_t attempt = 4) {
  Variables all;
  for (const EnvVar& var : environment_of(job, role, index, attempt)) {
    const std::string value = var.config_map_key.empty() ? var.value : "<" + var.config_map_key + ">";
    EXPECT_TRUE(all.emplace(var.name, value).second) << var.name << " twice";
  }
  return all;
}

crds::TrainingJob two_roles(Framework framework, const char* first, const char* second) {
  crds::TrainingJob job = sample_job(framework);
  job.spec.roles.clear();
  job.spec.roles.push_back(role(first, 1, std::nullopt, bare_template()));
  job.spec.roles.push_back(role(second, 2, 4, bare_template()));
  return job;
}

Variables with_common(Variables more, const std::string& role_name, const std::string& index,
                      const std::string& replicas) {
  more.insert({{"MUSTER_JOB", "llama"},
               {"MUSTER_ROLE", role_name},
               {"MUSTER_INDEX", index},
               {"MUSTER_REPLICAS", replicas},
               {"MUSTER_HOSTS_FILE", "/etc/muster/hosts"},
               {"MUSTER_ATTEMPT", "4"}});
  return more;
}

struct Case {
  const char* name;
  Framework framework;
  const char* roles[2];
  Variables first;  // of the only pod of the first role
  Variables last;   // of the second pod of the second role, beyond what is always there
};

Variables pytorch(const std::string& rank, const std::string& gpus, const std::string& is_host) {
  return {{"MASTER_ADDR", "chief-0.llama.nlp.svc"},
          {"MASTER_PORT", "29500"},
          {"WORLD_SIZE", "3"},
          {"RANK", rank},
          {"PET_NNODES", "3"},
          {"PET_NODE_RANK", rank},
          {"PET_NPROC_PER_NODE", gpus},
          {"PET_RDZV_BACKEND", "c10d"},
          {"PET_RDZV_ID", "uid-1-4"},
          {"PET_RDZV_ENDPOINT", "chief-0.llama.nlp.svc:29500"},
          {"PET_RDZV_CONF", "is_host=" + is_host},
          {"PET_MAX_RESTARTS", "0"}};
}
Variables jax(const std::string& rank) {
  return {{"JAX_COORDINATOR_ADDRESS", "chief-0.llama.nlp.svc:8476"},
          {"JAX_NUM_PROCESSES", "3"},
          {"JAX_PROCESS_ID", rank}};
}
Variables tensorflow(const std::string& task) {
  return {{"MUSTER_TF_CLUSTER", "<tf-cluster>"},
          {"TF_CONFIG", R"({"cluster":$(MUSTER_TF_CLUSTER),"task":)" + task + "}"}};
}
const Variables kMpi = {{"OMPI_MCA_orte_default_hostfile", "/etc/muster/hostfile"},
                        {"OMPI_MCA_orte_keep_fqdn_hostnames", "true"},
                        {"PRTE_MCA_prte_default_hostfile", "/etc/muster/hostfile"},
                        {"PRTE_MCA_prte_keep_fqdn_hostnames", "true"},
                        {"I_MPI_HYDRA_HOST_FILE", "/etc/muster/machinefile"},
                        {"HYDRA_HOST_FILE", "/etc/muster/machinefile"}};

TEST(Rendezvous, EnvironmentOfEachFramework) {
  const std::vector<Case> cases = {
      {"Generic", Framework::kGeneric, {"chief", "worker"}, {}, {}},
      {"PyTorch",
       Framework::kPyTorch,
       {"chief", "worker"},
       pytorch("0", "1", "true"),
       pytorch("2", "4", "false")},
      {"JAX", Framework::kJax, {"chief", "worker"}, jax("0"), jax("2")},
      {"TensorFlow",
       Framework::kTensorFlow,
       {"chief", "worker"},
       tensorflow(R"({"type":"chief","index":0})"),
       tensorflow(R"({"type":"worker","index":1})")},
      {"MPI", Framework::kMpi, {"launcher", "worker"}, kMpi, kMpi},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const crds::TrainingJob job = two_roles(c.framework, c.roles[0], c.roles[1]);
    EXPECT_EQ(variables(job, c.roles[0], 0), with_common(c.first, c.roles[0], "0", "1"));
    EXPECT_EQ(variables(job, c.roles[1], 1), with_common(c.last, c.roles[1], "1", "2"));
  }
}

// Agents of an attempt must never meet those of another.
TEST(Rendezvous, EveryAttemptHasItsOwnRendezvous) {
  const crds::TrainingJob job = sample_job(Framework::kPyTorch);
  EXPECT_NE(variables(job, "worker", 0, 1)["PET_RDZV_ID"], variables(job, "worker", 0, 2)["PET_RDZV_ID"]);
  EXPECT_EQ(variables(job, "worker", 0, 1)["PET_RDZV_ID"], variables(job, "worker", 2, 1)["PET_RDZV_ID"]);
}

std::map<std::string, std::string> files(const crds::TrainingJob& job) {
  std::map<std::string, std::string> all;
  for (auto& [key, text] : rendezvous_files(job)) all[key] = text;
  return all;
}

TEST(Rendezvous, HostsAreInRankOrder) {
  const crds::TrainingJob job = two_roles(Framework::kGeneric, "chief", "worker");
  EXPECT_EQ(files(job),
            (std::map<std::string, std::string>{
                {"hosts", "chief-0.llama.nlp.svc\nworker-0.llama.nlp.svc\nworker-1.llama.nlp.svc\n"}}));
}

crds::TrainingJob set_of_roles() {
  crds::TrainingJob job = two_roles(Framework::kGeneric, "prefill", "decode");
  job.spec.roles[0].replicas = 3;
  job.spec.roles[1].replicas = 4;
  job.metadata.annotations["muster.dev/group-size.prefill"] = "1";
  job.metadata.annotations["muster.dev/group-size.decode"] = "2";
  return job;
}

// The numbers that differ from pod to pod are the pod builder's.
TEST(Rendezvous, PodsOfGroupsAreToldTheirGroupAndItsLeader) {
  const crds::TrainingJob job = set_of_roles();
  PodNumbers numbers{"3", "6", "4", "false", "1", "1", "decode-2"};
  Variables all;
  for (const EnvVar& var : environment(job, job.spec.roles[1], numbers)) all[var.name] = var.value;
  EXPECT_EQ(all, with_common({{"MUSTER_GROUPS", "2"},
                              {"MUSTER_GROUP_INDEX", "1"},
                              {"MUSTER_GROUP_SIZE", "2"},
                              {"MUSTER_WORKER_INDEX", "1"},
                              {"MUSTER_LEADER_ADDRESS", "decode-2.llama.nlp.svc"},
                              {"LWS_LEADER_ADDRESS", "decode-2.llama.nlp.svc"},
                              {"LWS_GROUP_SIZE", "2"},
                              {"LWS_WORKER_INDEX", "1"}},
                             "decode", "3", "4"));
}

TEST(Rendezvous, TheLeadersOfEachRoleAreInAFile) {
  auto of_set = files(set_of_roles());
  EXPECT_EQ(of_set["leaders-prefill"],
            "prefill-0.llama.nlp.svc\nprefill-1.llama.nlp.svc\nprefill-2.llama.nlp.svc\n");
  EXPECT_EQ(of_set["leaders-decode"], "decode-0.llama.nlp.svc\ndecode-2.llama.nlp.svc\n");
  EXPECT_EQ(of_set.size(), 3u);
}

// Somebody may write anything there.
TEST(Rendezvous, AGroupSizeThatIsNoneIsNone) {
  crds::TrainingJob job = set_of_roles();
  EXPECT_EQ(group_size_of(job, "decode"), 2);
  EXPECT_EQ(group_size_of(job, "other"), 0);
  for (const char* text : {"", "0", "-1", "2x", "99999999999"}) {
    job.metadata.annotations["muster.dev/group-size.decode"] = text;
    EXPECT_EQ(group_size_of(job, "decode"), 0) << text;
  }
}

TEST(Rendezvous, HostfilesOfMpiLeaveOutTheLauncher) {
  const auto made = files(two_roles(Framework::kMpi, "launcher", "worker"));
  EXPECT_EQ(made.at("hostfile"), "worker-0.llama.nlp.svc slots=4\nworker-1.llama.nlp.svc slots=4\n");
  EXPECT_EQ(made.at("machinefile"), "worker-0.llama.nlp.svc:4\nworker-1.llama.nlp.svc:4\n");
  EXPECT_EQ(std::ranges::count(made.at("hosts"), '\n'), 3);
  // A gang of nothing else runs on it.
  crds::TrainingJob alone = sample_job(Framework::kMpi);
  alone.spec.roles = {role("launcher", 1, std::nullopt, bare_template())};
  EXPECT_EQ(files(alone).at("hostfile"), "launcher-0.llama.nlp.svc slots=1\n");
}

// What a container sees once the kubelet has put the cluster in its place.
TEST(Rendezvous, TensorFlowReadsItsClusterAndTask) {
  crds::TrainingJob job = two_roles(Framework::kTensorFlow, "evaluator", "worker");
  job.spec.roles.push_back(role("ps", 1, std::nullopt, bare_template()));
  std::string config = variables(job, "worker", 1).at("TF_CONFIG");
  const std::string reference = "$(MUSTER_TF_CLUSTER)";
  config.replace(config.find(reference), reference.size(), files(job).at("tf-cluster"));
  const Json expected = {{"cluster",
                          {{"worker", {"worker-0.llama.nlp.svc:2222", "worker-1.llama.nlp.svc:2222"}},
                           {"ps", Json::array({"ps-0.llama.nlp.svc:2222"})}}},
                         {"task", {{"type", "worker"}, {"index", 1}}}};
  EXPECT_EQ(Json::parse(config), expected);
  EXPECT_EQ(Json::parse(files(two_roles(Framework::kTensorFlow, "chief", "evaluator")).at("tf-cluster")),
            Json({{"chief", Json::array({"chief-0.llama.nlp.svc:2222"})}}));
  // The cluster must be set before the variable that refers to it.
  const auto env = environment_of(job, "worker", 0, 1);
  EXPECT_LT(std::ranges::find(env, "MUSTER_TF_CLUSTER", &EnvVar::name) - env.begin(),
            std::ranges::find(env, "TF_CONFIG", &EnvVar::name) - env.begin());
}

TEST(Rendezvous, GangsTooLargeForTheirFilesAreRefusedWithNumbers) {
  crds::TrainingJob job = sample_job(Framework::kPyTorch);
  job.spec.roles[0].replicas = crds::kMaxPods;
  EXPECT_FALSE(rendezvous_problem(job)) << "ordinary names fit at the largest size";
  job.metadata.ns = std::string(63, 'n');
  job.metadata.name = std::string(40, 'j');
  const auto too_long = rendezvous_problem(job);
  ASSERT_TRUE(too_long);
  EXPECT_EQ(too_long->field, "spec.roles");
  EXPECT_THAT(too_long->message, testing::HasSubstr("1048576"));

  crds::TrainingJob flow = sample_job(Framework::kTensorFlow);
  flow.spec.roles[0].replicas = 3000;
  EXPECT_FALSE(rendezvous_problem(flow));
  flow.spec.roles[0].replicas = 5000;
  const auto too_many = rendezvous_problem(flow);
  ASSERT_TRUE(too_many);
  EXPECT_THAT(too_many->message, testing::HasSubstr("TF_CONFIG"));
}

// Files and sizes are those of the assignment; the bounds of torchrun those of the spec.
TEST(Rendezvous, OfAnElasticGangFollowsItsAssignment) {
  auto job = sample_job(Framework::kPyTorch);
  auto& worker = job.spec.roles.front();
  worker.replicas.reset();
  worker.min_replicas = 2;
  worker.max_replicas = 6;
  for (const std::int32_t i : {0, 2, 3}) job.status.assignment.pods.push_back({"worker", i, "n", {}, 0});
  const auto in_place = variables(job, "worker", 3);
  EXPECT_EQ(in_place.at("PET_NNODES"), "2:6");
  EXPECT_EQ(in_place.at("PET_MAX_RESTARTS"), "10") << "each member that leaves costs the others one";
  EXPECT_EQ(in_place.at("TORCH_DISABLE_SHARE_RDZV_TCP_STORE"), "1") << "or nobody could join later";
  EXPECT_EQ(in_place.at("WORLD_SIZE"), "3");
  EXPECT_EQ(in_place.at("RANK"), "3");
  EXPECT_EQ(in_place.at("MUSTER_REPLICAS"), "3");
  const auto files = rendezvous_files(job);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].second, "worker-0.llama.nlp.svc\nworker-2.llama.nlp.svc\nworker-3.llama.nlp.svc\n");
  EXPECT_EQ(files[1], std::pair(std::string("size"), std::string("3\n")));
  job.spec.elastic = crds::Elastic{.resize = crds::Resize::kRestart};
  EXPECT_EQ(variables(job, "worker", 3).at("PET_NNODES"), "3");
  EXPECT_EQ(variables(job, "worker", 3).at("PET_MAX_RESTARTS"), "0");
  EXPECT_FALSE(variables(job, "worker", 3).contains("TORCH_DISABLE_SHARE_RDZV_TCP_STORE"));
}

}  // namespace
}  // namespace muster::reconcilers
