// What others do to a service: it moves, shrinks and stops for who has a right to its GPUs.
#include "serving.h"

namespace muster::test {
namespace {

using testing::IsEmpty;

// Beside the node of all tests there is another one. The service is of `team`, which has no quota: it
// borrows.
class BorrowedService : public Serving {
 protected:
  BorrowedService() : Serving("team") {}

  void SetUp() override {
    Serving::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    other_ = std::make_unique<testcluster::RealNode>(nodes_->start_real_node(1));
  }
  void TearDown() override {
    Serving::TearDown();
    if (!other_) return;
    EXPECT_TRUE(other_->stop());
    cluster().remove("/api/v1/nodes/" + other_->name());
    set_quota(4);
  }

  static void set_quota(int gpus) {
    const json quota = {{"spec", {{"quota", {{"gpu", gpus}}}}}};
    cluster().patch("/apis/muster.dev/v1alpha1/queues/root", quota);
    cluster().patch("/apis/muster.dev/v1alpha1/projects/owner", quota);
  }
  // Within its quota, and only there.
  static void claim(const std::string& name, int gpus, const std::string& node) {
    json job = nodes_->train_job({.name = name, .ns = "owner", .gpus = gpus}, {{"STEPS", "100000"}});
    job["spec"]["roles"][0]["template"]["spec"]["nodeSelector"] = {{"kubernetes.io/hostname", node}};
    cluster().create(job);
  }
  static bool wait_runs(const std::string& name) {
    return cluster().wait_phase(name, "Running", 90s, "owner");
  }
  static std::string say(const std::string& name) { return cluster().job(name, "owner").dump(2); }

  std::string its_node() const { return pods().at(0)["spec"].value("nodeName", ""); }
  bool wait_left(int replicas) const {
    return cluster().wait(90s, [&] {
      return status().value("readyReplicas", 0) == replicas &&
             pods().size() == static_cast<std::size_t>(replicas);
    });
  }

 private:
  std::unique_ptr<testcluster::RealNode> other_;
};

TEST_F(BorrowedService, ItMovesAndShrinksWithoutALostRequestAndStopsOnlyForAQuota) {
  json chat = service(1, "chat");
  chat["spec"]["preemptible"] = true;
  cluster().create(chat);
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  Load load(cluster(), "team", "borrowed", 4);
  ASSERT_TRUE(load.wait_requests(20)) << load.summary();

  // The other node has room: its replica is there, and ready, before it goes here.
  const std::string before = its_node();
  claim("node", 4, before);
  ASSERT_TRUE(wait_runs("node")) << say("node") << status().dump(2);
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  const std::string after = its_node();
  EXPECT_NE(after, before);
  ASSERT_TRUE(load.wait_requests(20)) << load.summary();

  // One of two replicas has to go, because nothing else is free.
  nodes_->kubectl({"-n", "team", "scale", "isvc/chat", "--replicas=2"});
  ASSERT_TRUE(wait_rolled_out(2)) << status().dump(2);
  ASSERT_TRUE(load.wait_requests(20)) << load.summary();
  set_quota(8);
  claim("most", 3, after);
  ASSERT_TRUE(wait_runs("most")) << say("most") << status().dump(2);
  ASSERT_TRUE(wait_left(1)) << status().dump(2);
  ASSERT_TRUE(load.wait_requests(20)) << load.summary();
  load.end();
  EXPECT_THAT(load.summary()["lost"], IsEmpty()) << load.summary().dump(2);

  // The last one goes for what is guaranteed to another.
  claim("all", 1, after);
  ASSERT_TRUE(wait_runs("all")) << say("all") << status().dump(2);
  EXPECT_TRUE(wait_left(0)) << status().dump(2);
}

// It is the only one, and its budget keeps it until another serves on the other node.
TEST_F(BorrowedService, ADrainOfItsNodeLosesNoRequestThoughItIsTheOnlyReplica) {
  json chat = service(1, "chat");
  chat["spec"]["preemptible"] = true;
  cluster().create(chat);
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  Load load(cluster(), "team", "drained", 4);
  ASSERT_TRUE(load.wait_requests(20)) << load.summary();
  const std::string before = its_node();
  nodes_->kubectl({"drain", before, "--pod-selector=muster.dev/service=chat", "--ignore-daemonsets",
                   "--delete-emptydir-data", "--timeout=120s"});
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  EXPECT_NE(its_node(), before);
  ASSERT_TRUE(load.wait_requests(20)) << load.summary();
  load.end();
  nodes_->kubectl({"uncordon", before});
  EXPECT_THAT(load.summary()["lost"], IsEmpty()) << load.summary().dump(2);
}

}  // namespace
}  // namespace muster::test
