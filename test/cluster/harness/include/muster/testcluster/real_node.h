// Real nodes for a TestCluster: a kubelet and containerd that run containers, with GPUs that are not there.
//
//   if (auto possible = enter_node_network(); !possible) GTEST_SKIP() << possible.error();
//   auto cluster = TestCluster::start(for_real_nodes({}));
//   auto node = RealNode::start(*cluster, {.name = "real-0", .images = {archive}});
//
// What nodes touch is theirs alone: one network namespace for the test (bridges, addresses, port 443), and
// for each node a mount namespace (kubelet and containerd keep to fixed paths under /var/lib and /run), a pid
// namespace (so that ending one process ends the node with all its containers) and a cgroup. They need root
// and, from Debian, containerd, runc, containernetworking-plugins and iproute2.
//
// There is no kube-proxy and no DNS: pods reach the API server at the address of the Service kubernetes, and
// each other by address. Nothing leaves the machine.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "muster/testcluster/testcluster.h"

namespace muster::testcluster {

// Moves this process into a network namespace that has what RealNode needs. Call it once, before there is a
// second thread and before anything listens. The error says why real nodes cannot run here.
Result<void> enter_node_network();

// These options with an API server that pods of real nodes find.
Options for_real_nodes(Options options);

struct RealNodeOptions {
  std::string name;  // at most 11 characters
  int number = 0;    // 0 to 99, another for each node of a cluster: address 10.200.0.<10 + number>,
                     // pods 10.201.<number>.0/24
  int gpus = 4;      // 0: none
  std::string model = "NVIDIA-H100-80GB-HBM3";     // label nvidia.com/gpu.product
  int gpu_memory_mib = 81559;                      // label nvidia.com/gpu.memory
  std::map<std::string, std::string> labels = {};  // further ones
  std::vector<int> numa = {};  // the NUMA node of each GPU, as the plugin tells it; of the rest it does not
  bool cdi = false;            // the plugin names devices by CDI, in the variable as well; wants a containerd
  // The folder of containerd 2, its shim and ctr (scripts/build-controlplane.sh --containerd); empty: those
  // on PATH.
  std::filesystem::path containerd = {};
  std::string kubelet = {};  // JSON, merged over the kubelet's configuration
  // Archives as `ctr images import` takes them. There is no registry: what is not here cannot be pulled.
  std::vector<std::filesystem::path> images = {};
  std::string sandbox_image = {};  // of one of them; must have a command that waits
};

class RealNode {
 public:
  // Returns when the node is Ready and its GPUs are announced: 5 to 15 s. The error holds the end of the log
  // of what failed. To be called from a thread that outlives the node (see ProcessSpec::ends_with_parent).
  static Result<RealNode> start(TestCluster& cluster, const RealNodeOptions& options,
                                Milliseconds timeout = std::chrono::seconds(90));

  RealNode(RealNode&& other) noexcept;
  RealNode& operator=(RealNode&& other) noexcept;
  ~RealNode();  // stop()

  const std::string& name() const { return name_; }
  // Holds containerd.log, kubelet.log and gpu-plugin.log.
  const std::filesystem::path& directory() const { return directory_; }
  bool running() const { return is_alive(init_); }
  // Processes of its containers (and its own) of that name, as this process sees them: /proc/<pid>/comm.
  std::vector<pid_t> processes(const std::string& program) const;
  // As when the power fails: every process in it is killed at once. The Node object stays. False if something
  // of it could not be removed.
  bool stop();

 private:
  RealNode() = default;

  std::string name_;
  std::filesystem::path directory_;
  std::string cgroup_;  // under each hierarchy of /sys/fs/cgroup
  std::string bridge_;
  ProcessId init_;
};

}  // namespace muster::testcluster
