#include "live/cluster.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "muster/testcluster/loopback.h"
#include "process.h"
#include "report.h"

namespace muster::bench {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testcluster::Component;
using testcluster::TestCluster;
namespace fs = std::filesystem;

constexpr const char* kGroup = "/apis/muster.dev/v1alpha1/";

Outcome<void> succeeded(const Outcome<testcluster::CommandResult>& result) {
  if (!result) return std::unexpected(result.error());
  if (!result->ok()) return std::unexpected(result->err);
  return {};
}

std::string capacity_objects(int gpus) {
  const std::string quota = "{gpu: " + std::to_string(gpus) + "}";
  return "apiVersion: muster.dev/v1alpha1\nkind: Queue\nmetadata: {name: root}\nspec: {quota: " + quota +
         "}\n---\n" + "apiVersion: muster.dev/v1alpha1\nkind: NodePool\nmetadata: {name: default}\n" +
         "spec: {nodeSelector: {}, default: true}\n---\n" +
         "apiVersion: muster.dev/v1alpha1\nkind: Project\nmetadata: {name: " + BenchCluster::kTeam + "}\n" +
         "spec: {queue: root, quota: " + quota + "}\n";
}

}  // namespace

MusterProcess::~MusterProcess() {
  testcluster::end_process(id_, testcluster::Milliseconds(0));
}
void MusterProcess::stop() {
  testcluster::end_process(id_, seconds(35));
}
std::string MusterProcess::last_words() const {
  return std::string(alive() ? "" : "it has ended; ") + "its log ends:\n" + testcluster::tail(log_, 20);
}

Outcome<std::unique_ptr<BenchCluster>> BenchCluster::start(const ClusterOptions& options) {
  progress("starting a control plane and " + std::to_string(options.nodes) + " simulated nodes");
  testcluster::Options real;
  real.apiserver_flags = {"--delete-collection-workers=16"};  // for clearing up between the phases
  real.controller_manager_flags = options.controller_manager_arguments;
  auto started = TestCluster::start(real);
  if (!started) return std::unexpected(started.error());
  auto cluster = std::make_unique<BenchCluster>();
  cluster->options_ = options;
  cluster->cluster_ = std::make_unique<TestCluster>(std::move(*started));
  if (auto done = cluster->set_up(); !done) return std::unexpected(done.error());
  return cluster;
}

Outcome<void> BenchCluster::apply(const std::string& yaml) const {
  return succeeded(cluster_->kubectl({"apply", "--server-side", "-f", "-"}, yaml));
}

Outcome<void> BenchCluster::set_up() {
  if (auto ok = cluster_->apply_without_deployments(MUSTER_SOURCE_DIR "/manifests/base"); !ok) return ok;
  const auto kubeconfig = cluster_->service_account_kubeconfig("muster-system", "muster");
  if (!kubeconfig) return std::unexpected(kubeconfig.error());
  kubeconfig_ = *kubeconfig;

  testcluster::NodeTemplate node;
  node.count = options_.nodes;
  node.gpus = options_.gpus_per_node;
  auto names = cluster_->add_nodes(node, seconds(180));
  if (!names) return std::unexpected(names.error());
  nodes_ = std::move(*names);

  for (const char* ns : {kBare, kTeam}) {
    if (auto ok = succeeded(cluster_->kubectl({"create", "namespace", ns})); !ok) return ok;
    // The one is for a Project to adopt; the other gets by hand what Muster makes in the first.
    const bool is_team = ns == std::string_view(kTeam);
    const auto label = std::string("muster.dev/project=") + ns;
    if (is_team) {
      if (auto ok = succeeded(cluster_->kubectl({"label", "namespace", ns, label})); !ok) return ok;
    } else if (auto ok = apply(
                   std::string("{apiVersion: v1, kind: ServiceAccount, automountServiceAccountToken: false, "
                               "metadata: {name: muster-job, namespace: ") +
                   ns + "}}");
               !ok) {
      return ok;
    }
    const std::string account = std::string("/api/v1/namespaces/") + ns + "/serviceaccounts/default";
    const bool there = testcluster::wait_until(seconds(30), [&] {
      const auto answer = cluster_->request("GET", account);
      return answer && answer->ok();
    });
    if (!there) return std::unexpected(std::string("no default ServiceAccount in ") + ns);
  }
  return apply(capacity_objects(options_.nodes * options_.gpus_per_node));
}

bool BenchCluster::is_accepted(const std::string& plural, const std::string& name) const {
  const auto answer = cluster_->request("GET", kGroup + plural + "/" + name);
  if (!answer || !answer->ok()) return false;
  const json object = json::parse(answer->body);
  for (const json& condition : object.value("/status/conditions"_json_pointer, json::array())) {
    if (condition.value("type", "") == "Accepted") return condition.value("status", "") == "True";
  }
  return false;
}

Outcome<std::unique_ptr<MusterProcess>> BenchCluster::start_muster() {
  const int port = testcluster::free_port();
  testcluster::ProcessSpec spec;
  spec.arguments = {
      options_.muster.string(), "controller",  "--kubeconfig",     kubeconfig_.string(),
      "--metrics-address",      "127.0.0.1:0", "--health-address", "127.0.0.1:" + std::to_string(port),
      "--log-format",           "json"};
  spec.arguments.insert(spec.arguments.end(), options_.muster_arguments.begin(),
                        options_.muster_arguments.end());
  spec.log = cluster_->directory() / "logs" / ("muster-" + std::to_string(++started_) + ".log");
  const auto id = testcluster::spawn(spec);
  if (!id) return std::unexpected(id.error());
  auto process = std::make_unique<MusterProcess>(*id, spec.log);
  const bool ready = testcluster::wait_until(
      seconds(60),
      [&] {
        return !process->alive() ||
               (testcluster::http_status(port, "/readyz") == 200 && is_accepted("queues", "root") &&
                is_accepted("nodepools", "default") && is_accepted("projects", kTeam));
      },
      testcluster::Milliseconds(100));
  if (!ready || !process->alive()) {
    return std::unexpected("muster is not ready, or has not accepted Queue, NodePool and Project; " +
                           process->last_words());
  }
  return process;
}

std::map<std::string, pid_t> BenchCluster::processes() const {
  std::map<std::string, pid_t> pids;
  for (const Component c :
       {Component::kEtcd, Component::kApiServer, Component::kControllerManager, Component::kKwok}) {
    if (const auto id = cluster_->process(c)) pids[std::string(testcluster::name_of(c))] = id->pid;
  }
  return pids;
}

void BenchCluster::settle() const {
  int quiet = 0;
  for (int second = 0; second < 60 && quiet < 2; ++second) {
    const auto before = take_cpu(processes());
    std::this_thread::sleep_for(seconds(1));
    const auto use = take_cpu(processes()) - before;
    const double sum = std::accumulate(use.by_name.begin(), use.by_name.end(), 0.0,
                                       [](double s, const auto& one) { return s + one.second; });
    quiet = sum < 0.1 * static_cast<double>(use.by_name.size()) ? quiet + 1 : 0;
  }
}

Outcome<WriteCounts> BenchCluster::writes() const {
  const auto answer = cluster_->request("GET", "/metrics");
  if (!answer) return std::unexpected("/metrics: " + answer.error());
  if (!answer->ok()) return std::unexpected("/metrics: HTTP status " + std::to_string(answer->status));
  return parse_writes(answer->body);
}

Outcome<std::vector<AuditPod>> BenchCluster::pods() const {
  std::vector<AuditPod> all;
  std::string more;
  do {
    const auto answer =
        cluster_->request("GET", "/api/v1/pods?limit=500" + (more.empty() ? "" : "&continue=" + more));
    if (!answer || !answer->ok())
      return std::unexpected("pods cannot be listed: " + (answer ? answer->body : answer.error()));
    const json list = json::parse(answer->body);
    for (const json& pod : list["items"]) all.push_back(audit_pod(pod));
    more = list["metadata"].value("continue", "");
  } while (!more.empty());
  return all;
}

Outcome<std::map<std::string, std::int64_t>> BenchCluster::node_gpus() const {
  const auto answer = cluster_->request("GET", "/api/v1/nodes");
  if (!answer || !answer->ok())
    return std::unexpected("nodes cannot be listed: " + (answer ? answer->body : answer.error()));
  std::map<std::string, std::int64_t> gpus;
  const json list = json::parse(answer->body);
  for (const json& node : list["items"]) {
    gpus[node["metadata"]["name"]] = std::stoll(node["status"]["allocatable"].value("nvidia.com/gpu", "0"));
  }
  return gpus;
}

bool BenchCluster::is_empty(const std::string& api, const std::string& resource,
                            const std::string& ns) const {
  const auto answer = cluster_->request("GET", api + "/namespaces/" + ns + "/" + resource);
  return answer && answer->ok() && json::parse(answer->body)["items"].empty();
}

void BenchCluster::keep_logs(const fs::path& directory) const {
  std::error_code error;
  fs::create_directories(directory, error);
  fs::copy(cluster_->directory() / "logs", directory,
           fs::copy_options::overwrite_existing | fs::copy_options::recursive, error);
  if (error) progress("logs could not be kept in " + directory.string() + ": " + error.message());
}

}  // namespace muster::bench
