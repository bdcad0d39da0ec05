#include "fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "muster/crds/quantity.h"
#include "muster/testcluster/loopback.h"

namespace muster::test {
namespace {

using testcluster::TestCluster;

void must(const testcluster::Result<testcluster::CommandResult>& result) {
  if (!result) throw std::runtime_error(result.error());
  if (!result->ok()) throw std::runtime_error(result->err);
}

}  // namespace

MusterProcess::~MusterProcess() {
  kill();
}
void MusterProcess::kill() {
  if (id_.pid == 0) return;
  ::kill(id_.pid, SIGKILL);
  waitpid(id_.pid, nullptr, 0);
  id_ = {};
}
std::optional<int> MusterProcess::stop(Milliseconds grace) {
  ::kill(id_.pid, SIGTERM);
  int status = 0;
  const bool ended =
      testcluster::wait_until(grace, [&] { return waitpid(id_.pid, &status, WNOHANG) == id_.pid; });
  if (!ended) return std::nullopt;
  id_ = {};
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
bool MusterProcess::alive() const {
  return id_.pid != 0 && testcluster::is_alive(id_);
}
bool MusterProcess::ready() const {
  return testcluster::http_status(health_port_, "/readyz") == 200;
}
std::string MusterProcess::log() const {
  std::ifstream in(log_);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

json job_object(const SimpleJob& job) {
  json role = {{"name", "worker"},
               {"replicas", job.replicas},
               {"template",
                {{"metadata", {{"annotations", job.pod_annotations}}},
                 {"spec",
                  {{"containers",
                    {{{"name", "main"},
                      {"image", "registry.example/train:1"},
                      {"resources", {{"requests", {{"cpu", "1"}, {"memory", "1Gi"}}}}}}}}}}}}};
  if (job.gpus > 0) role["gpus"] = {{"count", job.gpus}};
  json object = {{"apiVersion", "muster.dev/v1alpha1"},
                 {"kind", "TrainingJob"},
                 {"metadata", {{"name", job.name}, {"namespace", job.ns}}},
                 {"spec", {{"roles", {role}}}}};
  object["spec"].merge_patch(job.spec);
  return object;
}

bool full_size() {
  return std::getenv("MUSTER_FULL_SIZE") != nullptr;
}
int number_from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  int value = otherwise;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  return error == std::errc() && at == end ? value : otherwise;
}

std::string path_of_job(const std::string& name, const std::string& ns) {
  return "/apis/muster.dev/v1alpha1/namespaces/" + ns + "/trainingjobs/" + name;
}

std::string path_of_service(const std::string& name) {
  return "/apis/muster.dev/v1alpha1/namespaces/team/inferenceservices/" + name;
}
json service_object(const std::string& name, int replicas, const json& spec,
                    const std::map<std::string, std::string>& annotations) {
  const json main = {{"name", "main"},
                     {"image", "registry.example/serve:1"},
                     {"resources", {{"requests", {{"cpu", "1"}, {"memory", "1Gi"}}}}}};
  json object = {
      {"apiVersion", "muster.dev/v1alpha1"},
      {"kind", "InferenceService"},
      {"metadata", {{"name", name}, {"namespace", "team"}}},
      {"spec",
       {{"replicas", replicas},
        {"gpus", {{"count", 1}}},
        {"template", {{"metadata", {{"annotations", annotations}}}, {"spec", {{"containers", {main}}}}}}}}};
  object["spec"].merge_patch(spec);
  return object;
}

std::unique_ptr<Cluster> Cluster::start_empty(const testcluster::Options& options) {
  auto started = TestCluster::start(options);
  if (!started) throw std::runtime_error(started.error());
  auto cluster = std::make_unique<Cluster>();
  cluster->cluster_ = std::make_unique<TestCluster>(std::move(*started));
  auto& real = *cluster->cluster_;
  if (const auto done = real.apply_without_deployments(MUSTER_SOURCE_DIR "/manifests/base"); !done)
    throw std::runtime_error(done.error());
  const auto kubeconfig = real.service_account_kubeconfig("muster-system", "muster");
  if (!kubeconfig) throw std::runtime_error(kubeconfig.error());
  cluster->kubeconfig_ = *kubeconfig;
  return cluster;
}

std::unique_ptr<Cluster> Cluster::start(int nodes, int gpus_per_node, testcluster::Options options,
                                        int quota) {
  auto cluster = start_empty(options);
  auto& real = *cluster->cluster_;
  if (nodes > 0) {
    testcluster::NodeTemplate node;
    node.count = nodes;
    node.gpus = gpus_per_node;
    const auto added = real.add_nodes(node);
    if (!added) throw std::runtime_error(added.error());
  }
  cluster->make_namespace("team", "team");
  cluster->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: root}
spec: {quota: {gpu: )" +
                 std::to_string(quota) + R"(}}
---
apiVersion: muster.dev/v1alpha1
kind: NodePool
metadata: {name: default}
spec: {nodeSelector: {}, default: true}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: team}
spec: {queue: root, quota: {gpu: )" +
                 std::to_string(quota) + R"(}}
)");
  return cluster;
}

std::unique_ptr<MusterProcess> Cluster::muster(std::vector<std::string> more_arguments, bool wait_for_it) {
  auto process = std::make_unique<MusterProcess>();
  process->health_port_ = testcluster::free_port();
  process->log_ = cluster_->directory() / ("muster-" + std::to_string(next_log_++) + ".log");
  testcluster::ProcessSpec spec;
  const char* other = std::getenv("MUSTER_OPERATOR");
  spec.arguments = {other != nullptr ? other : MUSTER_PROGRAM,
                    "controller",
                    "--kubeconfig",
                    kubeconfig_.string(),
                    "--metrics-address",
                    "127.0.0.1:0",
                    "--health-address",
                    "127.0.0.1:" + std::to_string(process->health_port_),
                    "--status-interval",
                    "1"};
  spec.arguments.insert(spec.arguments.end(), more_arguments.begin(), more_arguments.end());
  spec.log = process->log_;
  const auto id = testcluster::spawn(spec);
  if (!id) throw std::runtime_error(id.error());
  process->id_ = *id;
  if (wait_for_it && !wait(30s, [&] { return process->ready(); })) {
    throw std::runtime_error("muster is not ready:\n" + process->log());
  }
  return process;
}

json Cluster::get(const std::string& path) const {
  const auto answer = cluster_->request("GET", path);
  return answer && answer->ok() ? json::parse(answer->body) : json();
}
json Cluster::job(const std::string& name, const std::string& ns) const {
  return get(path_of_job(name, ns));
}
std::string Cluster::phase(const std::string& name, const std::string& ns) const {
  const json j = job(name, ns);
  return j.is_null() ? "" : j.value("/status/phase"_json_pointer, std::string());
}
std::string Cluster::reason(const std::string& name, const std::string& ns) const {
  const json j = job(name, ns);
  return j.is_null() ? "" : j.value("/status/queue/reason"_json_pointer, std::string());
}
json Cluster::condition(const std::string& name, const std::string& type, const std::string& ns) const {
  return condition_of(path_of_job(name, ns), type);
}
json Cluster::condition_of(const std::string& path, const std::string& type) const {
  const json j = get(path);
  if (j.is_null() || !j.contains("status") || !j["status"].contains("conditions")) return {};
  for (const auto& c : j["status"]["conditions"]) {
    if (c["type"] == type) return c;
  }
  return {};
}
std::vector<json> Cluster::pods(const std::string& job_name, const std::string& ns) const {
  const json list = get("/api/v1/namespaces/" + ns + "/pods?labelSelector=muster.dev%2Fjob%3D" + job_name);
  return list.is_null() ? std::vector<json>{} : list["items"].get<std::vector<json>>();
}
std::vector<json> Cluster::all_pods() const {
  const json list = get("/api/v1/pods");
  return list.is_null() ? std::vector<json>{} : list["items"].get<std::vector<json>>();
}

testcluster::HttpResponse Cluster::try_create(const json& object) {
  static const std::map<std::string, std::string> kPlurals = {{"TrainingJob", "trainingjobs"},
                                                              {"Queue", "queues"},
                                                              {"Project", "projects"},
                                                              {"NodePool", "nodepools"},
                                                              {"InferenceService", "inferenceservices"}};
  const std::string ns = object["metadata"].value("namespace", "");
  const auto answer =
      cluster_->request("POST",
                        "/apis/muster.dev/v1alpha1/" + (ns.empty() ? "" : "namespaces/" + ns + "/") +
                            kPlurals.at(object["kind"]),
                        object.dump());
  if (!answer) throw std::runtime_error(answer.error());
  return *answer;
}
void Cluster::create(const json& object) {
  const auto answer = try_create(object);
  if (!answer.ok()) throw std::runtime_error(answer.body);
}
void Cluster::apply(const std::string& yaml) {
  must(cluster_->kubectl({"apply", "--server-side", "-f", "-"}, yaml));
}
void Cluster::remove(const std::string& path) {
  const auto answer = cluster_->request("DELETE", path);
  if (!answer || (!answer->ok() && answer->status != 404))
    throw std::runtime_error(answer ? answer->body : answer.error());
}
void Cluster::patch(const std::string& path, const json& merge) {
  const auto answer = cluster_->request("PATCH", path, merge.dump(), "application/merge-patch+json");
  if (!answer || !answer->ok()) throw std::runtime_error(answer ? answer->body : answer.error());
}
void Cluster::make_namespace(const std::string& ns, const std::string& project) {
  must(cluster_->kubectl({"create", "namespace", ns}));
  if (!project.empty()) must(cluster_->kubectl({"label", "namespace", ns, "muster.dev/project=" + project}));
  if (!wait(30s, [&] { return !get("/api/v1/namespaces/" + ns + "/serviceaccounts/default").is_null(); })) {
    throw std::runtime_error("no default ServiceAccount in " + ns);
  }
}

bool Cluster::wait(Milliseconds timeout, const std::function<bool()>& done) const {
  return testcluster::wait_until(timeout, done, 50ms);
}
bool Cluster::wait_phase(const std::string& name, const std::string& wanted, Milliseconds timeout,
                         const std::string& ns) const {
  return wait(timeout, [&] { return phase(name, ns) == wanted; });
}
void Cluster::remove_all_jobs() {
  const json jobs = get("/apis/muster.dev/v1alpha1/trainingjobs");
  for (const auto& j : jobs["items"]) remove(path_of_job(j["metadata"]["name"], j["metadata"]["namespace"]));
  if (!wait(60s, [&] { return all_pods().empty(); })) throw std::runtime_error("pods outlive their jobs");
}
void Cluster::catch_up() {
  const std::string name = "catch-up-" + std::to_string(catch_ups_++);
  create(job_object({.name = name, .gpus = 0}));
  if (!wait_phase(name, "Running", 60s))
    throw std::runtime_error("Muster does not catch up: " + job(name).dump(2));
  remove(path_of_job(name));
}

namespace {

// What is given out of one GPU.
struct GivenOut {
  std::string last;                       // who has some of it
  std::int64_t fraction = 0, memory = 0;  // 1/1000 of it; bytes
  int whole = 0, sharers = 0, reservations = 0;
};

// A pod's part of each of its GPUs, as Muster has noted it.
void give_out(const json& pod, GivenOut& gpu) {
  const std::string share =
      pod["metadata"].value("/annotations/muster.dev~1gpu-share"_json_pointer, std::string());
  const auto amount = share.substr(share.find('=') + 1);
  if (pod["metadata"].value("labels", json::object()).contains("muster.dev/gpu-reservation")) {
    ++gpu.reservations;
  } else if (share.starts_with("fraction=")) {
    ++gpu.sharers;
    gpu.fraction += amount.ends_with('m') ? std::stoll(amount) : 1000 * std::stoll(amount);
  } else if (share.starts_with("memory=")) {
    ++gpu.sharers;
    gpu.memory += crds::parse_memory(amount.substr(0, amount.find(','))).value().value;
  } else {
    ++gpu.whole;
  }
  gpu.last = pod["metadata"]["name"];
}

}  // namespace

std::string Cluster::audit_gpus() const {
  std::map<std::string, std::int64_t> capacity, used, memory;
  std::map<std::pair<std::string, std::string>, GivenOut> given;
  const json nodes = get("/api/v1/nodes");
  for (const auto& n : nodes["items"]) {
    const std::string name = n["metadata"]["name"];
    capacity[name] = std::stoll(n["status"]["allocatable"].value("nvidia.com/gpu", "0"));
    const auto mib = n["metadata"].value("/labels/nvidia.com~1gpu.memory"_json_pointer, std::string("0"));
    memory[name] = std::stoll(mib) << 20;
  }
  for (const auto& p : all_pods()) {
    const std::string phase = p["status"].value("phase", "");
    if (phase == "Succeeded" || phase == "Failed") continue;
    const std::string node = p["spec"].value("nodeName", "");
    const std::string name = p["metadata"]["name"];
    for (const auto& c : p["spec"]["containers"]) {
      used[node] += std::stoll(c.value("/resources/limits/nvidia.com~1gpu"_json_pointer, std::string("0")));
    }
    std::istringstream list(p["metadata"].value("/annotations/muster.dev~1gpus"_json_pointer, std::string()));
    for (std::string gpu; std::getline(list, gpu, ',');) {
      auto& gives = given[{node, gpu}];
      const std::string before = gives.last;
      give_out(p, gives);
      const int kinds = gives.whole + (gives.sharers + gives.reservations > 0 ? 1 : 0);
      if (kinds > 1) return "GPU " + gpu + " of node " + node + " is given to " + before + " and " + name;
    }
  }
  for (const auto& [at, gives] : given) {
    const std::string gpu = "GPU " + at.second + " of node " + at.first;
    if (gives.fraction > 1000 || gives.memory > memory[at.first]) return gpu + " is given out twice";
    if (gives.sharers > 0 && gives.reservations != 1) return gpu + " is shared, and not held";
  }
  for (const auto& [node, n] : used) {
    if (n > capacity[node])
      return "node " + node + " has " + std::to_string(capacity[node]) + " GPUs, given out " +
             std::to_string(n);
  }
  return {};
}

void OneCluster::TearDownTestSuite() {
  muster_.reset();
  cluster_.reset();
}

void OneCluster::TearDown() {
  if (HasFailure() && muster_) std::cerr << muster_->log().substr(0, 20000);
  cluster_->remove_all_jobs();
  EXPECT_TRUE(muster_->alive());
}

}  // namespace muster::test
