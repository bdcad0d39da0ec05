// Killed at any write, a new process finishes or withdraws what the assignment says; a control plane that
// goes away in the middle loses and doubles nothing.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <csignal>
#include <random>
#include <set>
#include <thread>

#include "fixture.h"
#include "write_log.h"

namespace muster::test {
namespace {

class Crash : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    testcluster::Options options;
    options.audit = true;
    cluster_ = Cluster::start(10, 8, options);
  }
  static void TearDownTestSuite() { cluster_.reset(); }
  void TearDown() override { muster_.reset(); }

  static inline std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<MusterProcess> muster_;
};

// A gang of 64: kill -9 after each of 20 random writes. Always exactly 64 pods of one attempt, and a
// true status.
TEST_F(Crash, KilledAfterAnyWriteTheGangEndsWholeAndOnce) {
  const unsigned seed = seed_of_run();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    // Admission, Service, ConfigMap, 64 pods, PodsReady: some 68 writes.
    const int fatal = 1 + static_cast<int>(random() % 68);
    SCOPED_TRACE("round " + std::to_string(round) + ", killed after write " + std::to_string(fatal));
    const std::string name = "gang-" + std::to_string(round);
    muster_ = cluster_->muster();
    WriteLog writes(cluster_->real().audit_log());
    cluster_->create(job_object({.name = name, .replicas = 64}));
    ASSERT_TRUE(testcluster::wait_until(
        30s, [&] { return writes.but_for_events() >= fatal; }, 1ms))
        << "it wrote only:\n"
        << tell(writes.kinds());
    muster_->kill();
    muster_ = cluster_->muster();
    ASSERT_TRUE(cluster_->wait_phase(name, "Running", 60s)) << cluster_->job(name).dump(2) << muster_->log();
    const auto pods = cluster_->pods(name);
    EXPECT_EQ(pods.size(), 64u);
    std::set<std::string> attempts, slots;
    for (const auto& p : pods) {
      attempts.insert(p["metadata"]["labels"]["muster.dev/attempt"]);
      slots.insert(p["metadata"]["labels"]["muster.dev/index"]);
    }
    EXPECT_EQ(attempts.size(), 1u);
    EXPECT_EQ(slots.size(), 64u);
    const json status = cluster_->job(name)["status"];
    EXPECT_EQ(std::to_string(status["assignment"]["attempt"].get<int>()), *attempts.begin());
    EXPECT_TRUE(
        cluster_->wait(10s, [&] { return cluster_->job(name)["status"].value("pods", "") == "64/64"; }));
    EXPECT_EQ(cluster_->audit_gpus(), "");
    cluster_->remove_all_jobs();
    muster_.reset();
  }
}

// What a reader needs to know when it did not come back: jobs and pods, a line each.
std::string state_of(const Cluster& cluster) {
  std::string text;
  const json jobs = cluster.get("/apis/muster.dev/v1alpha1/trainingjobs");
  for (const auto& j : jobs["items"])
    text += j["metadata"]["name"].get<std::string>() + " " +
            j.value("status", json()).dump().substr(0, 1500) + "\n";
  for (const auto& p : cluster.all_pods()) {
    text += p["metadata"]["name"].get<std::string>() + " " + p["status"].value("phase", "") + " " +
            p["spec"].value("nodeName", "") + "\n";
  }
  return text;
}

class Outage : public testing::TestWithParam<testcluster::Component> {};

// Away for 30 s in the middle of ten starting gangs: all run afterwards, and no GPU is given twice.
TEST_P(Outage, InTheMiddleOfTenStartingGangsLosesAndDoublesNothing) {
  auto cluster = Cluster::start(10, 8);
  auto muster = cluster->muster();
  // KWOK gives up on pods that it could not patch during the outage: these gangs never become whole, and it
  // is startTimeout that brings them back, as it would with a kubelet that hangs.
  for (int i = 0; i < 10; ++i) {
    cluster->create(
        job_object({.name = "gang-" + std::to_string(i), .replicas = 8, .spec = {{"startTimeout", "45s"}}}));
  }
  ASSERT_TRUE(cluster->wait(30s, [&] { return cluster->all_pods().size() >= 20; }));
  ASSERT_TRUE(cluster->real().kill(GetParam(), SIGKILL));
  std::this_thread::sleep_for(30s);
  const auto back = cluster->real().restart(GetParam());
  ASSERT_TRUE(back) << back.error();
  EXPECT_TRUE(cluster->wait(180s,
                            [&] {
                              for (int i = 0; i < 10; ++i) {
                                if (cluster->phase("gang-" + std::to_string(i)) != "Running") return false;
                              }
                              return true;
                            }))
      << muster->log() << state_of(*cluster);
  EXPECT_TRUE(muster->alive());
  EXPECT_EQ(cluster->all_pods().size(), 80u);
  EXPECT_EQ(cluster->audit_gpus(), "");
}
INSTANTIATE_TEST_SUITE_P(Of, Outage,
                         testing::Values(testcluster::Component::kEtcd, testcluster::Component::kApiServer),
                         [](const auto& which) {
                           return which.param == testcluster::Component::kEtcd ? "Etcd" : "ApiServer";
                         });

class Nodes : public Crash {};

// A kubelet that turns a pod away before it ran: another node takes it, and the program is not blamed.
TEST_F(Nodes, ARefusedPodIsPlacedElsewhereAndDoesNotCount) {
  muster_ = cluster_->muster();
  cluster_->create(job_object({.name = "turned-away",
                               .replicas = 2,
                               .pod_annotations = {{"test.muster.dev/refuse", "OutOfcpu"},
                                                   {"test.muster.dev/refuse-on", "node-0"}}}));
  ASSERT_TRUE(cluster_->wait_phase("turned-away", "Running", 60s))
      << cluster_->job("turned-away").dump(2) << muster_->log();
  const json status = cluster_->job("turned-away")["status"];
  EXPECT_EQ(status["attempt"], 1);
  EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0);
  EXPECT_EQ(status["nodeRefusals"][0]["node"], "node-0");
  for (const auto& p : status["assignment"]["pods"]) EXPECT_NE(p["node"], "node-0");
  EXPECT_EQ(cluster_->pods("turned-away").size(), 2u);
  EXPECT_EQ(cluster_->audit_gpus(), "");
  cluster_->remove_all_jobs();
}

// A claim that waits for its first consumer is told the node; a bound volume's node affinity says where the
// gang goes.
TEST_F(Nodes, VolumesAndGangsMeet) {
  muster_ = cluster_->muster();
  cluster_->apply(R"(
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: waits}
provisioner: example.com/disk
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: fresh, namespace: team}
spec: {storageClassName: waits, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-of-node-7}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  storageClassName: ""
  claimRef: {namespace: team, name: kept}
  local: {path: /disk}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-7]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept, namespace: team}
spec: {storageClassName: "", volumeName: disk-of-node-7, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
)");
  cluster_->create(job_object(
      {.name = "new-disk", .spec = {{"checkpoint", {{"claimName", "fresh"}, {"mountPath", "/ckpt"}}}}}));
  EXPECT_TRUE(cluster_->wait(30s, [&] {
    const json claim = cluster_->get("/api/v1/namespaces/team/persistentvolumeclaims/fresh");
    const auto pods = cluster_->pods("new-disk");
    return pods.size() == 1 &&
           pods[0]["spec"]["nodeName"] ==
               claim.value("/metadata/annotations/volume.kubernetes.io~1selected-node"_json_pointer,
                           std::string());
  })) << muster_->log();
  cluster_->create(job_object({.name = "old-disk",
                               .replicas = 2,
                               .spec = {{"checkpoint", {{"claimName", "kept"}, {"mountPath", "/ckpt"}}}}}));
  ASSERT_TRUE(cluster_->wait_phase("old-disk", "Running", 60s))
      << cluster_->job("old-disk").dump(2) << muster_->log();
  for (const auto& p : cluster_->pods("old-disk")) EXPECT_EQ(p["spec"]["nodeName"], "node-7");
  cluster_->remove_all_jobs();
}

constexpr const char* kReport = R"({"checkpoint":{"step":1200,"uri":"/ckpt/step-1200"}})";

class Leaders : public Crash {};

// Two processes, one lease: one acts. The other takes over when the first is frozen, and knows what pods said
// last while nobody led; the first, woken again past its renew deadline, writes nothing more.
TEST_F(Leaders, OneActsAndTheOtherTakesOver) {
  const std::vector<std::string> elect = {"--leader-elect", "--lease-namespace", "muster-system"};
  auto first = cluster_->muster(elect);
  const auto holder = [&] {
    const json lease =
        cluster_->get("/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-controller");
    return lease.is_null() ? "" : lease.value("/spec/holderIdentity"_json_pointer, std::string());
  };
  ASSERT_TRUE(cluster_->wait(10s, [&] { return !holder().empty(); }));
  const auto leader = holder();
  auto second = cluster_->muster(elect);
  cluster_->create(job_object({.name = "one", .replicas = 4}));
  ASSERT_TRUE(cluster_->wait_phase("one", "Running"));
  cluster_->create(job_object({.name = "saves",
                               .replicas = 2,
                               .pod_annotations = {{"test.muster.dev/save-for", "3s"},
                                                   {"test.muster.dev/termination-message", kReport}}}));
  ASSERT_TRUE(cluster_->wait_phase("saves", "Running"));
  EXPECT_EQ(holder(), leader);

  cluster_->patch(path_of_job("saves"), {{"spec", {{"suspend", true}}}});
  ASSERT_TRUE(cluster_->wait(10s, [&] {
    return std::ranges::all_of(cluster_->pods("saves"),
                               [](const json& pod) { return pod["metadata"].contains("deletionTimestamp"); });
  }));
  ASSERT_TRUE(testcluster::stop_process(first->id()));  // past its lease: the second takes over
  ASSERT_TRUE(cluster_->wait(10s, [&] { return cluster_->pods("saves").empty(); }));
  EXPECT_EQ(holder(), leader);
  ASSERT_TRUE(cluster_->wait(40s, [&] { return holder() != leader && !holder().empty(); }));
  cluster_->create(job_object({.name = "two", .replicas = 4}));
  ASSERT_TRUE(cluster_->wait_phase("two", "Running", 40s));
  EXPECT_TRUE(cluster_->wait(10s, [&] { return cluster_->phase("saves") == "Suspended"; }));
  EXPECT_EQ(cluster_->job("saves").value("/status/checkpoint/step"_json_pointer, 0), 1200)
      << cluster_->job("saves").dump(2);
  ::kill(first->id().pid, SIGCONT);
  // It finds its lease lost and ends; the one who leads is not disturbed.
  EXPECT_TRUE(cluster_->wait(20s, [&] {
    int status = 0;
    return waitpid(first->id().pid, &status, WNOHANG) == first->id().pid || !first->alive();
  }));
  EXPECT_EQ(cluster_->pods("one").size() + cluster_->pods("two").size(), 8u);
  EXPECT_EQ(cluster_->audit_gpus(), "");
  // Asked to stop, it gives the lease back at once.
  EXPECT_EQ(second->stop(), 0);
  EXPECT_EQ(holder(), "");
  cluster_->remove_all_jobs();
}

}  // namespace
}  // namespace muster::test
