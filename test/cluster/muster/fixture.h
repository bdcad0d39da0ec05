// A control plane with Muster's manifests, and Muster itself as a process with exactly the rights
// that they give.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/testcluster/testcluster.h"

namespace muster::test {

using nlohmann::json;
using testcluster::Milliseconds;
using namespace std::chrono_literals;

// One muster process. Ends with the object, by SIGKILL unless stop() was called.
class MusterProcess {
 public:
  ~MusterProcess();
  void kill();  // SIGKILL
  // SIGTERM; the exit status, or nullopt if it did not end within `grace`.
  std::optional<int> stop(Milliseconds grace = 30s);
  bool alive() const;
  bool ready() const;  // /readyz
  std::string log() const;
  int health_port() const { return health_port_; }
  testcluster::ProcessId id() const { return id_; }

 private:
  friend class Cluster;
  testcluster::ProcessId id_;
  std::filesystem::path log_;
  int health_port_ = 0;
};

// A job of one role, for tests that need nothing special.
struct SimpleJob {
  std::string name;
  std::string ns = "team";
  int replicas = 1;
  int gpus = 1;
  std::map<std::string, std::string> pod_annotations = {};
  json spec = json::object();  // merged over the rest
};
json job_object(const SimpleJob& job);
// In `team`, of one GPU for each replica. `spec` is merged over the rest.
json service_object(const std::string& name, int replicas, const json& spec = json::object(),
                    const std::map<std::string, std::string>& pod_annotations = {});

class Cluster {
 public:
  // With CRDs and manifests/base (without its Deployment), and nothing else.
  static std::unique_ptr<Cluster> start_empty(const testcluster::Options& options = {});
  // Also with nodes, one node pool `default` and a Project `team` of `quota` GPUs in a Queue `root`; its
  // namespace exists.
  static std::unique_ptr<Cluster> start(int nodes, int gpus_per_node, testcluster::Options options = {},
                                        int quota = 1000);

  testcluster::TestCluster& real() { return *cluster_; }
  // A Muster that watches this cluster (MUSTER_OPERATOR: of another binary); returns when it is ready (and
  // acting, without leader election).
  std::unique_ptr<MusterProcess> muster(std::vector<std::string> more_arguments = {}, bool wait = true);

  json get(const std::string& path) const;  // null: not there
  json job(const std::string& name, const std::string& ns = "team") const;
  std::string phase(const std::string& name, const std::string& ns = "team") const;
  std::string reason(const std::string& name, const std::string& ns = "team") const;  // status.queue.reason
  json condition(const std::string& name, const std::string& type, const std::string& ns = "team") const;
  // Of all pods that belong to the job.
  std::vector<json> pods(const std::string& job, const std::string& ns = "team") const;
  std::vector<json> all_pods() const;

  void create(const json& object);  // a Muster object; fails the test if refused
  testcluster::HttpResponse try_create(const json& object);
  void apply(const std::string& yaml);
  void remove(const std::string& path);
  void patch(const std::string& path, const json& merge);
  // With its default ServiceAccount, and labelled for a Project to adopt where one is named.
  void make_namespace(const std::string& ns, const std::string& project = {});
  json condition_of(const std::string& path, const std::string& type) const;  // null: not there

  bool wait(Milliseconds timeout, const std::function<bool()>& done) const;
  bool wait_phase(const std::string& name, const std::string& phase, Milliseconds timeout = 30s,
                  const std::string& ns = "team") const;
  void remove_all_jobs();  // and waits until their pods are gone
  // Waits until Muster has seen, and answered, what was written to jobs and pods before this call. A test
  // that expects nothing to happen calls it before it looks. How: a job without GPUs is created in `team` and
  // has to run. Muster sees jobs, and pods, in the order in which they were written, so it has seen all
  // earlier ones when this one runs.
  void catch_up();

  // From the API server's own list: no GPU index given twice, no node above its GPUs. "": all is well.
  std::string audit_gpus() const;

 private:
  std::unique_ptr<testcluster::TestCluster> cluster_;
  std::filesystem::path kubeconfig_;
  int next_log_ = 0;
  int catch_ups_ = 0;
};

// MUSTER_FULL_SIZE is set: what is large runs at the size that docs/benchmarks.md reports, not at CI's.
bool full_size();
// A whole number; `otherwise` where the variable is not set or is none.
int number_from_environment(const char* name, int otherwise);

std::string path_of_job(const std::string& name, const std::string& ns = "team");
std::string path_of_service(const std::string& name);  // in `team`

// One control plane and one Muster for all tests of an executable. SetUpTestSuite() of the derived class
// makes them. After each test all jobs are removed, Muster must still live, and its log is shown if the
// test failed.
class OneCluster : public testing::Test {
 protected:
  static void TearDownTestSuite();
  void TearDown() override;

  static inline std::unique_ptr<Cluster> cluster_;
  static inline std::unique_ptr<MusterProcess> muster_;
};

}  // namespace muster::test
