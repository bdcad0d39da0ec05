#include "muster/reconcilers/pods/pod_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "muster/reconcilers/pods/names.h"
#include "sample_jobs.h"

namespace muster::reconcilers {
namespace {

using crds::Framework;

crds::PodAssignment place(std::string role_name, std::int32_t index, std::string node,
                          std::vector<std::int32_t> gpus = {}, std::int32_t tries = 0) {
  return {.role = std::move(role_name),
          .index = index,
          .node = std::move(node),
          .gpus = std::move(gpus),
          .tries = tries};
}

const Json* variable(const Json& container, const std::string& name) {
  const Json& env = container.at("env");
  const auto found = std::ranges::find_if(env, [&](const Json& v) { return v.at("name") == name; });
  return found == env.end() ? nullptr : &*found;
}

TEST(PodBuilder, AddsWhatIsDocumentedAndNothingElse) {
  crds::TrainingJob job = sample_job();
  job.spec.priority_class_name = "training";
  job.spec.checkpoint = crds::Checkpoint{std::chrono::seconds{120}, "ckpts", "/ckpt"};
  const Json pod = Json::parse(PodBuilder(job, {"amd.com/gpu"}).pod(place("worker", 1, "node-7", {2, 3})));

  // Expected: the template by hand.
  Json expected = sample_template();
  expected["apiVersion"] = "v1";
  expected["kind"] = "Pod";
  Json& meta = expected["metadata"];
  meta["name"] = "llama-worker-1-4";
  meta["namespace"] = "nlp";
  meta["labels"].update({{"muster.dev/job", "llama"},
                         {"muster.dev/role", "worker"},
                         {"muster.dev/index", "1"},
                         {"muster.dev/attempt", "4"},
                         {"muster.dev/try", "0"}});
  meta["annotations"]["muster.dev/gpus"] = "2,3";
  meta["ownerReferences"] =
      Json::parse(R"([{"apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob", "name": "llama",
                                             "uid": "uid-1", "controller": true, "blockOwnerDeletion": true}])");
  Json& spec = expected["spec"];
  spec["nodeName"] = "node-7";
  spec["hostname"] = "worker-1";
  spec["subdomain"] = "llama";
  spec["restartPolicy"] = "Never";
  spec["priorityClassName"] = "training";
  spec["terminationGracePeriodSeconds"] = 120;
  spec["containers"][0]["resources"]["requests"]["amd.com/gpu"] = "2";
  spec["containers"][0]["resources"]["limits"]["amd.com/gpu"] = "2";
  spec["volumes"].push_back(Json::parse(R"({"name": "muster-hosts", "configMap": {"name": "llama-hosts"}})"));
  spec["volumes"].push_back(
      Json::parse(R"({"name": "muster-checkpoint", "persistentVolumeClaim": {"claimName": "ckpts"}})"));
  const Json ours = Json::parse(R"([
    {"name": "MUSTER_JOB", "value": "llama"}, {"name": "MUSTER_ROLE", "value": "worker"}, {"name": "MUSTER_INDEX", "value": "1"},
    {"name": "MUSTER_REPLICAS", "value": "3"}, {"name": "MUSTER_HOSTS_FILE", "value": "/etc/muster/hosts"},
    {"name": "MUSTER_ATTEMPT", "value": "4"}])");
  for (Json* container : {&spec["initContainers"][0], &spec["containers"][0], &spec["containers"][1]}) {
    Json env = ours;
    if (container->contains("env"))
      env.insert(env.end(), (*container)["env"].begin(), (*container)["env"].end());
    (*container)["env"] = env;
    (*container)["volumeMounts"].push_back(
        Json::parse(R"({"name": "muster-hosts", "mountPath": "/etc/muster", "readOnly": true})"));
    (*container)["volumeMounts"].push_back(
        Json::parse(R"({"name": "muster-checkpoint", "mountPath": "/ckpt"})"));
  }
  EXPECT_EQ(pod, expected) << Json::diff(expected, pod).dump(1);
}

TEST(PodBuilder, LeavesWhatIsNotStated) {
  crds::TrainingJob job = sample_job();
  job.spec.roles = {role("cpu", 1, std::nullopt, bare_template())};
  const Json pod = Json::parse(PodBuilder(job, {"nvidia.com/gpu"}).pod(place("cpu", 0, "n")));
  EXPECT_FALSE(pod["metadata"].contains("annotations"));
  EXPECT_FALSE(pod["spec"].contains("priorityClassName"));
  EXPECT_FALSE(pod["spec"].contains("terminationGracePeriodSeconds"));
  EXPECT_FALSE(pod["spec"].contains("tolerations"));
  EXPECT_FALSE(pod["spec"].contains("automountServiceAccountToken"));
  EXPECT_EQ(pod["spec"]["serviceAccountName"], "muster-job");
  EXPECT_FALSE(pod["spec"]["containers"][0].contains("resources"));
  EXPECT_EQ(pod["spec"]["volumes"].size(), 1u);
}

// Kubernetes takes ClusterFirst, which it fills in, for Default on the node's network: MASTER_ADDR would not
// resolve.
TEST(PodBuilder, OnTheNodesNetworkTheNamesOfOtherPodsResolve) {
  const auto policy = [](const char* fields) {
    Json text = bare_template();
    text["spec"].update(Json::parse(fields));
    crds::TrainingJob job = sample_job();
    job.spec.roles = {role("worker", 1, std::nullopt, text)};
    const Json pod = Json::parse(PodBuilder(job, {"nvidia.com/gpu"}).pod(place("worker", 0, "n")));
    return pod["spec"].value("dnsPolicy", "");
  };
  EXPECT_EQ(policy(R"({"hostNetwork": true})"), "ClusterFirstWithHostNet");
  EXPECT_EQ(policy(R"({"hostNetwork": true, "dnsPolicy": "ClusterFirst"})"), "ClusterFirstWithHostNet");
  EXPECT_EQ(policy(R"({"hostNetwork": true, "dnsPolicy": "Default"})"), "Default");
  EXPECT_EQ(policy(R"({"hostNetwork": true, "dnsPolicy": "None"})"), "None");
  EXPECT_EQ(policy(R"({"hostNetwork": false})"), "");
  EXPECT_EQ(policy(R"({"dnsPolicy": "ClusterFirst"})"), "ClusterFirst");
}

TEST(PodBuilder, JobLabelsDoNotReachPods) {
  const std::string pod = PodBuilder(sample_job(), {"nvidia.com/gpu"}).pod(place("worker", 0, "n"));
  EXPECT_THAT(pod, testing::Not(testing::HasSubstr("argocd")));
}

TEST(PodBuilder, TheTemplatesOwnVariablesAndMountsWin) {
  crds::TrainingJob job = sample_job(Framework::kPyTorch);
  Json own = sample_template();
  own["spec"]["containers"][0]["volumeMounts"].push_back({{"name", "data"}, {"mountPath", "/etc/muster"}});
  job.spec.roles[0] = role("worker", 3, 2, own);
  const Json pod = Json::parse(PodBuilder(job, {"nvidia.com/gpu"}).pod(place("worker", 2, "n")));
  const Json& main = pod["spec"]["containers"][0];
  EXPECT_EQ(variable(main, "MASTER_PORT")->at("value"), "1234");
  EXPECT_EQ(std::ranges::count_if(main["env"], [](const Json& v) { return v["name"] == "MASTER_PORT"; }), 1);
  EXPECT_EQ(variable(pod["spec"]["containers"][1], "MASTER_PORT")->at("value"), "29500");
  // $(RANK) in the template's own variables and arguments finds ours, because ours come first.
  EXPECT_EQ(main["env"].back()["name"], "MASTER_PORT");
  EXPECT_EQ(variable(main, "RANK")->at("value"), "2");
  EXPECT_EQ(std::ranges::count_if(main["volumeMounts"],
                                  [](const Json& m) { return m["mountPath"] == "/etc/muster"; }),
            1);
  EXPECT_EQ(main["volumeMounts"].size(), 2u);
}

TEST(PodBuilder, TensorFlowRefersToTheConfigMap) {
  const Json pod = Json::parse(
      PodBuilder(sample_job(Framework::kTensorFlow), {"nvidia.com/gpu"}).pod(place("worker", 2, "n")));
  const Json& main = pod["spec"]["containers"][0];
  EXPECT_EQ((*variable(main, "MUSTER_TF_CLUSTER"))["valueFrom"],
            Json::parse(R"({"configMapKeyRef": {"name": "llama-hosts", "key": "tf-cluster"}})"));
  EXPECT_EQ(variable(main, "TF_CONFIG")->at("value"),
            R"({"cluster":$(MUSTER_TF_CLUSTER),"task":{"type":"worker","index":2}})");
}

TEST(PodBuilder, RanksRunOverRoles) {
  crds::TrainingJob job = sample_job(Framework::kJax);
  job.spec.roles = {role("a", 2, 1, bare_template()), role("b", 2, 1, bare_template())};
  const PodBuilder builder(job, {"nvidia.com/gpu"});
  std::vector<std::string> ranks;
  for (const auto& where : {place("a", 0, "n"), place("a", 1, "n"), place("b", 0, "n"), place("b", 1, "n")}) {
    ranks.push_back(
        *variable(Json::parse(builder.pod(where))["spec"]["containers"][0], "JAX_PROCESS_ID")->find("value"));
  }
  EXPECT_THAT(ranks, testing::ElementsAre("0", "1", "2", "3"));
}

TEST(PodBuilder, PodsOfGroupsSayWhichIsTheirs) {
  crds::TrainingJob job = sample_job();
  job.spec.roles = {role("prefill", 3, 1, bare_template()), role("decode", 4, 1, bare_template())};
  job.metadata.annotations = {{"muster.dev/group-size.prefill", "1"},
                              {"muster.dev/group-size.decode", "2"},
                              {"muster.dev/traffic-role", "decode"}};
  const PodBuilder builder(job, {"nvidia.com/gpu"});
  const auto said = [&](const char* role_name, int index) {
    const Json pod = Json::parse(builder.pod(place(role_name, index, "n")));
    const Json& labels = pod["metadata"]["labels"];
    return labels.value("muster.dev/group-index", "-") + " " + labels.value("muster.dev/worker-index", "-") +
           " " + labels.value("muster.dev/traffic", "-") + " " +
           variable(pod["spec"]["containers"][0], "LWS_LEADER_ADDRESS")->value("value", "");
  };
  EXPECT_EQ(said("prefill", 0), "0 0 - prefill-0.llama.nlp.svc");
  EXPECT_EQ(said("prefill", 2), "2 0 - prefill-2.llama.nlp.svc");
  EXPECT_EQ(said("decode", 0), "0 0 true decode-0.llama.nlp.svc");
  EXPECT_EQ(said("decode", 1), "0 1 false decode-0.llama.nlp.svc");
  EXPECT_EQ(said("decode", 2), "1 0 true decode-2.llama.nlp.svc");
  EXPECT_EQ(said("decode", 3), "1 1 false decode-2.llama.nlp.svc");
}

// Whatever strings a template holds, the text is JSON, differs by place, and gives the template's
// strings back.
TEST(PodBuilder, AnyTemplateAnyPlace) {
  const std::vector<std::string> strings = {
      "", "\"", "\\", "@{muster:0:a}", "@{muster:", "@{muster:1:b}", "\n\t\x01", "ü€", "\xff\xfe", "$(RANK)"};
  for (const auto framework :
       {Framework::kGeneric, Framework::kPyTorch, Framework::kJax, Framework::kTensorFlow, Framework::kMpi}) {
    for (const std::string& text : strings) {
      crds::TrainingJob job = sample_job(framework);
      Json own = bare_template();
      own["metadata"]["annotations"]["text"] = text;
      own["spec"]["containers"][0]["command"] = {text, text};
      job.spec.roles = {role("worker", 40, 1, own), role("ps", 3, std::nullopt, own)};
      const PodBuilder builder(job, {"nvidia.com/gpu"});
      std::set<std::string> names;
      std::set<std::string> hosts;
      for (const crds::Role& r : job.spec.roles) {
        for (std::int32_t i = 0; i < crds::least_replicas(r); ++i) {
          for (std::int32_t tries : {0, 1}) {
            const Json pod = Json::parse(
                builder.pod(place(r.name, i, "node-" + std::to_string(i), {i}, tries)), nullptr, false);
            ASSERT_FALSE(pod.is_discarded());
            EXPECT_TRUE(names.insert(pod["metadata"]["name"]).second);
            EXPECT_EQ(pod["metadata"]["name"], pod_name("llama", r.name, i, 4, tries));
            EXPECT_EQ(pod["metadata"]["labels"]["muster.dev/try"], std::to_string(tries));
            EXPECT_EQ(pod["spec"]["nodeName"], "node-" + std::to_string(i));
            hosts.insert(pod["spec"]["hostname"]);
            if (text != "\xff\xfe") {
              EXPECT_EQ(pod["spec"]["containers"][0]["command"], own["spec"]["containers"][0]["command"]);
            }
          }
        }
      }
      EXPECT_EQ(hosts.size(), 43u);
    }
  }
}

// The API server is to say what is wrong with them; we must not fall over.
TEST(PodBuilder, SurvivesTemplatesThatAreNone) {
  for (
      const char* text :
      {"null", "3", "[]", "{}", R"({"spec": 1})", R"({"spec": {"containers": {}}})",
       R"({"spec": {"containers": [1, null]}})", R"({"metadata": [], "spec": {"containers": [{"env": 1}]}})",
       R"({"metadata": {"labels": 3}, "spec": {"volumes": 2, "containers": [{"env": [1], "volumeMounts": {}}]}})"}) {
    crds::TrainingJob job = sample_job(Framework::kPyTorch);
    job.spec.roles = {role("worker", 1, 1, Json::parse(text))};
    const Json pod =
        Json::parse(PodBuilder(job, {"nvidia.com/gpu"}).pod(place("worker", 0, "n")), nullptr, false);
    EXPECT_EQ(pod["spec"]["nodeName"], "n") << text;
  }
}

TEST(PodBuilder, CompanionsBelongToTheJob) {
  const crds::TrainingJob job = sample_job(Framework::kMpi);
  const Json service = Json::parse(service_json(job));
  EXPECT_EQ(service, Json::parse(R"({"apiVersion": "v1", "kind": "Service",
    "metadata": {"name": "llama", "namespace": "nlp", "labels": {"muster.dev/job": "llama"},
      "ownerReferences": [{"apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob", "name": "llama", "uid": "uid-1",
                           "controller": true, "blockOwnerDeletion": true}]},
    "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"muster.dev/job": "llama", "muster.dev/attempt": "4"}}})"));
  const Json files = Json::parse(hosts_config_map_json(job));
  EXPECT_EQ(files["metadata"]["name"], "llama-hosts");
  EXPECT_EQ(files["metadata"]["ownerReferences"], service["metadata"]["ownerReferences"]);
  EXPECT_EQ(files["data"]["hosts"],
            "worker-0.llama.nlp.svc\nworker-1.llama.nlp.svc\nworker-2.llama.nlp.svc\n");
  EXPECT_EQ(
      files["data"]["hostfile"],
      "worker-0.llama.nlp.svc slots=2\nworker-1.llama.nlp.svc slots=2\nworker-2.llama.nlp.svc slots=2\n");
  EXPECT_TRUE(files["data"].contains("machinefile"));
}

// Ten times the gang costs ten times the time, not a hundred times: pods do not grow with the gang.
TEST(PodBuilder, PodsDoNotGrowWithTheGang) {
  for (const auto framework : {Framework::kPyTorch, Framework::kTensorFlow, Framework::kMpi}) {
    crds::TrainingJob job = sample_job(framework);
    const std::size_t small = PodBuilder(job, {"nvidia.com/gpu"}).pod(place("worker", 0, "node-0")).size();
    job.spec.roles[0].replicas = crds::kMaxPods;
    const PodBuilder builder(job, {"nvidia.com/gpu"});
    EXPECT_LT(builder.pod(place("worker", 9999, "node-0")).size(), small + 200);
    const auto start = std::chrono::steady_clock::now();
    std::size_t bytes = 0;
    for (std::int32_t i = 0; i < crds::kMaxPods; ++i)
      bytes += builder.pod(place("worker", i, "node-0", {0, 1})).size();
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
    RecordProperty("microseconds_per_pod", std::to_string(spent.count() / crds::kMaxPods));
    std::printf("%.2f us and %zu bytes per pod\n", spent.count() / crds::kMaxPods, bytes / crds::kMaxPods);
  }
}

}  // namespace
}  // namespace muster::reconcilers
