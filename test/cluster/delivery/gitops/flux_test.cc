// Flux's own kustomize-controller beside a Muster that runs: the shipped Kustomizations, of a source that
// this test serves in place of Flux's source-controller.
#include "controllers.h"

namespace muster::test {
namespace {

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

class Flux : public WithControllers {
 protected:
  void SetUp() override {
    start_with("flux", "flux-system");
    cluster_->apply(source_kind("GitRepository", "gitrepositories") +
                    source_kind("OCIRepository", "ocirepositories") + source_kind("Bucket", "buckets") +
                    source_kind("ExternalArtifact", "externalartifacts"));
    wait_for_crds();
    port_ = testcluster::free_port();
    fs::create_directories(served());
    spawn({"python3", "-m", "http.server", std::to_string(port_), "--bind", "127.0.0.1", "--directory",
           served().string()},
          "source.log");
    spawn({tool_, "--metrics-addr=0", "--health-addr=0", "--requeue-dependency=1s"}, "flux.log",
          {{"RUNTIME_NAMESPACE", "flux-system"}});
  }

  fs::path served() const { return directory() / "served"; }
  // The shipped samples as commit `revision`.
  void publish(const std::string& revision, const Edits& edits = {}) {
    const fs::path tree = directory() / ("git-" + revision);
    write_samples(tree, edits);
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
  std::string say(const std::string& name) const { return cluster_->get(kIn + name)["status"].dump(1); }

  int port_ = 0, asked_ = 0;
};

TEST_F(Flux, TheSamplesAreAppliedInTheirOrderAndAJobThatWaitsHoldsNothingUp) {
  publish("1");
  kubectl({"apply", "-f", manifests("gitops/samples/flux-kustomizations.yaml")});
  ASSERT_TRUE(is_ready("gpu-tree", "1")) << say("gpu-tree");
  ASSERT_TRUE(is_ready("gpu-jobs", "1")) << say("gpu-jobs");
  EXPECT_EQ(cluster_->phase("llama", "nlp"), "Queued") << "it asks for more than there is";
  EXPECT_EQ(cluster_->condition_of(kService, "RolledOut")["status"], "True");
  const auto replicas = uids();
  EXPECT_EQ(replicas.size(), 2u);

  // What git does not state stays as people have set it; what it states comes back.
  muster({"suspend", "llama"});
  kubectl({"patch", "trainingjob/llama", "-n", "nlp", "--type=merge", "--field-manager=kubectl-muster", "-p",
           R"({"spec": {"maxRuntime": "1h"}})"});
  muster({"scale", "chat", "3"});
  reconcile("gpu-jobs");
  EXPECT_EQ(spec_of(kJob)["suspend"], true);
  EXPECT_FALSE(spec_of(kJob).contains("maxRuntime")) << "written under a name that begins with kubectl";
  EXPECT_EQ(spec_of(kService)["replicas"], 2);
  publish("2", {{"framework: PyTorch", "framework: PyTorch\n  suspend: true"}});
  ASSERT_TRUE(is_ready("gpu-jobs", "2")) << say("gpu-jobs");
  EXPECT_EQ(cluster_->phase("llama", "nlp"), "Suspended");
  muster({"resume", "llama"});
  reconcile("gpu-jobs");
  EXPECT_EQ(spec_of(kJob)["suspend"], true);

  // A job that can never run ends the wait at once.
  publish("3", {{"framework: PyTorch", "framework: PyTorch\n  priorityClassName: no-such-class"}});
  ASSERT_TRUE(comes_to("gpu-jobs", "False", "HealthCheckFailed", "3")) << say("gpu-jobs");
  EXPECT_THAT(cluster_->condition_of(kIn + "gpu-jobs", "Ready")["message"].get<std::string>(),
              HasSubstr("TrainingJob/nlp/llama"));

  // What is no longer in git goes, and nothing of what Muster made for the rest.
  publish("4", {{"name: llama", "name: other"}});
  ASSERT_TRUE(cluster_->wait(60s, [&] { return cluster_->get(kJob).is_null(); })) << say("gpu-jobs");
  EXPECT_EQ(uids(), replicas);
}

}  // namespace
}  // namespace muster::test
