// What a Project forbids its jobs and services. The API server refuses each at once; an object that was there
// before the rule is told the same by Muster, and what runs goes on running.
#include <gmock/gmock.h>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

const json kRules = json::parse(R"({
  "maxPodsPerJob": 3, "allowedPriorityClasses": ["training", "interactive"],
  "allowedImagePrefixes": ["registry.example/", "ghcr.io/team/"], "forbidLatestTag": true,
  "forbidPrivileged": true, "requiredLabels": ["cost-centre"],
  "checkpoint": {"requiredAboveGPUs": 2, "requiredAboveRuntime": "1d", "maxInterval": "1h"},
  "maxGracePeriod": "5m", "allowedClaims": ["data", "checkpoints"], "allowedResources": ["hugepages-2Mi"]})");

std::string path_of_project(const std::string& name) {
  return "/apis/muster.dev/v1alpha1/projects/" + name;
}

json good_job(const std::string& ns, const std::string& name) {
  json job = job_object({.name = name, .ns = ns, .spec = {{"maxRuntime", "2h"}}});
  job["metadata"]["labels"] = {{"cost-centre", "42"}};
  return job;
}
json good_service(const std::string& ns, const std::string& name) {
  json service = service_object(name, 1);
  service["metadata"]["namespace"] = ns;
  service["metadata"]["labels"] = {{"cost-centre", "42"}};
  return service;
}

// One rule broken: a merge patch of the good object, and what is to be said. PROJECT stands for its name.
struct Bad {
  const char* name;
  const char* patch;
  const char* words;
};

const Bad kBadJobs[] = {
    {"pods", R"({"spec": {"roles": [{"name": "worker", "replicas": 4, "template": TEMPLATE}]}})",
     "spec.roles: ask for 4 pods in all, more than the 3 that Project PROJECT allows a job "
     "(policy.maxPodsPerJob)"},
    {"pods-elastic",
     R"({"spec": {"roles": [{"name": "worker", "minReplicas": 1, "maxReplicas": 5, "template": TEMPLATE}]}})",
     "spec.roles: ask for 5 pods in all, more than the 3 that Project PROJECT allows a job "
     "(policy.maxPodsPerJob)"},
    {"class", R"({"spec": {"priorityClassName": "inference"}})",
     "spec.priorityClassName: inference is not one of training, interactive, the classes of Project PROJECT "
     "(policy.allowedPriorityClasses)"},
    {"image", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"containers": [
        {"name": "main", "image": "docker.io/x/y:1"}]}}}]}})",
     "spec.roles[0].template.spec.containers[0].image: docker.io/x/y:1 begins with none of "
     "registry.example/, "
     "ghcr.io/team/, which Project PROJECT allows (policy.allowedImagePrefixes)"},
    {"image-bare", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"containers": [
        {"name": "main", "image": "ubuntu:24.04"}]}}}]}})",
     "spec.roles[0].template.spec.containers[0].image: ubuntu:24.04 begins with none of"},
    {"image-second", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"containers": [
        {"name": "main", "image": "ghcr.io/team/x:1"}, {"name": "log", "image": "ghcr.io/teams/x:1"}]}}}]}})",
     "spec.roles[0].template.spec.containers[1].image: ghcr.io/teams/x:1 begins with none of"},
    {"image-init", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"initContainers": [
        {"name": "get", "image": "quay.io/get:1"}], "containers": [
        {"name": "main", "image": "registry.example/x:1"}]}}}]}})",
     "spec.roles[0].template.spec.initContainers[0].image: quay.io/get:1 begins with none of"},
    {"image-sidecar", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"initContainers": [
        {"name": "get", "image": "registry.example/get:1"},
        {"name": "side", "image": "quay.io/side:1", "restartPolicy": "Always"}], "containers": [
        {"name": "main", "image": "registry.example/x:1"}]}}}]}})",
     "spec.roles[0].template.spec.initContainers[1].image: quay.io/side:1 begins with none of"},
    {"image-volume", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"volumes": [
        {"name": "tmp", "emptyDir": {}}, {"name": "model", "image": {"reference": "quay.io/model:1"}}],
        "containers": [{"name": "main", "image": "registry.example/x:1"}]}}}]}})",
     "spec.roles[0].template.spec.volumes[1].image.reference: quay.io/model:1 begins with none of"},
    {"image-role", R"({"spec": {"roles": [{"name": "worker", "template": TEMPLATE},
        {"name": "eval", "template": {"spec": {"containers": [{"name": "main", "image": "quay.io/e:1"}]}}}]}})",
     "spec.roles[1].template.spec.containers[0].image: quay.io/e:1 begins with none of"},
    {"latest", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"containers": [
        {"name": "main", "image": "registry.example/x:latest"}]}}}]}})",
     "spec.roles[0].template.spec.containers[0].image: registry.example/x:latest means the tag latest, which "
     "Project PROJECT forbids (policy.forbidLatestTag); state another tag, or a digest"},
    {"no-tag", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"containers": [
        {"name": "main", "image": "registry.example/x"}]}}}]}})",
     "spec.roles[0].template.spec.containers[0].image: registry.example/x means the tag latest"},
    {"privileged", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"containers": [
        {"name": "main", "image": "registry.example/x:1", "securityContext": {"privileged": true}}]}}}]}})",
     "spec.roles[0].template.spec.containers[0].securityContext.privileged: true is not allowed in Project "
     "PROJECT (policy.forbidPrivileged)"},
    {"privileged-init", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"initContainers": [
        {"name": "set", "image": "registry.example/x:1", "securityContext": {"privileged": true}}],
        "containers": [{"name": "main", "image": "registry.example/x:1"}]}}}]}})",
     "spec.roles[0].template.spec.initContainers[0].securityContext.privileged: true is not allowed"},
    {"host-network", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"hostNetwork": true,
        "containers": [{"name": "main", "image": "registry.example/x:1"}]}}}]}})",
     "spec.roles[0].template.spec.hostNetwork: true is not allowed in Project PROJECT "
     "(policy.forbidPrivileged)"},
    {"host-pid", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"hostPID": true,
        "containers": [{"name": "main", "image": "registry.example/x:1"}]}}}]}})",
     "spec.roles[0].template.spec.hostPID: true is not allowed in Project PROJECT (policy.forbidPrivileged)"},
    {"host-ipc", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"hostIPC": true,
        "containers": [{"name": "main", "image": "registry.example/x:1"}]}}}]}})",
     "spec.roles[0].template.spec.hostIPC: true is not allowed in Project PROJECT (policy.forbidPrivileged)"},
    {"claim", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"volumes": [
        {"name": "tmp", "emptyDir": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "secrets"}}],
        "containers": [{"name": "main", "image": "registry.example/x:1"}]}}}]}})",
     "spec.roles[0].template.spec.volumes[1].persistentVolumeClaim.claimName: secrets is not one of data, "
     "checkpoints, the claims of Project PROJECT (policy.allowedClaims)"},
    {"resource", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {"containers": [
        {"name": "main", "image": "registry.example/x:1",
         "resources": {"requests": {"cpu": "1", "rdma/hca": "1"}, "limits": {"rdma/hca": "1"}}}]}}}]}})",
     "spec.roles[0].template.spec.containers[0].resources: rdma/hca is not one of hugepages-2Mi, the "
     "resources "
     "of Project PROJECT (policy.allowedResources)"},
    {"claim-of-checkpoints", R"({"spec": {"checkpoint": {"claimName": "theirs", "mountPath": "/c"}}})",
     "spec.checkpoint.claimName: theirs is not one of data, checkpoints, the claims of Project PROJECT "
     "(policy.allowedClaims)"},
    {"no-label", R"({"metadata": {"labels": null}})",
     "metadata.labels: cost-centre is not stated, and Project PROJECT requires it (policy.requiredLabels)"},
    {"empty-label", R"({"metadata": {"labels": {"cost-centre": ""}}})",
     "metadata.labels: cost-centre is not stated, and Project PROJECT requires it (policy.requiredLabels)"},
    {"large",
     R"({"spec": {"roles": [{"name": "worker", "replicas": 3, "gpus": {"count": 1}, "template": TEMPLATE}]}})",
     "spec.checkpoint: must be stated in Project PROJECT, because the job has 3 GPUs, more than 2 "
     "(policy.checkpoint.requiredAboveGPUs)"},
    {"long", R"({"spec": {"maxRuntime": "2d"}})",
     "spec.checkpoint: must be stated in Project PROJECT, because the job may run for 2d, more than 1d "
     "(policy.checkpoint.requiredAboveRuntime)"},
    {"endless", R"({"spec": {"maxRuntime": null}})",
     "spec.checkpoint: must be stated in Project PROJECT, because the job may run without end, more than 1d"},
    {"no-interval", R"({"spec": {"maxRuntime": "2d", "checkpoint": {"gracePeriod": "1m"}}})",
     "spec.checkpoint.interval: must be stated in Project PROJECT, and be at most 1h "
     "(policy.checkpoint.maxInterval), because the job may run for 2d"},
    {"rarely", R"({"spec": {"maxRuntime": "2d", "checkpoint": {"interval": "2h"}}})",
     "spec.checkpoint.interval: 2h is more than the 1h that Project PROJECT allows "
     "(policy.checkpoint.maxInterval), because the job may run for 2d"},
    {"slow-to-save", R"({"spec": {"checkpoint": {"gracePeriod": "1d"}}})",
     "spec.checkpoint.gracePeriod: 1d is more than the 5m that Project PROJECT allows "
     "(policy.maxGracePeriod)"},
    {"slow-to-go", R"({"spec": {"roles": [{"name": "worker", "template": {"spec": {
        "terminationGracePeriodSeconds": 301, "containers": [
        {"name": "main", "image": "registry.example/x:1"}]}}}]}})",
     "spec.roles[0].template.spec.terminationGracePeriodSeconds: 301 is more than the 5m that Project "
     "PROJECT "
     "allows (policy.maxGracePeriod)"},
};

const Bad kBadServices[] = {
    {"image", R"({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "vllm:1"}]}}}})",
     "spec.template.spec.containers[0].image: vllm:1 begins with none of"},
    {"pods", R"({"spec": {"groupSize": 4}})",
     "spec.groupSize: asks for 4 pods in all, more than the 3 that Project PROJECT allows a job "
     "(policy.maxPodsPerJob)"},
    {"class", R"({"spec": {"priorityClassName": "inference"}})",
     "spec.priorityClassName: inference is not one of training, interactive"},
    {"host", R"({"spec": {"template": {"spec": {"hostNetwork": true}}}})",
     "spec.template.spec.hostNetwork: true is not allowed in Project PROJECT (policy.forbidPrivileged)"},
    {"resource", R"({"spec": {"template": {"spec": {"containers": [{"name": "main", "image":
        "registry.example/x:1", "resources": {"limits": {"hugepages-2Mi": "2Mi", "rdma/hca": 1}}}]}}}})",
     "spec.template.spec.containers[0].resources: rdma/hca is not one of hugepages-2Mi, the resources of"},
    {"no-label", R"({"metadata": {"labels": null}})", "metadata.labels: cost-centre is not stated"},
    {"slow-to-go", R"({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 301}}}})",
     "spec.template.spec.terminationGracePeriodSeconds: 301 is more than the 5m that Project PROJECT"},
};

json broken(json good, const Bad& bad) {
  std::string patch = bad.patch;
  if (const auto at = patch.find("TEMPLATE"); at != std::string::npos)
    patch.replace(at, 8, good["spec"]["roles"][0]["template"].dump());
  good.merge_patch(json::parse(patch));
  return good;
}
std::string words_of(const Bad& bad, const std::string& project) {
  std::string words = bad.words;
  if (const auto at = words.find("PROJECT"); at != std::string::npos) words.replace(at, 7, project);
  return words;
}

class PolicyRules : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 8);
    muster_ = cluster_->muster();
    for (const char* name : {"ruled", "early", "served"}) {
      cluster_->create({{"apiVersion", "muster.dev/v1alpha1"},
                        {"kind", "Project"},
                        {"metadata", {{"name", name}}},
                        {"spec", {{"queue", "root"}, {"quota", {{"gpu", 8}}}}}});
      ASSERT_TRUE(cluster_->wait_namespace(name));
    }
  }
  // And waits until the API server judges by it.
  static void set_rules(const std::string& project, const json& rules) {
    cluster_->patch(path_of_project(project), {{"spec", {{"policy", rules}}}});
    json probe = job_object({.name = "probe", .ns = project});
    ASSERT_TRUE(cluster_->wait(30s, [&] {
      const auto answer = post(project, "trainingjobs", probe, true);
      return answer.ok() == rules.is_null();
    }));
  }
  static testcluster::HttpResponse post(const std::string& ns, const std::string& plural, const json& object,
                                        bool dry_run = false) {
    const auto answer = cluster_->real().request(
        "POST", "/apis/muster.dev/v1alpha1/namespaces/" + ns + "/" + plural + (dry_run ? "?dryRun=All" : ""),
        object.dump());
    if (!answer) throw std::runtime_error(answer.error());
    return *answer;
  }
  static void expect_refused(const testcluster::HttpResponse& answer, const std::string& words) {
    EXPECT_FALSE(answer.ok());
    const std::string said = json::parse(answer.body, nullptr, false).value("message", answer.body);
    EXPECT_THAT(said, HasSubstr(words));
  }
  static json violated(const std::string& path) {
    const json c = cluster_->condition_of(path, "PolicyViolation");
    return c.is_null() ? json{{"status", ""}, {"reason", ""}, {"message", ""}} : c;
  }
};

TEST_F(PolicyRules, TheApiServerRefusesEachWithFieldAndBound) {
  set_rules("ruled", kRules);
  for (const Bad& bad : kBadJobs) {
    SCOPED_TRACE(bad.name);
    expect_refused(post("ruled", "trainingjobs", broken(good_job("ruled", bad.name), bad)),
                   words_of(bad, "ruled"));
  }
  for (const Bad& bad : kBadServices) {
    SCOPED_TRACE(std::string("service ") + bad.name);
    expect_refused(post("ruled", "inferenceservices", broken(good_service("ruled", bad.name), bad)),
                   words_of(bad, "ruled"));
  }
  cluster_->create(good_job("ruled", "good"));
  ASSERT_TRUE(cluster_->wait_phase("good", "Running", 30s, "ruled"))
      << cluster_->job("good", "ruled").dump(2);
  // A label that is required may not go; others may.
  const auto label = [](const std::string& change) {
    return *cluster_->real().kubectl({"label", "-n", "ruled", "tj/good", change});
  };
  EXPECT_TRUE(label("note=mine").ok());
  EXPECT_TRUE(label("note-").ok());
  const auto refused = label("cost-centre-");
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.err, HasSubstr("metadata.labels: cost-centre is not stated"));
  json saves = good_job("ruled", "saves");
  saves["spec"]["maxRuntime"] = "9d";
  saves["spec"]["checkpoint"] = {{"interval", "1h"}};
  EXPECT_TRUE(post("ruled", "trainingjobs", saves).ok());
  json session = good_job("ruled", "session");
  session["spec"]["mode"] = "Interactive";
  session["spec"].erase("maxRuntime");
  EXPECT_TRUE(post("ruled", "trainingjobs", session).ok()) << "a person saves";
}

TEST_F(PolicyRules, ATighterRuleTellsWhatRunsAndHoldsBackWhatWaits) {
  for (const Bad& bad : kBadJobs) cluster_->create(broken(good_job("early", bad.name), bad));
  cluster_->create(good_job("early", "good"));
  ASSERT_TRUE(cluster_->wait_phase("pods", "Running", 30s, "early"));
  cluster_->catch_up();
  set_rules("early", kRules);
  int running = 0, waiting = 0;
  for (const Bad& bad : kBadJobs) {
    SCOPED_TRACE(bad.name);
    const auto told = [&]() -> std::string {
      const json now = cluster_->job(bad.name, "early")["status"];
      const bool runs = now.contains("assignment");
      const json c = cluster_->condition(bad.name, runs ? "PolicyViolation" : "Accepted", "early");
      const bool is_told =
          !c.is_null() && c["reason"] == "PolicyViolation" && c["status"] == (runs ? "True" : "False");
      return is_told ? c["message"].get<std::string>() : std::string();
    };
    ASSERT_TRUE(cluster_->wait(20s, [&] { return !told().empty(); }))
        << cluster_->job(bad.name, "early").dump(2);
    EXPECT_THAT(told(), HasSubstr(words_of(bad, "early")));
    const json status = cluster_->job(bad.name, "early")["status"];
    ++(status.contains("assignment") ? running : waiting);
    if (status.contains("assignment")) {
      EXPECT_EQ(status["attempt"], 1) << "it was left alone";
      EXPECT_FALSE(cluster_->pods(bad.name, "early").empty());
    }
  }
  EXPECT_GE(running, 4);
  EXPECT_TRUE(muster_->alive());
  // It may be labelled, and suspended; an edit asks anew.
  cluster_->patch(path_of_job("pods", "early"), {{"metadata", {{"labels", {{"note", "mine"}}}}}});
  const auto edit = cluster_->real().kubectl(
      {"patch", "-n", "early", "tj/pods", "--type=merge", "-p", R"({"spec": {"restart": {"limit": 1}}})"});
  EXPECT_FALSE(edit->ok());
  EXPECT_THAT(edit->err, HasSubstr("policy.maxPodsPerJob"));
  EXPECT_EQ(cluster_->phase("pods", "early"), "Running");
  set_rules("early", nullptr);
  EXPECT_TRUE(
      cluster_->wait(20s, [] { return violated(path_of_job("pods", "early"))["reason"] == "Allowed"; }));
}

TEST_F(PolicyRules, ReplicasAreMadeAndAServiceIsToldByItsCondition) {
  set_rules("served", kRules);
  json service = good_service("served", "chat");
  service["spec"]["gpus"] = {{"count", 3}};  // a job of so many would have to save
  ASSERT_TRUE(post("served", "inferenceservices", service).ok());
  const std::string path = "/apis/muster.dev/v1alpha1/namespaces/served/inferenceservices/chat";
  const auto status = [&] { return cluster_->get(path).value("status", json::object()); };
  const auto ready = [&] { return status().value("readyReplicas", 0); };
  ASSERT_TRUE(cluster_->wait(40s, [&] { return ready() == 1; })) << cluster_->get(path).dump(2);
  const json pods = cluster_->get("/api/v1/namespaces/served/pods")["items"];
  ASSERT_EQ(pods.size(), 1U);
  EXPECT_NE(pods[0]["spec"].value("priorityClassName", ""), "inference") << "that class is not allowed here";
  json tighter = kRules;
  tighter["allowedImagePrefixes"] = {"ghcr.io/team/"};
  cluster_->patch(path_of_project("served"), {{"spec", {{"policy", tighter}}}});
  ASSERT_TRUE(cluster_->wait(20s, [&] { return violated(path)["status"] == "True"; }))
      << cluster_->get(path).dump(2);
  EXPECT_THAT(violated(path)["message"].get<std::string>(),
              HasSubstr("spec.template.spec.containers[0].image: registry.example/"));
  EXPECT_EQ(ready(), 1);
  // Its size is its own business; but one more replica is not allowed.
  const auto scaled = cluster_->real().kubectl({"scale", "-n", "served", "isvc/chat", "--replicas=2"});
  ASSERT_TRUE(scaled && scaled->ok()) << scaled->err;
  ASSERT_TRUE(cluster_->wait(20s, [&] {
    return status().value("/queue/reason"_json_pointer, std::string()) == "PolicyViolation";
  })) << cluster_->get(path).dump(2);
  EXPECT_EQ(ready(), 1);
  EXPECT_EQ(cluster_->get("/api/v1/namespaces/served/pods")["items"][0]["metadata"]["uid"],
            pods[0]["metadata"]["uid"]);
  cluster_->patch(path_of_project("served"), {{"spec", {{"policy", kRules}}}});
  EXPECT_TRUE(cluster_->wait(40s, [&] { return ready() == 2; })) << cluster_->get(path).dump(2);
  EXPECT_EQ(violated(path)["reason"], "Allowed");
  cluster_->remove(path);
}

}  // namespace
}  // namespace muster::test
