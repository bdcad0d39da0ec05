#include "fixture.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

#include "muster/testcluster/loopback.h"

namespace muster::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTestImage = "docker.io/library/muster-test:1";
constexpr const char* kSimulated = "test.muster.dev/simulated";

fs::path archive(const std::string& name) {
  return fs::path(MUSTER_IMAGES) / (name + ".tar");
}

void run(std::vector<std::string> arguments) {
  const std::string program = arguments[0];
  testcluster::ProcessSpec spec;
  spec.arguments = std::move(arguments);
  const auto result = testcluster::run_command(spec, {}, 120s);
  if (!result) throw std::runtime_error(result.error());
  if (!result->ok()) throw std::runtime_error(program + ": " + result->out + result->err);
}

// What Python packages with compiled parts expect of a machine beside what Python itself needs.
std::vector<std::string> libraries_of_wheels() {
  std::vector<std::string> result;
  for (const auto& folder : fs::directory_iterator("/usr/lib"))
    for (const char* name :
         {"libstdc++.so.6", "libgcc_s.so.1", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libutil.so.1"})
      if (folder.path().string().ends_with("-linux-gnu") && fs::exists(folder.path() / name))
        result.push_back(folder.path() / name);
  return result;
}

bool is_older(const fs::path& file, const fs::path& than) {
  return !fs::exists(file) || fs::last_write_time(file) < fs::last_write_time(than);
}

}  // namespace

std::string lost_work(const std::vector<TrainEvent>& events) {
  int saved = 0;
  for (const TrainEvent& event : events) {
    const std::string where = " in attempt " + std::to_string(event.attempt);
    if (event.what == "saved") saved = event.step();
    if (event.what == "start" && event.step() != saved)
      return "started from " + event.value + where + ", saved was " + std::to_string(saved);
    if (event.what == "step" && event.step() <= saved)
      return "step " + event.value + " was computed" + where + ", saved was " + std::to_string(saved);
  }
  return {};
}

json on_simulated_nodes() {
  return {{"nodeSelector", {{kSimulated, "true"}}},
          {"tolerations", {{{"key", kSimulated}, {"operator", "Exists"}}}}};
}

// Afresh when what they are made from has changed: Muster's at each build, the other one hardly ever.
void NodeCluster::build_images() {
  const std::string source = MUSTER_SOURCE_DIR, script = source + "/scripts/oci-image.sh";
  if (is_older(archive("muster"), MUSTER_PROGRAM) || is_older(archive("muster"), script))
    run({source + "/scripts/make-image.sh", MUSTER_PROGRAM, archive("muster")});
  if (is_older(archive("test"), script) || is_older(archive("test"), source + "/test/node/fixture.cc")) {
    std::vector<std::string> make = {script,
                                     archive("test"),
                                     kTestImage,
                                     "--cmd",
                                     "/bin/busybox",
                                     "--cmd",
                                     "sleep",
                                     "--cmd",
                                     "2147483647",
                                     "/bin/busybox",
                                     "/bin/busybox=/bin/sh",
                                     "/usr/bin/python3",
                                     "/usr/lib/python3.11"};
    for (const std::string& library : libraries_of_wheels()) make.push_back(library);
    run(make);
  }
}

void NodeCluster::start_scheduler() {
  auto& real = cluster_->real();
  testcluster::ProcessSpec spec;
  spec.arguments = {real.controlplane(),
                    "kube-scheduler",
                    "--kubeconfig=" + real.kubeconfig().string(),
                    "--leader-elect=false",
                    "--bind-address=127.0.0.1",
                    "--secure-port=" + std::to_string(testcluster::free_port()),
                    "--cert-dir=" + (real.directory() / "pki").string()};
  spec.log = real.directory() / "logs/kube-scheduler.log";
  const auto id = testcluster::spawn(spec);
  if (!id) throw std::runtime_error(id.error());
  scheduler_ = *id;
}

void NodeCluster::make_projects() {
  cluster_->make_namespace("owner", "owner");
  cluster_->apply(R"(
{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: root}, spec: {quota: {gpu: 4}}}
---
{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: owner}, spec: {queue: root, quota: {gpu: 4}}}
)");
}

void NodeCluster::add_simulated_nodes() {
  testcluster::NodeTemplate node;
  node.prefix = "simulated";
  node.count = 2;
  node.labels = {{kSimulated, "true"}};
  node.taints = {{.key = kSimulated, .value = "true"}};
  if (const auto added = cluster_->real().add_nodes(node); !added) throw std::runtime_error(added.error());
}

// One folder of the machine for all namespaces: a test reads it from outside.
void NodeCluster::make_storage() {
  state_ = cluster_->real().directory() / "state";
  fs::create_directory(state_);
  fs::permissions(state_, fs::perms::all);
  const std::string source = MUSTER_SOURCE_DIR;
  for (const std::string ns : {"team", "owner"}) {
    cluster_->apply(R"(
apiVersion: v1
kind: PersistentVolume
metadata: {name: ckpts-)" +
                    ns + R"(}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  hostPath: {path: )" +
                    state_.string() + R"(}
  claimRef: {namespace: )" +
                    ns + R"(, name: ckpts}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ckpts, namespace: )" +
                    ns + R"(}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: ckpts-)" +
                    ns + R"(
  resources: {requests: {storage: 1Gi}}
)");
    std::vector<std::string> create = {"-n", ns, "create", "configmap", "programs"};
    for (const char* program : {"test/node/programs/train.py", "test/node/programs/torch_train.py",
                                "test/node/programs/serve.py", "python/muster_checkpoint.py"})
      create.push_back("--from-file=" + source + "/" + program);
    kubectl(create);
  }
}

std::unique_ptr<NodeCluster> NodeCluster::start() {
  auto result = std::make_unique<NodeCluster>();
  result->build_images();
  result->cluster_ = Cluster::start(0, 0, testcluster::for_real_nodes({}), 0);
  result->node_ = std::make_unique<testcluster::RealNode>(result->start_real_node(0));
  result->add_simulated_nodes();
  result->start_scheduler();
  result->make_projects();
  result->make_storage();
  result->kubectl({"apply", "--server-side", "-k", MUSTER_SOURCE_DIR "/test/node/muster"});
  result->kubectl({"-n", "muster-system", "rollout", "status", "deployment/muster", "--timeout=60s"});
  return result;
}

testcluster::RealNode NodeCluster::start_real_node(int number, testcluster::RealNodeOptions options) {
  options.name = "real-" + std::to_string(number);
  options.number = number;
  options.images = {archive("muster"), archive("test")};
  options.sandbox_image = kTestImage;
  auto node = testcluster::RealNode::start(cluster_->real(), options);
  if (!node) throw std::runtime_error(node.error());
  return std::move(*node);
}

NodeCluster::~NodeCluster() {
  testcluster::end_process(scheduler_, 3s);
}

json NodeCluster::container(const std::string& program,
                            const std::map<std::string, std::string>& environment) {
  json result = {{"name", "main"},
                 {"image", kTestImage},
                 {"command", {"python3", "/programs/" + program}},
                 {"resources", {{"requests", {{"cpu", "10m"}, {"memory", "32Mi"}}}}},
                 {"env", json::array()},
                 {"volumeMounts", {{{"name", "programs"}, {"mountPath", "/programs"}}}}};
  for (const auto& [name, value] : environment) result["env"].push_back({{"name", name}, {"value", value}});
  return result;
}

json NodeCluster::volumes() {
  return {{{"name", "programs"}, {"configMap", {{"name", "programs"}}}}};
}

json NodeCluster::train_job(const SimpleJob& job, std::map<std::string, std::string> environment) {
  json object = job_object(job);
  object["spec"].merge_patch({{"checkpoint", {{"claimName", "ckpts"}, {"mountPath", "/ckpt"}}}});
  object["spec"].merge_patch(job.spec);
  environment.emplace("STATE", "/ckpt");
  json main = container("train.py", environment);
  main["readinessProbe"] = {{"exec", {{"command", {"/bin/sh", "-c", "test -f /tmp/ready"}}}},
                            {"periodSeconds", 1}};
  json& pod = object["spec"]["roles"][0]["template"]["spec"];
  pod["containers"] = json::array({main});
  pod["volumes"] = volumes();
  return object;
}

std::vector<TrainEvent> NodeCluster::events(const std::string& job) const {
  std::vector<TrainEvent> result;
  std::ifstream in(state_ / job / "log");
  for (TrainEvent event; in >> event.attempt >> event.what >> event.value;) result.push_back(event);
  return result;
}

std::vector<TrainEvent> NodeCluster::events(const std::string& job, const std::string& what) const {
  auto result = events(job);
  std::erase_if(result, [&](const TrainEvent& event) { return event.what != what; });
  return result;
}

void NodeCluster::stop_jobs() {
  kubectl({"delete", "isvc", "--all", "--all-namespaces"});
  const json jobs = cluster_->get("/apis/muster.dev/v1alpha1/trainingjobs");
  for (const json& job : jobs["items"])
    if (!job["metadata"].contains("ownerReferences"))
      cluster_->patch(path_of_job(job["metadata"]["name"], job["metadata"]["namespace"]),
                      {{"spec", {{"suspend", true}}}});
  const bool gone = cluster_->wait(90s, [&] {
    const json pods = cluster_->get("/api/v1/pods?labelSelector=muster.dev%2Fjob");
    return std::ranges::none_of(pods["items"], [](const json& pod) {
      const std::string phase = pod["status"].value("phase", "");
      return phase == "Running" || phase == "Pending";
    });
  });
  if (!gone) throw std::runtime_error("pods outlive their jobs");
}

std::string NodeCluster::muster_log() const {
  return kubectl(
      {"-n", "muster-system", "logs", "-l", "app.kubernetes.io/name=muster", "--tail=200", "--prefix"});
}

std::string NodeCluster::kubectl(std::vector<std::string> arguments, const std::string& input) const {
  const auto result = cluster_->real().kubectl(std::move(arguments), input, 90s);
  if (!result) throw std::runtime_error(result.error());
  if (!result->ok()) throw std::runtime_error(result->err);
  return result->out;
}

// Not left to the end of the process: what a cluster needs to end must still be there.
class Node::End : public testing::Environment {
  void TearDown() override { nodes_.reset(); }
};

void Node::SetUpTestSuite() {
  if (std::exchange(begun_, true)) return;
  if (const auto possible = testcluster::enter_node_network(); !possible) {
    impossible_ = possible.error();
    return;
  }
  testing::AddGlobalTestEnvironment(new End);
  nodes_ = NodeCluster::start();
}

void Node::SetUp() {
  if (!impossible_.empty()) GTEST_SKIP() << impossible_;
  ASSERT_TRUE(nodes_) << "it has not started";
}

void Node::TearDown() {
  if (!nodes_) return;
  if (HasFailure()) {
    for (const json& job : cluster().get("/apis/muster.dev/v1alpha1/trainingjobs")["items"]) {
      const std::string name = job["metadata"]["name"];
      for (const TrainEvent& event : nodes_->events(name))
        if (event.what != "step")
          std::cerr << name << ": " << event.attempt << ' ' << event.what << ' ' << event.value << '\n';
    }
    std::cerr << nodes_->muster_log() << nodes_->kubectl({"get", "pods,tj,isvc", "-A", "-o", "wide"});
  }
  nodes_->stop_jobs();
  EXPECT_TRUE(nodes_->node().running());
}

}  // namespace muster::test
