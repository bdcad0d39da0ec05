// Ports that people reach (spec.expose), and sessions, which are interactive jobs with such a port.
#include <gmock/gmock.h>

#include "plugin_fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const json kJupyter = {{{"name", "jupyter"}, {"port", 8888}, {"path", "/lab"}}};

class Sessions : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 4);
    muster_ = cluster_->muster();
  }
  static json service(const std::string& name) {
    return cluster_->get("/api/v1/namespaces/team/services/" + name);
  }
  static json notebook(const std::string& name, const json& expose) {
    return job_object({.name = name, .spec = {{"mode", "Interactive"}, {"expose", expose}}});
  }
  static json endpoints(const std::string& job) {
    return cluster_->job(job)["status"].value("endpoints", json::array());
  }
  static std::string exposed(const std::string& job) {
    const json c = cluster_->condition(job, "Exposed");
    return c.is_null() ? std::string() : c["reason"].get<std::string>();
  }
  // Pods that the Service leads to.
  static std::vector<std::string> reached(const std::string& name) {
    const json slices = cluster_->get(
        "/apis/discovery.k8s.io/v1/namespaces/team/"
        "endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D" +
        name);
    std::vector<std::string> pods;
    for (const auto& slice : slices["items"]) {
      for (const auto& e : slice.value("endpoints", json::array())) {
        if (e["conditions"].value("ready", false)) pods.push_back(e["targetRef"]["name"]);
      }
    }
    return pods;
  }
  static CommandResult session(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"-n", "team", "session"});
    return ask_plugin(std::move(arguments), cluster_->real().kubeconfig(), {}, {{"USER", "anna"}});
  }
};

TEST_F(Sessions, AServiceIsMadeChangedKeptOverASuspensionAndRemoved) {
  cluster_->create(notebook("note", kJupyter));
  ASSERT_TRUE(cluster_->wait_phase("note", "Running"));
  ASSERT_TRUE(cluster_->wait(10s, [] { return exposed("note") == "ServiceReady"; }))
      << cluster_->job("note").dump(2);
  EXPECT_EQ(endpoints("note"), json::parse(R"([{"name": "jupyter", "service": "note-expose",
      "url": "http://note-expose.team.svc:8888/lab",
      "portForward": "kubectl -n team port-forward svc/note-expose 8888:8888"}])"));
  const json made = service("note-expose");
  EXPECT_EQ(made["metadata"]["ownerReferences"][0]["uid"], cluster_->job("note")["metadata"]["uid"]);
  EXPECT_TRUE(cluster_->wait(20s, [] { return reached("note-expose").size() == 1; }));

  // Another port needs no restart.
  json more = kJupyter;
  more.push_back({{"name", "board"}, {"port", 6006}});
  cluster_->patch(path_of_job("note"), {{"spec", {{"expose", more}}}});
  ASSERT_TRUE(cluster_->wait(10s, [] { return endpoints("note").size() == 2; }))
      << cluster_->job("note").dump(2);
  EXPECT_EQ(service("note-expose")["spec"]["ports"].size(), 2U);
  EXPECT_EQ(service("note-expose")["metadata"]["uid"], made["metadata"]["uid"]);
  EXPECT_EQ(cluster_->job("note")["status"]["attempt"], 1);

  cluster_->patch(path_of_job("note"), {{"spec", {{"suspend", true}}}});
  ASSERT_TRUE(cluster_->wait_phase("note", "Suspended"));
  EXPECT_EQ(service("note-expose")["spec"]["clusterIP"], made["spec"]["clusterIP"]);
  EXPECT_EQ(endpoints("note").size(), 2U);
  cluster_->patch(path_of_job("note"), {{"spec", {{"suspend", false}}}});
  ASSERT_TRUE(cluster_->wait_phase("note", "Running"));
  EXPECT_EQ(cluster_->job("note")["status"]["attempt"], 2);
  EXPECT_TRUE(cluster_->wait(20s, [] { return reached("note-expose").size() == 1; }));
  EXPECT_EQ(service("note-expose")["metadata"]["uid"], made["metadata"]["uid"]);

  // A new process finds it as it is.
  muster_->kill();
  muster_ = cluster_->muster();
  cluster_->catch_up();
  EXPECT_EQ(service("note-expose")["metadata"]["uid"], made["metadata"]["uid"]);
  cluster_->patch(path_of_job("note"), {{"spec", {{"expose", nullptr}}}});
  EXPECT_TRUE(cluster_->wait(10s, [] { return service("note-expose").is_null(); }));
  EXPECT_TRUE(cluster_->wait(10s, [] { return exposed("note") == "NothingExposed"; }));
  EXPECT_TRUE(endpoints("note").empty());
  EXPECT_EQ(cluster_->phase("note"), "Running");
  EXPECT_EQ(cluster_->job("note")["status"]["attempt"], 2);
}

TEST_F(Sessions, TheFirstPodOfABatchGangIsReachedAndTheServiceGoesWithTheJob) {
  cluster_->create(job_object({.name = "train", .replicas = 2, .spec = {{"expose", kJupyter}}}));
  ASSERT_TRUE(cluster_->wait_phase("train", "Running"));
  ASSERT_TRUE(cluster_->wait(20s, [] { return reached("train-expose").size() == 1; }));
  EXPECT_THAT(reached("train-expose")[0], testing::StartsWith("train-worker-0-"));
  cluster_->remove(path_of_job("train"));
  EXPECT_TRUE(cluster_->wait(60s, [] { return service("train-expose").is_null(); }))
      << "the garbage collector";
}

TEST_F(Sessions, AServiceOfSomebodyElseIsNeverTakenOver) {
  cluster_->apply(R"(
apiVersion: v1
kind: Service
metadata: {name: mine-expose, namespace: team}
spec: {selector: {app: theirs}, ports: [{name: web, port: 80}]}
)");
  const json theirs = service("mine-expose");
  cluster_->create(notebook("mine", kJupyter));
  ASSERT_TRUE(cluster_->wait(20s, [] { return exposed("mine") == "NameTaken"; }))
      << cluster_->job("mine").dump(2);
  EXPECT_THAT(cluster_->condition("mine", "Exposed")["message"].get<std::string>(),
              HasSubstr("services team/mine-expose exists and was not made for this object"));
  EXPECT_TRUE(cluster_->wait_phase("mine", "Running")) << "it runs all the same";
  EXPECT_TRUE(endpoints("mine").empty());
  EXPECT_EQ(service("mine-expose")["metadata"]["resourceVersion"], theirs["metadata"]["resourceVersion"]);
  cluster_->remove("/api/v1/namespaces/team/services/mine-expose");
  EXPECT_TRUE(cluster_->wait(40s, [] { return exposed("mine") == "ServiceReady"; }));
  EXPECT_EQ(endpoints("mine").size(), 1U);
  // Nor is one removed.
  cluster_->create(notebook("other", kJupyter));
  ASSERT_TRUE(cluster_->wait(20s, [] { return exposed("other") == "ServiceReady"; }));
  cluster_->patch("/api/v1/namespaces/team/services/other-expose",
                  {{"metadata", {{"ownerReferences", nullptr}}}});
  cluster_->patch(path_of_job("other"), {{"spec", {{"expose", nullptr}}}});
  ASSERT_TRUE(cluster_->wait(20s, [] { return exposed("other") == "NothingExposed"; }));
  EXPECT_FALSE(service("other-expose").is_null());
  cluster_->remove("/api/v1/namespaces/team/services/other-expose");
}

TEST_F(Sessions, TheSameCommandMeansTheSameSession) {
  const std::vector<std::string> start = {"start", "registry.example/jupyter:1", "--path", "/lab"};
  const auto made = session(start);
  ASSERT_EQ(made.exit_code, 0) << made.err << cluster_->job("jupyter-anna").dump(2);
  EXPECT_THAT(made.out, HasSubstr("session jupyter-anna created"));
  EXPECT_THAT(made.out, HasSubstr("kubectl -n team port-forward svc/jupyter-anna-expose 8888:8888\n"
                                  "  then open http://localhost:8888/lab"));
  const json job = cluster_->job("jupyter-anna");
  EXPECT_EQ(job["spec"]["mode"], "Interactive");
  const auto again = session(start);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("session jupyter-anna runs already"));
  EXPECT_THAT(again.out, HasSubstr("port-forward svc/jupyter-anna-expose"));
  EXPECT_EQ(cluster_->job("jupyter-anna")["metadata"]["generation"], job["metadata"]["generation"]);

  const auto listed = session({"list"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(line_of(listed.out, "team"), HasSubstr("jupyter-anna Running 1"));

  EXPECT_EQ(session({"stop", "jupyter-anna"}).exit_code, 0);
  ASSERT_TRUE(cluster_->wait_phase("jupyter-anna", "Suspended"));
  const auto resumed = session(start);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("session jupyter-anna resumed"));
  EXPECT_EQ(cluster_->phase("jupyter-anna"), "Running");
  EXPECT_EQ(cluster_->job("jupyter-anna")["metadata"]["uid"], job["metadata"]["uid"]);

  const auto other = session({"start", "registry.example/jupyter:2"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err,
              HasSubstr("team/jupyter-anna is there with another image, registry.example/jupyter:1"));
}

TEST_F(Sessions, SayWhyTheyDoNotRun) {
  const auto large = session({"start", "registry.example/x:1", "--gpus", "9", "--name", "large", "--timeout",
                              "1", "--priority", "nobody"});
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_THAT(large.err, HasSubstr("team/large cannot run (InvalidSpec): spec.priorityClassName"));
  cluster_->create(job_object({.name = "batch"}));
  const auto batch = session({"start", "registry.example/train:1", "--name", "batch"});
  EXPECT_EQ(batch.exit_code, 1);
  EXPECT_THAT(batch.err, HasSubstr("team/batch is a batch job, and no session"));
}

}  // namespace
}  // namespace muster::test
