// Argo CD's own application controller and repo server beside a Muster that runs: the shipped Application, of
// a git repository on this machine.
#include "controllers.h"

namespace muster::test {
namespace {

const std::string kApplication = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/gpu-work";

class ArgoCD : public WithControllers {
 protected:
  void SetUp() override {
    start_with("argocd", "argocd");
    wait_for_crds();
    kubectl({"-n", "argocd", "apply", "--server-side", "--field-manager=muster-health", "-k",
             manifests("gitops/argocd")});
    cluster_->apply(R"(
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
stringData: {server.secretkey: nobody-logs-in}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
)");
    run({"git", "init", "--quiet", "--initial-branch=main", repository()});
    const std::string redis = address(), server = address();
    const std::vector<std::pair<std::string, std::string>> environment = {{"PATH", path_with_programs()},
                                                                          {"HOME", directory()},
                                                                          {"ARGOCD_GPG_ENABLED", "false"},
                                                                          {"ARGOCD_FAKE_IN_CLUSTER", "true"}};
    spawn({tool_, "redis", redis}, "redis.log");
    spawn(
        {tool_, "repo-server", "--redis", redis, "--disable-tls", "--client-ca-path=", "--address=127.0.0.1",
         "--port", port_of(server), "--metrics-address=127.0.0.1", "--metrics-port", port_of(address())},
        "repo-server.log", environment);
    spawn({tool_, "application-controller", "--namespace=argocd", "--kubeconfig",
           cluster_->real().kubeconfig(), "--redis", redis, "--repo-server", server,
           "--repo-server-plaintext", "--metrics-port", port_of(address()), "--self-heal-timeout-seconds=1"},
          "application-controller.log", environment);
  }

  fs::path repository() const { return directory() / "gpu.git"; }
  std::string address() {
    ports_.push_back(testcluster::free_port(ports_));
    return "127.0.0.1:" + std::to_string(ports_.back());
  }
  static std::string port_of(const std::string& address) { return address.substr(address.find(':') + 1); }
  // Programs that Argo CD's image has: kubectl has a kustomize in it, and no commit here is signed.
  std::string path_with_programs() const {
    const fs::path bin = directory() / "bin";
    fs::create_directories(bin);
    const auto add = [&](const std::string& name, const std::string& script) {
      std::ofstream(bin / name) << "#!/bin/sh\n" << script;
      fs::permissions(bin / name, fs::perms::owner_all);
    };
    add("kustomize", "case $1 in\nbuild) shift; exec " + cluster_->real().controlplane().string() +
                         " kubectl kustomize \"$@\" ;;\nversion) echo v5.8.1 ;;\n*) exit 1 ;;\nesac\n");
    add("git-verify-wrapper.sh", "");
    return bin.string() + ":" + std::getenv("PATH");
  }

  void publish(const Edits& edits) {
    write_samples(repository(), edits);
    const auto git = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), {"git", "-C", repository(), "-c", "user.name=test", "-c",
                                           "user.email=test@example.org"});
      return run(std::move(arguments));
    };
    git({"add", "--all"});
    git({"commit", "--quiet", "--message", edits.front().second});
    revision_ = git({"rev-parse", "HEAD"}).substr(0, 40);
    if (!cluster_->get(kApplication).is_null()) refresh();
  }
  // Looks at git and at the cluster now, and compares.
  void refresh() {
    cluster_->patch(kApplication,
                    {{"metadata", {{"annotations", {{"argocd.argoproj.io/refresh", "hard"}}}}}});
    EXPECT_TRUE(cluster_->wait(60s, [&] {
      return !cluster_->get(kApplication)["metadata"]
                  .value("annotations", json::object())
                  .contains("argocd.argoproj.io/refresh");
    })) << say();
  }
  void apply_application() {
    std::ifstream in(manifests("gitops/samples/argocd-application.yaml"));
    std::string text(std::istreambuf_iterator<char>(in), {});
    const std::string address = "https://git.example/gpu.git";
    for (auto at = text.find(address); at != std::string::npos; at = text.find(address))
      text.replace(at, address.size(), "file://" + repository().string());
    cluster_->apply(text);
  }
  // Of the commit that was published last.
  bool comes_to(const std::string& health, const std::string& phase) const {
    return cluster_->wait(90s, [&] {
      const json status = cluster_->get(kApplication).value("status", json::object());
      const json revisions = status.value("/operationState/syncResult/revisions"_json_pointer, json::array());
      return !revisions.empty() && revisions[0] == revision_ &&
             (phase.empty() || status.value("/operationState/phase"_json_pointer, "") == phase) &&
             status.value("/health/status"_json_pointer, "") == health;
    });
  }
  std::string sync() const { return cluster_->get(kApplication)["status"]["sync"].value("status", ""); }
  std::string say() const { return cluster_->get(kApplication)["status"].dump(1); }

  std::string revision_;
  std::vector<int> ports_;
};

TEST_F(ArgoCD, WavesComeToTheirEndAndWhatPeopleSetStays) {
  // Four waves, and in the third one a job that waits for somebody. (The last wave is not waited for.)
  const std::string wave = "name: chat\n  annotations: {argocd.argoproj.io/sync-wave: ";
  publish({{"framework: PyTorch", "framework: PyTorch\n  suspend: true"}, {wave + "\"2\"", wave + "\"3\""}});
  apply_application();
  ASSERT_TRUE(comes_to("Healthy", "Succeeded")) << say();
  EXPECT_TRUE(cluster_->wait(30s, [&] { return sync() == "Synced"; })) << say();
  EXPECT_EQ(cluster_->phase("llama", "nlp"), "Suspended");
  EXPECT_TRUE(
      cluster_->wait(60s, [&] { return cluster_->condition_of(kService, "RolledOut")["status"] == "True"; }));

  // Neither is a difference, so self-healing has nothing to heal.
  muster({"resume", "llama"});
  ASSERT_TRUE(cluster_->wait_phase("llama", "Queued", 30s, "nlp")) << "it asks for more than there is";
  muster({"scale", "chat", "3"});
  ASSERT_TRUE(cluster_->wait(60s, [&] { return uids().size() == 3; }));
  const auto replicas = uids();
  refresh();
  EXPECT_EQ(sync(), "Synced") << say();
  // Another edit is synced, and leaves both alone.
  publish({{"framework: PyTorch", "framework: PyTorch\n  suspend: true\n  maxRuntime: 1h"}});
  ASSERT_TRUE(comes_to("Healthy", "Succeeded")) << say();
  EXPECT_EQ(spec_of(kJob)["maxRuntime"], "1h");
  EXPECT_EQ(spec_of(kJob)["suspend"], false);
  EXPECT_EQ(spec_of(kService)["replicas"], 3);

  // A job that can never run is a failure, and holds up no further commit. (Whether the sync itself fails
  // depends on how it came: self-healing of one object waits for nothing.)
  publish({{"framework: PyTorch", "framework: PyTorch\n  priorityClassName: no-such-class"}});
  ASSERT_TRUE(comes_to("Degraded", "")) << say();

  // What is no longer in git goes, and nothing of what Muster made for the rest.
  publish({{"name: llama", "name: other"}});
  ASSERT_TRUE(cluster_->wait(60s, [&] { return cluster_->get(kJob).is_null(); })) << say();
  ASSERT_TRUE(comes_to("Healthy", "Succeeded")) << say();
  EXPECT_EQ(uids(), replicas);
}

}  // namespace
}  // namespace muster::test
