// A Kubernetes cluster of its own for a test, a demo or a benchmark: real etcd, kube-apiserver and controller
// manager as child processes on loopback, and simulated nodes by KWOK.
//
//   auto cluster = TestCluster::start({});
//   if (!cluster) FAIL() << cluster.error();
//   NodeTemplate nodes;
//   nodes.count = 8;
//   cluster->add_nodes(nodes);
//   cluster->kubectl({"apply", "-f", "-"}, manifest);
//
// Everything lives in one directory: pki/, etcd/, logs/<component>.log, admin.kubeconfig. Nothing is left
// when the object is gone, except the directory if it was named by the caller. What pods do on simulated
// nodes, and the annotations that steer them, is described in test/cluster/kwok/stages.yaml.
#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/testcluster/process.h"

namespace muster::testcluster {

enum class Component : std::uint8_t { kEtcd, kApiServer, kControllerManager, kKwok };
std::string_view name_of(Component component);

struct Options {
  // Empty: a new one under $TMPDIR, removed by stop(). Otherwise made if need be; what an earlier cluster
  // left there is removed, and one that still runs there is an error.
  std::filesystem::path directory;
  // Empty: $MUSTER_CONTROLPLANE, or what scripts/build-controlplane.sh built.
  std::filesystem::path controlplane;
  // The API server and the controller manager of another version. Empty: $MUSTER_SERVERS, or those of
  // `controlplane`.
  std::filesystem::path servers;
  // Without it: no garbage collection, no default ServiceAccounts (their admission is switched off as well).
  bool with_controller_manager = true;
  bool with_kwok = true;
  // Every request as a line of JSON in audit_log(): who (user.username, userAgent), verb, objectRef, code.
  bool audit = false;
  std::vector<std::string> etcd_flags, apiserver_flags, controller_manager_flags, kwok_flags;
  // The API server's; 0: any free one. Pods of real nodes look for it at port 443 (real_node.h).
  int apiserver_port = 0;
  // How long a node may go without a lease renewal; KWOK renews at a quarter of it.
  int node_lease_seconds = 160;
  // True: the processes outlive this object and this process; end them with stop_detached().
  bool detach = false;
  Milliseconds timeout = std::chrono::seconds(90);  // for all of start()
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect = "NoSchedule";
};

// Simulated nodes. Quantities are Kubernetes' ("96", "500m", "1Ti"). Capacity and allocatable are the same.
struct NodeTemplate {
  std::string prefix = "node";  // names are <prefix>-<index>
  int first = 0;                // index of the first
  int count = 1;
  int gpus = 8;                                 // 0: no nvidia.com/gpu, no GPU labels
  std::string model = "NVIDIA-H100-80GB-HBM3";  // label nvidia.com/gpu.product
  int gpu_memory_mib = 81559;                   // label nvidia.com/gpu.memory
  std::string cpu = "128";
  std::string memory = "1Ti";
  std::string pods = "110";
  // Topology labels, by index: muster.dev/rack (rack-<n>) if nodes_per_rack > 0, muster.dev/block (block-<n>)
  // if racks_per_block > 0. kubernetes.io/hostname is always set, topology.kubernetes.io/zone to `zone`.
  std::string zone = "zone-a";
  int nodes_per_rack = 0;
  int racks_per_block = 0;
  std::map<std::string, std::string> labels;       // added to those above, and may replace them
  std::map<std::string, std::string> annotations;  // likewise
  std::map<std::string, std::string> resources;    // further capacity, e.g. nvidia.com/mig-1g.10gb
  std::vector<Taint> taints;
};

struct HttpResponse {
  long status = 0;
  std::string body;

  bool ok() const { return status >= 200 && status < 300; }
};

// Not thread-safe, except request() and kubectl(), which may be called from any thread. start() and restart()
// must be called from a thread that outlives the cluster (see ProcessSpec::ends_with_parent).
class TestCluster {
 public:
  // Returns when the API server is ready and pods can be created: about 4 s on two cores. The error holds the
  // end of the log of the component that failed.
  static Result<TestCluster> start(const Options& options);
  // A cluster that runs in `directory`, started with `detach`. It is not stopped when this object goes, and
  // restart() is not available.
  static Result<TestCluster> attach(const std::filesystem::path& directory);
  // Ends every process that is recorded in `directory` (also of a cluster whose parent was killed). An error
  // names those that could not be ended. No process is no error.
  static Result<void> stop_detached(const std::filesystem::path& directory);

  TestCluster(TestCluster&&) noexcept;
  TestCluster& operator=(TestCluster&&) noexcept;
  ~TestCluster();  // stop(), unless detached or attached

  const std::filesystem::path& directory() const;
  const std::filesystem::path& controlplane() const;
  std::string server_url() const;  // https://127.0.0.1:<port>
  std::filesystem::path kubeconfig()
      const;  // user admin, group system:masters, by embedded client certificate
  std::filesystem::path ca_certificate() const;
  std::filesystem::path admin_certificate() const;
  std::filesystem::path admin_key() const;
  std::filesystem::path audit_log() const;  // only with Options::audit
  std::filesystem::path log(Component component) const;

  // A kubeconfig for a ServiceAccount, by a token of a day from the TokenRequest API: whoever uses it has
  // exactly that account's rights. The account must exist.
  Result<std::filesystem::path> service_account_kubeconfig(const std::string& name_space,
                                                           const std::string& name);
  // A kubeconfig for any user, by a certificate of the cluster's authority: `file` is its name
  // in directory().
  Result<std::filesystem::path> certificate_kubeconfig(const std::string& file, const std::string& user,
                                                       const std::vector<std::string>& groups);

  Result<CommandResult> kubectl(std::vector<std::string> arguments, const std::string& input = {},
                                Milliseconds timeout = std::chrono::seconds(60)) const;
  // What `kubectl kustomize <folder>` renders, Deployments left out: for an operator that runs as a process
  // beside the cluster. Returns when its CustomResourceDefinitions are served.
  Result<void> apply_without_deployments(const std::filesystem::path& folder) const;
  // One request as admin over a connection that is kept: `path` as "/api/v1/pods?limit=1". An error means
  // that there was no answer; an answer of 4xx or 5xx is none. `more_headers`: "Impersonate-User: anna".
  Result<HttpResponse> request(const std::string& method, const std::string& path,
                               const std::string& body = {},
                               const std::string& content_type = "application/json",
                               Milliseconds timeout = std::chrono::seconds(30),
                               const std::vector<std::string>& more_headers = {}) const;

  // Creates the nodes and waits until all are Ready: some 3 s for 500. Their names are returned.
  Result<std::vector<std::string>> add_nodes(const NodeTemplate& nodes,
                                             Milliseconds timeout = std::chrono::seconds(60));

  // nullopt if it is not running.
  std::optional<ProcessId> process(Component component) const;
  bool running(Component component) const;
  // Sends a signal. SIGSTOP and SIGCONT make a component hang and come back. Returns when a killed process is
  // gone and a stopped one answers no more; false if it was not running.
  bool kill(Component component, int signal = SIGKILL);
  // Ends it if it still runs, waits until its ports are free, starts it with the same ports, flags and data,
  // and waits until it is ready (for etcd: until the API server is ready again, if that runs).
  Result<void> restart(Component component, Milliseconds timeout = std::chrono::seconds(60));
  // True once /readyz says ok.
  bool wait_ready(Milliseconds timeout) const;

  // Ends all processes, last started first. Called a second time it does nothing.
  void stop();

 private:
  struct State;
  explicit TestCluster(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// $MUSTER_CONTROLPLANE, or the cache that scripts/build-controlplane.sh fills; the error says how to fill it.
Result<std::filesystem::path> find_controlplane();

}  // namespace muster::testcluster
