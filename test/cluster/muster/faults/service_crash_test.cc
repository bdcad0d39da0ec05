// The controller is killed again and again while a service is rolled out: every state that the API server has
// shown meanwhile is judged.
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <random>

#include "fixture.h"
#include "history.h"
#include "write_log.h"

namespace muster::test {
namespace {

using testing::IsEmpty;

constexpr int kReplicas = 6, kSurge = 2, kKillsOfARollout = 5;

// How many replicas there are, and how many serve, after each write.
class Rollout {
 public:
  void see(const Change& change) {
    const json& meta = change.object["metadata"];
    if (!meta.value("labels", json::object()).contains("muster.dev/service")) return;
    const bool stays = !change.is_gone && !meta.contains("deletionTimestamp");
    if (change.object["kind"] == "TrainingJob") {
      count(replicas_, meta["uid"], stays);
      most_ = std::max(most_, replicas_.size());
    } else if (change.object["kind"] == "Pod") {
      const json conditions = change.object["status"].value("conditions", json::array());
      const bool ready = std::ranges::any_of(
          conditions, [](const json& c) { return c["type"] == "Ready" && c["status"] == "True"; });
      count(serving_, meta["uid"], stays && ready);
      began_ = began_ || serving_.size() == kReplicas;
      if (began_) fewest_ = std::min(fewest_, serving_.size());
    }
  }
  std::size_t most_replicas() const { return most_; }
  std::size_t fewest_serving() const { return fewest_; }  // since all did

 private:
  static void count(std::set<std::string>& all, const std::string& uid, bool is_there) {
    if (is_there) {
      all.insert(uid);
    } else {
      all.erase(uid);
    }
  }

  std::set<std::string> replicas_, serving_;  // uids
  std::size_t most_ = 0, fewest_ = kReplicas;
  bool began_ = false;
};

TEST(ServiceCrash, KilledAfterAnyWriteOfARolloutItEndsInTheNewRevisionWithNoReplicaTooMany) {
  const int kills = number_from_environment("MUSTER_KILLS", 2 * kKillsOfARollout);
  const unsigned seed = seed_of_run();
  std::mt19937 random(seed);
  testcluster::Options options;
  options.audit = true;
  const auto cluster = Cluster::start(3, 4, options);
  History history(*cluster, {"trainingjobs"});
  auto muster = cluster->muster();
  const auto status = [&] { return cluster->get(path_of_service("chat")).value("status", json::object()); };
  const auto pods = [&] {
    return cluster->get("/api/v1/namespaces/team/pods?labelSelector=muster.dev%2Fservice%3Dchat")["items"];
  };
  cluster->create(service_object("chat", kReplicas, {{"rollout", {{"maxSurge", kSurge}}}}));
  ASSERT_TRUE(cluster->wait(60s, [&] { return status().value("readyReplicas", 0) == kReplicas; }))
      << status().dump(2) << muster->log();

  int killed = 0;
  for (int round = 0; killed < kills; ++round) {
    const std::string image = "registry.example/serve:" + std::to_string(round + 2);
    SCOPED_TRACE(image);
    // Of each replica: itself, two of its status, its pod, and the end of the one before; and the
    // service's status.
    const int expected = 5 * kReplicas + 2 * kReplicas / kSurge;
    std::vector<int> fatal;
    for (int i = 0; i < kKillsOfARollout; ++i) fatal.push_back(1 + static_cast<int>(random() % expected));
    std::ranges::sort(fatal);
    WriteLog writes(cluster->real().audit_log());
    json containers = cluster->get(path_of_service("chat"))["spec"]["template"]["spec"]["containers"];
    containers[0]["image"] = image;
    const auto started = std::chrono::steady_clock::now();
    cluster->patch(path_of_service("chat"),
                   {{"spec", {{"template", {{"spec", {{"containers", containers}}}}}}}});
    for (const int n : fatal) {
      ASSERT_TRUE(testcluster::wait_until(
          60s, [&] { return writes.but_for_events() >= n; }, 1ms))
          << "after " << n << " writes it was to be killed, and it wrote only:\n"
          << tell(writes.kinds());
      muster->kill();
      ++killed;
      muster = cluster->muster();
    }
    ASSERT_TRUE(cluster->wait(120s,
                              [&] {
                                const json s = status();
                                const json c = cluster->condition_of(path_of_service("chat"), "RolledOut");
                                return s.value("updatedReplicas", 0) == kReplicas &&
                                       s.value("replicas", 0) == kReplicas && c["status"] == "True" &&
                                       s.value("observedGeneration", 0) == round + 2;
                              }))
        << status().dump(2) << muster->log();
    // Pods of a removed replica are collected by Kubernetes, in a young cluster half a minute later.
    ASSERT_TRUE(cluster->wait(90s, [&] { return pods().size() == kReplicas; }));
    for (const auto& p : pods()) EXPECT_EQ(p["spec"]["containers"][0]["image"], image);
    EXPECT_EQ(cluster->audit_gpus(), "");
    std::cout << "rolled out and collected after "
              << std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - started).count()
              << " ms, " << writes.but_for_events() << " writes but for events\n";
  }

  Auditor auditor;
  Rollout rollout;
  int changes = 0;
  history.replay([&](const Change& change) {
    ++changes;
    auditor.see(change);
    rollout.see(change);
  });
  std::cout << "killed " << killed << " times; audited " << changes << " states of the API server, at most "
            << rollout.most_replicas() << " replicas, at least " << rollout.fewest_serving() << " serving\n";
  EXPECT_THAT(auditor.problems(), IsEmpty());
  EXPECT_LE(rollout.most_replicas(), kReplicas + kSurge);
  EXPECT_EQ(rollout.fewest_serving(), kReplicas);
}

}  // namespace
}  // namespace muster::test
