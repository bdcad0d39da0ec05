// A cluster with one real node of 4 GPUs (muster::testcluster::RealNode) on which Muster runs as it is
// shipped: the image of `make image`, manifests/base, kube-scheduler, and nothing else. Jobs run train.py.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../cluster/muster/fixture.h"
#include "muster/testcluster/real_node.h"

namespace muster::test {

// One line of what train.py wrote.
struct TrainEvent {
  int attempt = 0;
  std::string what;  // gpus, start, step, saved, done
  std::string value;

  int step() const { return std::stoi(value); }
};

class NodeCluster {
 public:
  // Throws what went wrong. The process must have entered the node network (testcluster::enter_node_network).
  static std::unique_ptr<NodeCluster> start();
  ~NodeCluster();

  Cluster& cluster() { return *cluster_; }
  testcluster::RealNode& node() { return *node_; }

  // A job of train.py with this environment, over what SimpleJob says. Its checkpoint claim is on storage
  // that all nodes see.
  json train_job(const SimpleJob& job, const std::map<std::string, std::string>& environment) const;
  std::vector<TrainEvent> events(const std::string& job) const;  // so far
  std::vector<TrainEvent> events(const std::string& job, const std::string& what) const;

  // Suspends what has not ended, and waits until no pod of a job holds a GPU.
  void stop_jobs();
  // What Muster's pods have logged.
  std::string muster_log() const;
  // kubectl, of which success is expected: its output.
  std::string kubectl(std::vector<std::string> arguments, const std::string& input = {}) const;

 private:
  void build_images();
  void start_scheduler();
  void make_storage();

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<testcluster::RealNode> node_;
  testcluster::ProcessId scheduler_;
  std::filesystem::path state_;  // what the claim "ckpts" in namespace team holds
};

}  // namespace muster::test
