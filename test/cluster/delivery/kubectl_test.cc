// kubectl's ways to change and to watch, on every kind, beside a Muster that writes statuses all the time.
#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "delivery.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// One object of each kind.
constexpr const char* kObjects = R"(
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: research, labels: {by: kubectl-test}}
spec: {quota: {gpu: "8"}}
---
apiVersion: muster.dev/v1alpha1
kind: NodePool
metadata: {name: spare, labels: {by: kubectl-test}}
spec: {nodeSelector: {matchLabels: {pool: spare}}}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: nlp, labels: {by: kubectl-test}}
spec: {queue: research, quota: {gpu: "8"}}
---
apiVersion: muster.dev/v1alpha1
kind: TrainingJob
metadata: {name: train, namespace: team, labels: {by: kubectl-test}}
spec:
  roles:
  - name: worker
    replicas: 1
    gpus: {count: 1}
    template:
      metadata: {annotations: {test.muster.dev/runs-for: 3s}}
      spec:
        containers:
        - name: main
          image: registry.example/train:1
          resources: {requests: {cpu: "1", memory: 1Gi}}
---
apiVersion: muster.dev/v1alpha1
kind: InferenceService
metadata: {name: chat, namespace: team, labels: {by: kubectl-test}}
spec:
  replicas: 1
  gpus: {count: 1}
  template:
    spec:
      containers:
      - name: main
        image: registry.example/serve:1
        resources: {requests: {cpu: "1", memory: 1Gi}}
)";

class Kubectl : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 8);
    muster_ = cluster_->muster();
  }
  static void TearDownTestSuite() {
    muster_.reset();
    cluster_.reset();
  }
  static testcluster::CommandResult kubectl(std::vector<std::string> arguments,
                                            const std::string& input = {}) {
    const auto result = cluster_->real().kubectl(std::move(arguments), input);
    if (!result) throw std::runtime_error(result.error());
    return *result;
  }
  static void expect_ok(std::vector<std::string> arguments, const std::string& input = {}) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const auto result = kubectl(std::move(arguments), input);
    EXPECT_TRUE(result.ok()) << result.err << result.out;
  }
  // ApplySets are kubectl's way to prune; it hides them behind a variable.
  static testcluster::CommandResult with_apply_sets(std::vector<std::string> arguments) {
    setenv("KUBECTL_APPLYSET", "true", 1);
    const auto result = kubectl(std::move(arguments));
    unsetenv("KUBECTL_APPLYSET");
    return result;
  }
  static inline std::unique_ptr<Cluster> cluster_;
  static inline std::unique_ptr<MusterProcess> muster_;
};

TEST_F(Kubectl, WaitsForEveryKindAndFindsNoDifferenceAfterwards) {
  expect_ok({"apply", "--server-side", "-f", "-"}, kObjects);
  expect_ok(
      {"wait", "--for=condition=Accepted", "--timeout=30s", "queue/research", "npool/spare", "project/nlp"});
  expect_ok({"wait", "--for=condition=NamespaceReady", "--timeout=30s", "project/nlp"});
  expect_ok({"-n", "team", "wait", "--for=condition=Accepted", "--timeout=30s", "tj/train", "isvc/chat"});
  expect_ok({"-n", "team", "wait", "--for=condition=RolledOut", "--timeout=30s", "isvc/chat"});
  expect_ok({"-n", "team", "wait", "--for=condition=Ready", "--timeout=30s", "isvc/chat"});
  expect_ok({"-n", "team", "wait", "--for=condition=Complete", "--timeout=60s", "tj/train"});
  expect_ok({"-n", "team", "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=10s", "tj/train"});
  for (const char* all : {"queue", "npool", "project", "tj", "isvc"})
    expect_ok({"wait", "-A", "--for=condition=Stalled=False", "--timeout=10s", "--all", all});

  const auto same = kubectl({"diff", "--server-side", "-f", "-"}, kObjects);
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  std::string other = kObjects;
  other.replace(other.find("gpu: \"8\""), 8, "gpu: \"9\"");
  const auto differs = kubectl({"diff", "--server-side", "-f", "-"}, other);
  EXPECT_EQ(differs.exit_code, 1) << differs.err;
  EXPECT_THAT(differs.out, HasSubstr("+    gpu: \"9\""));
  EXPECT_THAT(differs.out, Not(HasSubstr("+status")));
}

// Two who apply parts of one object keep to their parts, and Muster to the status.
TEST_F(Kubectl, TwoManagersApplyPartsOfOneObject) {
  const std::string path = "/apis/muster.dev/v1alpha1/queues/shared";
  const auto apply = [](const std::string& manager, const std::string& spec, bool force = false) {
    std::vector<std::string> command = {"apply", "--server-side", "--field-manager", manager, "-f", "-"};
    if (force) command.emplace_back("--force-conflicts");
    return kubectl(
        command,
        "{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: shared}, spec: " + spec + "}");
  };
  EXPECT_TRUE(apply("git", "{quota: {gpu: 4}, pools: [{name: h100, quota: {gpu: 2}}]}").ok());
  EXPECT_TRUE(apply("budget", "{limit: {gpu: 8}, pools: [{name: a100, quota: {gpu: 1}}]}").ok());
  expect_ok({"wait", "--for=condition=Accepted", "--timeout=30s", "queue/shared"});
  json spec = cluster_->get(path)["spec"];
  EXPECT_EQ(spec["quota"]["gpu"], 4);
  EXPECT_EQ(spec["limit"]["gpu"], 8);
  EXPECT_EQ(spec["pools"].size(), 2u);

  const auto refused = apply("budget", "{quota: {gpu: 5}, limit: {gpu: 8}}");
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.err, HasSubstr("conflict with \"git\""));
  EXPECT_THAT(refused.err, HasSubstr(".spec.quota.gpu"));
  EXPECT_TRUE(apply("budget", "{limit: {gpu: 8}}").ok());
  spec = cluster_->get(path)["spec"];
  EXPECT_EQ(spec["pools"].size(), 1u) << "what it does not name any more goes, and only that";
  EXPECT_EQ(spec["pools"][0]["name"], "h100");
  EXPECT_EQ(spec["quota"]["gpu"], 4);

  std::set<std::string> writers;
  const auto shown = cluster_->get(path);
  for (const auto& entry : shown["metadata"]["managedFields"])
    if (entry.value("subresource", "") == "status") writers.insert(entry["manager"]);
  EXPECT_EQ(writers, std::set<std::string>{"muster"});
  cluster_->remove(path);
}

// What Muster makes has no label of the one who applies, so it is not pruned.
TEST_F(Kubectl, PruneRemovesWhatIsNoLongerThereAndNothingElse) {
  const auto folder = cluster_->real().directory() / "pruned";
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const json& object) {
    std::ofstream(folder / (name + ".json")) << object.dump();
  };
  write("a", job_object({.name = "kept", .gpus = 1}));
  write("b", job_object({.name = "dropped", .gpus = 1}));
  write("c", service_object("served", 1));
  const auto apply = [&] {
    return with_apply_sets({"apply", "-n", "team", "--prune", "--applyset=work", "-f", folder});
  };
  EXPECT_TRUE(apply().ok());
  ASSERT_TRUE(cluster_->wait_phase("kept", "Running"));
  ASSERT_TRUE(cluster_->wait_phase("dropped", "Running"));
  const auto serves = [] {
    return cluster_->get(path_of_service("served")).value("/status/readyReplicas"_json_pointer, 0) == 1;
  };
  ASSERT_TRUE(cluster_->wait(30s, serves));
  std::filesystem::remove(folder / "b.json");
  const auto pruned = apply();
  EXPECT_TRUE(pruned.ok()) << pruned.err;
  EXPECT_THAT(pruned.out, HasSubstr("dropped pruned"));
  EXPECT_TRUE(cluster_->wait(30s, [&] { return cluster_->pods("dropped").empty(); }));
  EXPECT_EQ(cluster_->phase("kept"), "Running");
  EXPECT_TRUE(serves()) << "its replica is no object of the set";
}

}  // namespace
}  // namespace muster::test
