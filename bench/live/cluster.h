// What all phases run on: a control plane with simulated nodes and Muster's manifests, and Muster
// as a process.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/api_writes.h"
#include "live/audit.h"
#include "muster/testcluster/testcluster.h"

namespace muster::bench {

template <class T>
using Outcome = testcluster::Result<T>;  // the error is a sentence

struct ClusterOptions {
  int nodes = 500;
  int gpus_per_node = 8;
  std::filesystem::path muster;                           // the program
  std::vector<std::string> muster_arguments;              // added to its command line
  std::vector<std::string> controller_manager_arguments;  // likewise
};

// `muster controller` as a child process, with exactly the rights of manifests/base. Killed with the object.
class MusterProcess {
 public:
  explicit MusterProcess(testcluster::ProcessId id, std::filesystem::path log)
      : id_(id), log_(std::move(log)) {}
  ~MusterProcess();
  MusterProcess(const MusterProcess&) = delete;
  MusterProcess& operator=(const MusterProcess&) = delete;

  pid_t pid() const { return id_.pid; }
  bool alive() const { return testcluster::is_alive(id_); }
  // SIGTERM, and SIGKILL after 35 s.
  void stop();
  std::string last_words() const;  // whether it has ended, and the end of its log

 private:
  testcluster::ProcessId id_;
  std::filesystem::path log_;
};

class BenchCluster {
 public:
  // Namespaces of the two phases.
  static constexpr const char* kBare = "bare";
  static constexpr const char* kTeam = "team";

  // CRDs, manifests/base without its Deployment, the nodes, both namespaces with their ServiceAccounts, and a
  // Queue, NodePool and Project `team` with quota for all GPUs.
  static Outcome<std::unique_ptr<BenchCluster>> start(const ClusterOptions& options);

  // Returns when it is ready and has accepted Queue, NodePool and Project.
  Outcome<std::unique_ptr<MusterProcess>> start_muster();
  // Waits until the control plane has nothing left to do: two seconds in which its processes together use
  // less than a tenth of a core each second, or 60 s.
  void settle() const;

  const testcluster::TestCluster& real() const { return *cluster_; }
  const std::vector<std::string>& nodes() const { return nodes_; }
  std::map<std::string, pid_t> processes() const;  // components by name
  Outcome<WriteCounts> writes() const;
  // Of all namespaces, by pages.
  Outcome<std::vector<AuditPod>> pods() const;
  Outcome<std::map<std::string, std::int64_t>> node_gpus() const;
  // True once the namespace has none of `resource` ("/api/v1" and "services").
  bool is_empty(const std::string& api, const std::string& resource, const std::string& ns) const;
  void keep_logs(const std::filesystem::path& directory) const;

 private:
  Outcome<void> set_up();
  Outcome<void> apply(const std::string& yaml) const;
  bool is_accepted(const std::string& plural, const std::string& name) const;

  ClusterOptions options_;
  std::unique_ptr<testcluster::TestCluster> cluster_;
  std::vector<std::string> nodes_;
  std::filesystem::path kubeconfig_;
  int started_ = 0;
};

}  // namespace muster::bench
