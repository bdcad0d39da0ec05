// Killed at any write, a new process finishes or withdraws what the assignment says; a control plane that goes away in the
// middle loses and doubles nothing.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "fixture.h"

namespace muster::test {
namespace {

// Counts Muster's writes in the API server's audit log as they appear.
class WriteCounter {
 public:
  explicit WriteCounter(const std::filesystem::path& log) : in_(log) { in_.seekg(0, std::ios::end); }
  int count() {
    std::string line;
    while (true) {
      const auto at = in_.tellg();
      if (!std::getline(in_, line) || in_.eof()) {  // nothing, or half a line
        in_.clear();
        in_.seekg(at);
        return count_;
      }
      const json entry = json::parse(line, nullptr, false);
      if (!entry.is_object() || entry.value("stage", "") != "ResponseComplete") continue;
      if (entry.value("/user/username"_json_pointer, std::string()) != "system:serviceaccount:muster-system:muster") continue;
      const std::string verb = entry.value("verb", "");
      if (verb != "create" && verb != "patch" && verb != "delete" && verb != "update") continue;
      if (entry.value("/objectRef/resource"_json_pointer, std::string()) == "events") continue;
      ++count_;
    }
  }

 private:
  std::ifstream in_;
  int count_ = 0;
};

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

// A gang of 64: kill -9 after each of 20 random writes. Always exactly 64 pods of one attempt, and a true status.
TEST_F(Crash, KilledAfterAnyWriteTheGangEndsWholeAndOnce) {
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", static_cast<int>(seed));
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    // Admission, Service, ConfigMap, 64 pods, PodsReady: some 68 writes.
    const int fatal = 1 + static_cast<int>(random() % 68);
    SCOPED_TRACE("round " + std::to_string(round) + ", killed after write " + std::to_string(fatal));
    const std::string name = "gang-" + std::to_string(round);
    muster_ = cluster_->muster();
    WriteCounter writes(cluster_->real().audit_log());
    cluster_->create(job_object({.name = name, .replicas = 64}));
    testcluster::wait_until(10s, [&] { return writes.count() >= fatal; }, 1ms);
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
    EXPECT_TRUE(cluster_->wait(10s, [&] { return cluster_->job(name)["status"].value("pods", "") == "64/64"; }));
    EXPECT_EQ(cluster_->audit_gpus(), "");
    cluster_->remove_all_jobs();
    muster_.reset();
  }
}

// What a reader needs to know when it did not come back: jobs and pods, a line each.
std::string state_of(const Cluster& cluster) {
  std::string text;
  const json jobs = cluster.get("/apis/muster.dev/v1alpha1/trainingjobs");
  for (const auto& j : jobs["items"]) text += j["metadata"]["name"].get<std::string>() + " " + j.value("status", json()).dump().substr(0, 1500) + "\n";
  for (const auto& p : cluster.all_pods()) {
    text += p["metadata"]["name"].get<std::string>() + " " + p["status"].value("phase", "") + " " + p["spec"].value("nodeName", "") + "\n";
  }
  return text;
}

class Outage : public testing::TestWithParam<testcluster::Component> {};

// Away for 30 s in the middle of ten starting gangs: all run afterwards, and no GPU is given twice.
TEST_P(Outage, InTheMiddleOfTenStartingGangsLosesAndDoublesNothing) {
  auto cluster = Cluster::start(10, 8);
  auto muster = cluster->muster();
  // KWOK gives up on pods that it could not patch during the outage: these gangs never become whole, and it is startTimeout
  // that brings them back, as it would with a kubelet that hangs.
  for (int i = 0; i < 10; ++i) {
    cluster->create(job_object({.name = "gang-" + std::to_string(i), .replicas = 8, .spec = {{"startTimeout", "45s"}}}));
  }
  cluster->wait(20s, [&] { return cluster->all_pods().size() >= 20; });
  ASSERT_TRUE(cluster->real().kill(GetParam(), SIGKILL));
  std::this_thread::sleep_for(30s);
  const auto back = cluster->real().restart(GetParam());
  ASSERT_TRUE(back) << back.error();
  EXPECT_TRUE(cluster->wait(180s, [&] {
    for (int i = 0; i < 10; ++i) {
      if (cluster->phase("gang-" + std::to_string(i)) != "Running") return false;
    }
    return true;
  })) << muster->log() << state_of(*cluster);
  EXPECT_TRUE(muster->alive());
  EXPECT_EQ(cluster->all_pods().size(), 80u);
  EXPECT_EQ(cluster->audit_gpus(), "");
}
INSTANTIATE_TEST_SUITE_P(Of, Outage, testing::Values(testcluster::Component::kEtcd, testcluster::Component::kApiServer),
                         [](const auto& which) { return which.param == testcluster::Component::kEtcd ? "Etcd" : "ApiServer"; });

class Leaders : public Crash {};

// Two processes, one lease: one acts. The other takes over when the first is killed, and the first, frozen past its renew
// deadline and woken again, writes nothing more.
TEST_F(Leaders, OneActsAndTheOtherTakesOver) {
  const std::vector<std::string> elect = {"--leader-elect", "--lease-namespace", "muster-system"};
  auto first = cluster_->muster(elect);
  const auto holder = [&] {
    return cluster_->get("/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-controller").value("/spec/holderIdentity"_json_pointer, std::string());
  };
  ASSERT_TRUE(cluster_->wait(10s, [&] { return !holder().empty(); }));
  const auto leader = holder();
  auto second = cluster_->muster(elect);
  cluster_->create(job_object({.name = "one", .replicas = 4}));
  ASSERT_TRUE(cluster_->wait_phase("one", "Running"));
  EXPECT_EQ(holder(), leader);

  ::kill(first->id().pid, SIGSTOP);  // past its lease: the second takes over
  ASSERT_TRUE(cluster_->wait(40s, [&] { return holder() != leader && !holder().empty(); }));
  cluster_->create(job_object({.name = "two", .replicas = 4}));
  ASSERT_TRUE(cluster_->wait_phase("two", "Running", 40s));
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
