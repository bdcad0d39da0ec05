// Flux's own kustomize-controller beside a Muster that runs: the shipped Kustomizations, of a source that
// this test serves in place of Flux's source-controller.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "delivery.h"
#include "muster/testcluster/loopback.h"

namespace muster::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kIn = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/";
const std::string kSource = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/gpu";

// Of source-controller's kinds only what the other controller reads: nobody but this test writes them.
std::string source_kind(const std::string& kind, const std::string& plural) {
  return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + plural +
         ".source.toolkit.fluxcd.io}\nspec:\n  group: source.toolkit.fluxcd.io\n  scope: Namespaced\n  "
         "names: {kind: " +
         kind + ", plural: " + plural +
         "}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n" +
         "    subresources: {status: {}}\n    schema:\n      openAPIV3Schema: {type: object, "
         "x-kubernetes-preserve-unknown-fields: true}\n---\n";
}

class Flux : public testing::Test {
 protected:
  void SetUp() override {
    cluster_ = Cluster::start_empty();
    testcluster::NodeTemplate nodes;
    nodes.count = 2;
    ASSERT_TRUE(cluster_->real().add_nodes(nodes));
    muster_ = cluster_->muster();
    for (const auto& file : fs::directory_iterator(fs::path(built("flux")).parent_path()))
      if (file.path().extension() == ".yaml") kubectl({"apply", "--server-side", "-f", file.path()});
    cluster_->apply(source_kind("GitRepository", "gitrepositories") +
                    source_kind("OCIRepository", "ocirepositories") + source_kind("Bucket", "buckets") +
                    source_kind("ExternalArtifact", "externalartifacts"));
    kubectl({"wait", "--for=condition=Established", "crd", "--all"});
    cluster_->make_namespace("flux-system");
    port_ = testcluster::free_port();
    fs::create_directories(served());
    server_ = spawn({"python3", "-m", "http.server", std::to_string(port_), "--bind", "127.0.0.1",
                     "--directory", served().string()},
                    "source.log");
    controller_ = spawn({built("flux"), "--metrics-addr=0", "--health-addr=0", "--requeue-dependency=1s",
                         "--log-level=debug"},
                        "flux.log");
  }
  void TearDown() override {
    if (HasFailure())
      std::cerr << testcluster::tail(directory() / "flux.log", 60) << (muster_ ? muster_->log() : "");
    for (const auto& process : {controller_, server_})
      if (process.pid != 0) testcluster::end_process(process, 5s);
  }

  fs::path directory() const { return cluster_->real().directory(); }
  fs::path served() const { return directory() / "served"; }
  std::string kubectl(std::vector<std::string> arguments) const {
    const auto done = cluster_->real().kubectl(std::move(arguments));
    EXPECT_TRUE(done && done->ok()) << (done ? done->out + done->err : done.error());
    return done ? done->out : "";
  }
  testcluster::ProcessId spawn(std::vector<std::string> arguments, const std::string& log) const {
    testcluster::ProcessSpec spec;
    spec.arguments = std::move(arguments);
    spec.environment = {{"KUBECONFIG", cluster_->real().kubeconfig()}, {"RUNTIME_NAMESPACE", "flux-system"}};
    spec.log = directory() / log;
    const auto id = testcluster::spawn(spec);
    if (!id) throw std::runtime_error(id.error());
    return *id;
  }

  // The shipped samples as commit `revision`, with `now` in place of `was` in jobs.yaml.
  void publish(const std::string& revision, const std::string& was = "", const std::string& now = "") {
    const fs::path tree = directory() / ("git-" + revision);
    fs::copy(manifests("gitops/samples"), tree, fs::copy_options::recursive);
    fs::remove(tree / "argocd-application.yaml");
    fs::remove(tree / "flux-kustomizations.yaml");
    const fs::path jobs = tree / "jobs" / "jobs.yaml";
    std::ifstream in(jobs);
    std::string text(std::istreambuf_iterator<char>(in), {});
    const auto at = text.find(was);
    ASSERT_NE(at, std::string::npos) << was;
    std::ofstream(jobs) << text.replace(at, was.size(), now);
    const std::string name = revision + ".tar.gz";
    run({"tar", "-czf", served() / name, "-C", tree, "."});
    const std::string digest = run({"sha256sum", served() / name}).substr(0, 64);
    if (cluster_->get(kSource).is_null())
      cluster_->apply(
          "{apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, metadata: {name: gpu, namespace: "
          "flux-system}, spec: {interval: 1h, url: \"https://git.example/gpu.git\"}}");
    const json artifact = {{"path", name},
                           {"url", "http://127.0.0.1:" + std::to_string(port_) + "/" + name},
                           {"revision", "main@sha1:" + revision},
                           {"digest", "sha256:" + digest},
                           {"lastUpdateTime", "2026-01-01T00:00:00Z"}};
    const json ready = {{"type", "Ready"},
                        {"status", "True"},
                        {"reason", "Succeeded"},
                        {"message", ""},
                        {"lastTransitionTime", "2026-01-01T00:00:00Z"}};
    const json status = {{"status", {{"artifact", artifact}, {"conditions", {ready}}}}};
    const auto said =
        cluster_->real().request("PATCH", kSource + "/status", status.dump(), "application/merge-patch+json");
    ASSERT_TRUE(said && said->ok()) << (said ? said->body : said.error());
  }
  bool comes_to(const std::string& name, const std::string& status, const std::string& reason,
                const std::string& revision) const {
    return cluster_->wait(90s, [&] {
      const json ready = cluster_->condition_of(kIn + name, "Ready");
      return !ready.is_null() && ready["status"] == status && ready["reason"] == reason &&
             cluster_->get(kIn + name)["status"].value("lastAttemptedRevision", "") ==
                 "main@sha1:" + revision;
    });
  }
  bool is_ready(const std::string& name, const std::string& revision) const {
    return comes_to(name, "True", "ReconciliationSucceeded", revision);
  }
  // Looks again now, as after its interval.
  void reconcile(const std::string& name) {
    const std::string token = std::to_string(++asked_);
    cluster_->patch(kIn + name,
                    {{"metadata", {{"annotations", {{"reconcile.fluxcd.io/requestedAt", token}}}}}});
    EXPECT_TRUE(cluster_->wait(60s, [&] {
      return cluster_->get(kIn + name)["status"].value("lastHandledReconcileAt", "") == token;
    })) << say(name);
  }
  void muster(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {MUSTER_PLUGIN, "--kubeconfig", cluster_->real().kubeconfig(), "-n", "nlp"});
    run(std::move(arguments));
  }
  std::string say(const std::string& name) const { return cluster_->get(kIn + name)["status"].dump(1); }
  json spec_of(const std::string& path) const { return cluster_->get(path)["spec"]; }

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<MusterProcess> muster_;
  testcluster::ProcessId server_, controller_;
  int port_ = 0, asked_ = 0;
};

const std::string kJob = path_of_job("llama", "nlp");
const std::string kService = "/apis/muster.dev/v1alpha1/namespaces/nlp/inferenceservices/chat";

TEST_F(Flux, TheSamplesAreAppliedInTheirOrderAndAJobThatWaitsHoldsNothingUp) {
  publish("1");
  kubectl({"apply", "-f", manifests("gitops/samples/flux-kustomizations.yaml")});
  ASSERT_TRUE(is_ready("gpu-tree", "1")) << say("gpu-tree");
  ASSERT_TRUE(is_ready("gpu-jobs", "1")) << say("gpu-jobs");
  EXPECT_EQ(cluster_->phase("llama", "nlp"), "Queued") << "it asks for more than there is";
  EXPECT_EQ(cluster_->condition_of(kService, "RolledOut")["status"], "True");
  const json served_by = cluster_->get("/api/v1/namespaces/nlp/pods");

  // What git does not state stays as people have set it; what it states comes back.
  muster({"suspend", "llama"});
  kubectl({"patch", "trainingjob/llama", "-n", "nlp", "--type=merge", "--field-manager=kubectl-muster", "-p",
           R"({"spec": {"maxRuntime": "1h"}})"});
  muster({"scale", "chat", "3"});
  reconcile("gpu-jobs");
  EXPECT_EQ(spec_of(kJob)["suspend"], true);
  EXPECT_FALSE(spec_of(kJob).contains("maxRuntime")) << "written under a name that begins with kubectl";
  EXPECT_EQ(spec_of(kService)["replicas"], 2);
  publish("2", "framework: PyTorch", "framework: PyTorch\n  suspend: true");
  ASSERT_TRUE(is_ready("gpu-jobs", "2")) << say("gpu-jobs");
  EXPECT_EQ(cluster_->phase("llama", "nlp"), "Suspended");
  muster({"resume", "llama"});
  reconcile("gpu-jobs");
  EXPECT_EQ(spec_of(kJob)["suspend"], true);

  // A job that can never run ends the wait at once.
  publish("3", "framework: PyTorch", "framework: PyTorch\n  priorityClassName: no-such-class");
  ASSERT_TRUE(comes_to("gpu-jobs", "False", "HealthCheckFailed", "3")) << say("gpu-jobs");
  EXPECT_THAT(cluster_->condition_of(kIn + "gpu-jobs", "Ready")["message"].get<std::string>(),
              HasSubstr("TrainingJob/nlp/llama"));

  // What is no longer in git goes, and nothing of what Muster made for the rest.
  publish("4", "name: llama", "name: other");
  ASSERT_TRUE(cluster_->wait(60s, [&] { return cluster_->get(kJob).is_null(); })) << say("gpu-jobs");
  for (const auto& pod : served_by["items"]) {
    const std::string path = "/api/v1/namespaces/nlp/pods/" + pod["metadata"]["name"].get<std::string>();
    EXPECT_EQ(cluster_->get(path)["metadata"]["uid"], pod["metadata"]["uid"]);
  }
  EXPECT_EQ(served_by["items"].size(), 2u);
}

}  // namespace
}  // namespace muster::test
