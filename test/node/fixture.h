// A cluster with one real node of 4 GPUs (muster::testcluster::RealNode) on which Muster runs as it is
// shipped: the image of `make image`, manifests/base, kube-scheduler, and nothing else. Beside it are two
// simulated nodes of 8 GPUs, tainted so that only who tolerates it gets there. Jobs run train.py.
//
// Project `owner` is guaranteed the GPUs of the real node; project `team` is guaranteed nothing, and runs on
// what `owner` does not use.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../cluster/muster/fixture/fixture.h"
#include "muster/testcluster/real_node.h"

namespace muster::test {

// One line of what train.py wrote.
struct TrainEvent {
  int attempt = 0;
  std::string what;  // gpus, start, step, saved, done
  std::string value;

  int step() const { return std::stoi(value); }
};

// What of it was computed again although it had been saved, or not gone on with where it had been saved; "":
// all is well.
std::string lost_work(const std::vector<TrainEvent>& events);

// Of a pod or a role: that it may run on simulated nodes, and there only.
json on_simulated_nodes();

class NodeCluster {
 public:
  // Throws what went wrong. The process must have entered the node network (testcluster::enter_node_network).
  static std::unique_ptr<NodeCluster> start();
  ~NodeCluster();

  Cluster& cluster() { return *cluster_; }
  testcluster::RealNode& node() { return *node_; }
  // A real node of 4 GPUs, "real-<number>", with what else the options say; 0 is node(). Who has started it
  // stops it, and removes its Node object.
  testcluster::RealNode start_real_node(int number, testcluster::RealNodeOptions options = {});

  // A container that runs test/node/programs/<program> with this environment, and the volumes it needs.
  static json container(const std::string& program, const std::map<std::string, std::string>& environment);
  static json volumes();
  // A job of train.py with this environment, over what SimpleJob says. Its checkpoint claim is on storage
  // that all nodes see.
  static json train_job(const SimpleJob& job, std::map<std::string, std::string> environment);
  std::vector<TrainEvent> events(const std::string& job) const;  // so far
  std::vector<TrainEvent> events(const std::string& job, const std::string& what) const;

  // The folder that the claim "ckpts" in each project's namespace holds; jobs write to <folder>/<job>.
  const std::filesystem::path& state() const { return state_; }

  // Suspends jobs that have not ended and removes services, and waits until no pod of theirs holds a GPU.
  void stop_jobs();
  // What Muster's pods have logged.
  std::string muster_log() const;
  // kubectl, of which success is expected: its output.
  std::string kubectl(std::vector<std::string> arguments, const std::string& input = {}) const;

 private:
  void build_images();
  void start_scheduler();
  void make_storage();
  void make_projects();
  void add_simulated_nodes();

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<testcluster::RealNode> node_;
  testcluster::ProcessId scheduler_;
  std::filesystem::path state_;
};

// One such cluster for all suites of the executable, started by the first. After each test, what it has left
// is stopped. Skipped where a real node cannot run.
class Node : public testing::Test {
 protected:
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;

  static Cluster& cluster() { return nodes_->cluster(); }

  static inline std::unique_ptr<NodeCluster> nodes_;

 private:
  class End;
  static inline bool begun_ = false;
  static inline std::string impossible_;
};

}  // namespace muster::test
