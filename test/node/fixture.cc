#include "fixture.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "muster/testcluster/loopback.h"

namespace muster::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTestImage = "docker.io/library/muster-test:1";

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

bool is_older(const fs::path& file, const fs::path& than) {
  return !fs::exists(file) || fs::last_write_time(file) < fs::last_write_time(than);
}

}  // namespace

// Afresh when what they are made from has changed: Muster's at each build, the other one hardly ever.
void NodeCluster::build_images() {
  const std::string source = MUSTER_SOURCE_DIR, script = source + "/scripts/oci-image.sh";
  if (is_older(archive("muster"), MUSTER_PROGRAM) || is_older(archive("muster"), script))
    run({source + "/scripts/make-image.sh", MUSTER_PROGRAM, archive("muster")});
  if (is_older(archive("test"), script))
    run({script, archive("test"), kTestImage, "--cmd", "/bin/busybox", "--cmd", "sleep", "--cmd",
         "2147483647", "/bin/busybox", "/bin/busybox=/bin/sh", "/usr/bin/python3", "/usr/lib/python3.11"});
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

void NodeCluster::make_storage() {
  state_ = cluster_->real().directory() / "state";
  fs::create_directory(state_);
  fs::permissions(state_, fs::perms::all);
  cluster_->apply(R"(
apiVersion: v1
kind: PersistentVolume
metadata: {name: ckpts}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  hostPath: {path: )" +
                  state_.string() + R"(}
  claimRef: {namespace: team, name: ckpts}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ckpts, namespace: team}
spec: {accessModes: [ReadWriteMany], storageClassName: "", volumeName: ckpts, resources: {requests: {storage: 1Gi}}}
)");
  const std::string source = MUSTER_SOURCE_DIR;
  kubectl({"-n", "team", "create", "configmap", "train", "--from-file=" + source + "/test/node/train.py",
           "--from-file=" + source + "/python/muster_checkpoint.py"});
}

std::unique_ptr<NodeCluster> NodeCluster::start() {
  auto result = std::make_unique<NodeCluster>();
  result->build_images();
  testcluster::Options options;
  options.with_kwok = false;
  result->cluster_ = Cluster::start(0, 0, testcluster::for_real_nodes(options));
  auto& real = result->cluster_->real();
  auto node = testcluster::RealNode::start(
      real, {.name = "real-0", .images = {archive("muster"), archive("test")}, .sandbox_image = kTestImage});
  if (!node) throw std::runtime_error(node.error());
  result->node_ = std::make_unique<testcluster::RealNode>(std::move(*node));
  result->start_scheduler();
  result->make_storage();
  result->kubectl({"apply", "--server-side", "-k", MUSTER_SOURCE_DIR "/manifests/base"});
  result->kubectl({"-n", "muster-system", "rollout", "status", "deployment/muster", "--timeout=60s"});
  return result;
}

NodeCluster::~NodeCluster() {
  testcluster::end_process(scheduler_, 3s);
}

json NodeCluster::train_job(const SimpleJob& job,
                            const std::map<std::string, std::string>& environment) const {
  json object = job_object(job);
  object["spec"].merge_patch({{"checkpoint", {{"claimName", "ckpts"}, {"mountPath", "/ckpt"}}}});
  object["spec"].merge_patch(job.spec);
  json& pod = object["spec"]["roles"][0]["template"]["spec"];
  json& container = pod["containers"][0];
  container["image"] = kTestImage;
  container["command"] = {"python3", "/train/train.py"};
  container["resources"] = {{"requests", {{"cpu", "10m"}, {"memory", "32Mi"}}}};
  container["env"] = {{{"name", "STATE"}, {"value", "/ckpt"}}};
  for (const auto& [name, value] : environment)
    container["env"].push_back({{"name", name}, {"value", value}});
  container["volumeMounts"] = {{{"name", "train"}, {"mountPath", "/train"}}};
  container["readinessProbe"] = {{"exec", {{"command", {"/bin/sh", "-c", "test -f /tmp/ready"}}}},
                                 {"periodSeconds", 1}};
  pod["volumes"] = {{{"name", "train"}, {"configMap", {{"name", "train"}}}}};
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
  const json jobs = cluster_->get("/apis/muster.dev/v1alpha1/trainingjobs");
  for (const json& job : jobs["items"])
    cluster_->patch(path_of_job(job["metadata"]["name"], job["metadata"]["namespace"]),
                    {{"spec", {{"suspend", true}}}});
  const bool gone = cluster_->wait(60s, [&] {
    const json pods = cluster_->get("/api/v1/namespaces/team/pods?labelSelector=muster.dev%2Fjob");
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

}  // namespace muster::test
