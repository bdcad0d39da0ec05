// What a service serves: the model that it names, from a job's checkpoint, and the reference deployment in
// manifests/samples/vllm.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "service_fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A job that reports `uri` while it runs, and ends.
void train(Cluster& cluster, const std::string& name, const std::string& uri) {
  cluster.create(
      job_object({.name = name, .gpus = 0, .pod_annotations = {{"test.muster.dev/runs-for", "8s"}}}));
  ASSERT_TRUE(cluster.wait_phase(name, "Running"));
  const json said = {{"checkpoint", {{"step", 1}, {"uri", uri}}}};
  cluster.patch(
      "/api/v1/namespaces/team/pods/" + cluster.pods(name)[0]["metadata"]["name"].get<std::string>(),
      {{"metadata", {{"annotations", {{"muster.dev/checkpoint", said.dump()}}}}}});
  ASSERT_TRUE(cluster.wait_phase(name, "Succeeded", 60s)) << cluster.job(name).dump(2);
}

// "MODEL" of each pod.
std::set<std::string> models(const Stage& s, const std::string& name) {
  std::set<std::string> all;
  for (const auto& pod : s.pods(name)) {
    for (const auto& one : pod["spec"]["containers"][0].value("env", json::array())) {
      if (one["name"] == "MODEL") all.insert(one.value("value", ""));
    }
  }
  return all;
}

TEST_F(Served, TheLastCheckpointOfAJobIsServedAndANewerOneRolledOut) {
  s_.cluster->create(service_object("tuned", 2, {{"model", {{"uri", "trainingjob://llama-ft"}}}}));
  ASSERT_TRUE(s_.cluster->wait(30s, [&] {
    return s_.condition("tuned", "Accepted")["reason"] == "ModelNotReady";
  })) << s_.say("tuned");
  EXPECT_THAT(s_.condition("tuned", "Accepted")["message"].get<std::string>(),
              HasSubstr("there is no TrainingJob llama-ft"));
  EXPECT_TRUE(s_.pods("tuned").empty());

  train(*s_.cluster, "llama-ft", "s3://models/step-100");
  ASSERT_TRUE(s_.wait_ready("tuned", 2, 60s)) << s_.say("tuned");
  EXPECT_EQ(models(s_, "tuned"), std::set<std::string>{"s3://models/step-100"});
  EXPECT_EQ(s_.status("tuned")["model"], "s3://models/step-100");
  EXPECT_EQ(s_.condition("tuned", "Accepted")["status"], "True");

  // While it is trained again, and after the job is gone, what serves goes on.
  const auto pods = s_.uids("tuned");
  s_.cluster->remove(path_of_job("llama-ft"));
  ASSERT_TRUE(s_.cluster->wait(30s, [&] { return s_.cluster->job("llama-ft").is_null(); }));
  s_.muster->kill();
  s_.muster = s_.cluster->muster();
  s_.scale("tuned", 3);
  ASSERT_TRUE(s_.wait_ready("tuned", 3, 60s)) << s_.say("tuned");
  for (const auto& uid : pods) EXPECT_TRUE(s_.uids("tuned").contains(uid));
  EXPECT_EQ(models(s_, "tuned"), std::set<std::string>{"s3://models/step-100"});

  train(*s_.cluster, "llama-ft", "s3://models/step-200");
  ASSERT_TRUE(s_.cluster->wait(120s, [&] {
    return models(s_, "tuned") == std::set<std::string>{"s3://models/step-200"} &&
           s_.status("tuned").value("readyReplicas", 0) == 3;
  })) << s_.say("tuned");
  EXPECT_EQ(s_.status("tuned")["revisions"].size(), 2u);
  s_.cluster->remove(path_of_job("llama-ft"));
}

// --- manifests/samples/vllm

std::string sample(const std::string& file) {
  std::ifstream in(std::string(MUSTER_MANIFESTS) + "/samples/vllm/" + file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void expect_the_pod(const json& pod) {
  const json& main = pod["spec"]["containers"][0];
  EXPECT_EQ(main["resources"]["limits"]["nvidia.com/gpu"], "1");
  EXPECT_EQ(main["args"][0], "--model=$(MODEL)");
  std::map<std::string, json> env;
  for (const auto& one : main["env"]) env[one["name"]] = one;
  EXPECT_EQ(env["MODEL"]["value"], "Qwen/Qwen3-VL-8B-Instruct");
  EXPECT_EQ(env["VLLM_API_KEY"]["valueFrom"]["secretKeyRef"]["name"], "qwen3-vl");
  EXPECT_EQ(env["HF_TOKEN"]["valueFrom"]["secretKeyRef"]["key"], "hf-token");
  EXPECT_EQ(main["readinessProbe"]["httpGet"]["path"], "/health");
  EXPECT_EQ(main["lifecycle"]["preStop"]["sleep"]["seconds"], 5);
  EXPECT_EQ(pod["spec"]["terminationGracePeriodSeconds"], 65);
  // As podmonitor.yaml looks for it.
  EXPECT_THAT(sample("podmonitor.yaml"),
              HasSubstr("matchLabels: {muster.dev/service: " +
                        pod["metadata"]["labels"]["muster.dev/service"].get<std::string>() + "}"));
  EXPECT_THAT(sample("podmonitor.yaml"), HasSubstr("port: " + main["ports"][0]["name"].get<std::string>()));
}

TEST(ReferenceDeployment, IsWhatItsFilesSayObjectByObject) {
  Stage s{Cluster::start(1, 4), nullptr};  // and a node of another model that nobody wants
  testcluster::NodeTemplate l40s;
  l40s.prefix = "l40s";
  l40s.count = 2;
  l40s.gpus = 1;
  l40s.model = "NVIDIA-L40S";
  ASSERT_TRUE(s.cluster->real().add_nodes(l40s));
  s.muster = s.cluster->muster();
  const auto apply = [&](const std::string& text) {
    const auto done = s.cluster->real().kubectl({"apply", "--server-side", "-n", "team", "-f", "-"}, text);
    ASSERT_TRUE(done && done->ok()) << (done ? done->err : done.error());
  };
  apply(
      "{apiVersion: v1, kind: Secret, metadata: {name: qwen3-vl}, stringData: {hf-token: hf-5ecret, api-key: "
      "api-5ecret}}");
  EXPECT_LE(std::ranges::count(sample("service.yaml"), '\n'), 40);
  apply(sample("service.yaml"));
  apply(sample("ingress.yaml"));
  ASSERT_TRUE(s.wait_ready("qwen3-vl", 2, 60s)) << s.say("qwen3-vl");

  std::set<std::string> nodes;
  for (const auto& pod : s.pods("qwen3-vl")) {
    nodes.insert(pod["spec"]["nodeName"]);
    expect_the_pod(pod);
  }
  EXPECT_EQ(nodes, (std::set<std::string>{"l40s-0", "l40s-1"}));
  for (const auto& job : s.cluster->get("/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs")["items"])
    EXPECT_EQ(job["spec"]["startTimeout"], "10m");
  const json service = s.cluster->get("/api/v1/namespaces/team/services/qwen3-vl");
  EXPECT_EQ(service["spec"]["ports"][0]["port"], 8000);
  EXPECT_TRUE(s.cluster->wait(20s, [&] { return s.endpoints("qwen3-vl") == 2; }));
  EXPECT_EQ(
      s.cluster->get("/apis/policy/v1/namespaces/team/poddisruptionbudgets/qwen3-vl")["spec"]["minAvailable"],
      1);
  const json backend = s.cluster->get(
      "/apis/networking.k8s.io/v1/namespaces/team/ingresses/qwen3-vl")["spec"]["rules"][0]["http"]["paths"][0]
                                                                      ["backend"]["service"];
  EXPECT_EQ(backend["name"], "qwen3-vl");
  EXPECT_EQ(backend["port"]["number"], service["spec"]["ports"][0]["port"]);
  // Tokens are where they were put, and nowhere else.
  EXPECT_THAT(s.cluster->get(path_of_service("qwen3-vl")).dump() + s.muster->log(), Not(HasSubstr("5ecret")));
}

}  // namespace
}  // namespace muster::test
