// The chart, by the real Helm: what it renders, and a release from its installation to its end, with Muster
// running.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <thread>

#include "delivery.h"
#include "muster/crds/documents.h"

namespace muster::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kChart = manifests("helm/muster");

// kind/namespace/name -> the object.
using Objects = std::map<std::string, json>;

// Two writers of YAML fold a long text each in its way. No text of these manifests means anything by its
// spaces.
void squeeze(json& value) {
  if (value.is_string()) {
    static const std::regex kSpaces("\\s+");
    value = std::regex_replace(value.get<std::string>(), kSpaces, " ");
  } else if (value.is_structured()) {
    for (auto& item : value) squeeze(item);
  }
}

Objects objects_of(const std::string& yaml) {
  // kustomize does not know these kinds as ones of the whole cluster, and gives them the overlay's namespace.
  static const std::set<std::string> kOfTheCluster = {"FlowSchema",
                                                      "PriorityLevelConfiguration",
                                                      "ValidatingAdmissionPolicy",
                                                      "ValidatingAdmissionPolicyBinding",
                                                      "MutatingAdmissionPolicy",
                                                      "MutatingAdmissionPolicyBinding"};
  Objects result;
  auto documents = crds::load_documents(yaml, "rendered");
  EXPECT_TRUE(documents) << (documents ? "" : documents.error().message);
  if (!documents) return result;
  for (const auto& document : *documents) {
    json object = *document.object;
    const std::string kind = object["kind"];
    if (kOfTheCluster.contains(kind)) object["metadata"].erase("namespace");
    squeeze(object);
    const std::string key = fmt::format("{}/{}/{}", kind, object["metadata"].value("namespace", ""),
                                        object["metadata"]["name"].get<std::string>());
    EXPECT_TRUE(result.emplace(key, std::move(object)).second) << key << " twice";
  }
  return result;
}

Objects kustomized(const Overlay& overlay) {
  const fs::path directory = fs::path(testing::TempDir()) / fmt::format("muster-overlay-{}", getpid());
  fs::remove_all(directory);
  Objects all = objects_of(kustomize(write_overlay(directory, overlay)));
  fs::remove_all(directory);
  // Helm makes the namespace of a release, or finds it.
  EXPECT_EQ(std::erase_if(all, [](const auto& one) { return one.second["kind"] == "Namespace"; }), 1u);
  return all;
}

Objects rendered(const std::string& ns, const std::string& values) {
  std::vector<std::string> command = {built("helm"), "template", "muster",      kChart,
                                      "--namespace", ns,         "--skip-tests"};
  if (!values.empty()) command.insert(command.end(), {"--set", values});
  Objects all = objects_of(run(std::move(command)));
  for (auto& [key, object] : all) {
    if (object["kind"] != "CustomResourceDefinition") continue;
    EXPECT_EQ(object["metadata"]["annotations"], json({{"helm.sh/resource-policy", "keep"}})) << key;
    object["metadata"].erase("annotations");
  }
  return all;
}

void expect_same(const Objects& wanted, const Objects& found) {
  for (const auto& [key, object] : wanted) {
    const auto at = found.find(key);
    if (at == found.end()) {
      ADD_FAILURE() << "the chart has no " << key;
    } else {
      EXPECT_EQ(json::diff(object, at->second), json::array()) << key;
    }
  }
  for (const auto& [key, object] : found) EXPECT_TRUE(wanted.contains(key)) << "only the chart has " << key;
}

TEST(Chart, RendersWhatKustomizeRenders) {
  struct Case {
    std::string ns;
    Overlay overlay;
    std::string values;
  };
  const std::vector<Case> cases = {
      {"muster-system", {}, ""},
      {"gpu", {.ns = "gpu"}, ""},
      {"muster-system", {.components = {"ha"}}, "ha=true"},
      {"muster-system", {.components = {"monitoring"}}, "monitoring=true"},
      {"gpu", {.ns = "gpu", .components = {"ha", "monitoring"}}, "ha=true,monitoring=true"},
      {"muster-system", {.resources = {"users"}}, "userLabel=true"},
      {"gpu", {.ns = "gpu", .resources = {"ui"}}, "ui=true"},
      {"gpu", {.ns = "gpu", .resources = {"activator"}}, "activator=true"},
      {"muster-system", {.components = {"metrics-tls"}}, "metricsTls=true"},
      {"muster-system", {.components = {"monitoring", "metrics-tls"}}, "monitoring=true,metricsTls=true"},
      {"muster-system",
       {.components = {"restricted"}, .namespaces = {"nlp", "vision"}},
       "restrictNetwork=true,namespaces={nlp,vision}"},
      {"gpu",
       {.ns = "gpu", .components = {"restricted"}, .namespaces = {"nlp"}},
       "restrictNetwork=true,namespaces={nlp}"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.ns + " " + c.values);
    expect_same(kustomized(c.overlay), rendered(c.ns, c.values));
  }
}

TEST(Chart, EveryValueHasItsPlace) {
  const Objects all = rendered(
      "muster-system",
      "image=registry.example/muster:7,metricsPort=9090,healthPort=9091,extraArgs={--log-level=debug},"
      "imagePullSecrets[0].name=pull,tolerations[0].operator=Exists,nodeSelector.room=a,priorityClassName="
      "mine,"
      "resources.requests.cpu=2,crds=false,priorityClasses=false,flowControl=false");
  const json pod = all.at("Deployment/muster-system/muster")["spec"]["template"]["spec"];
  const json& container = pod["containers"][0];
  EXPECT_EQ(container["image"], "registry.example/muster:7");
  EXPECT_THAT(container["args"], testing::Contains("--metrics-address=:9090"));
  EXPECT_THAT(container["args"], testing::Contains("--health-address=:9091"));
  EXPECT_THAT(container["args"], testing::Contains("--log-level=debug"));
  EXPECT_EQ(container["ports"][0]["containerPort"], 9090);
  EXPECT_EQ(container["resources"]["requests"]["cpu"], 2);
  EXPECT_EQ(pod["imagePullSecrets"][0]["name"], "pull");
  EXPECT_EQ(pod["tolerations"][0]["operator"], "Exists");
  EXPECT_EQ(pod["nodeSelector"]["room"], "a");
  EXPECT_EQ(pod["priorityClassName"], "mine");
  EXPECT_EQ(all.at("Service/muster-system/muster-metrics")["spec"]["ports"][0]["port"], 9090);
  std::set<std::string> kinds, classes;
  for (const auto& [key, object] : all) {
    kinds.insert(object["kind"]);
    if (object["kind"] == "PriorityClass") classes.insert(object["metadata"]["name"]);
  }
  EXPECT_FALSE(kinds.contains("CustomResourceDefinition"));
  EXPECT_FALSE(kinds.contains("FlowSchema"));
  EXPECT_EQ(classes, std::set<std::string>{"gpu-reservation"}) << "Muster's own pods have it";
}

TEST(Chart, ValuesThatItDoesNotKnowAreRefusedByName) {
  const auto refused = [](const std::string& value) -> std::string {
    try {
      run({built("helm"), "template", "muster", kChart, "--set", value});
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(refused("imgae=muster:1"), HasSubstr("imgae"));
  EXPECT_THAT(refused("image="), HasSubstr("/image"));
  EXPECT_THAT(refused("ha=2"), HasSubstr("/ha"));
  EXPECT_THAT(refused("namespaces={Nlp}"), HasSubstr("/namespaces/0"));
  EXPECT_THAT(refused("metricsPort=80"), HasSubstr("/metricsPort"));
  EXPECT_THAT(refused("extraArgs={log-level}"), HasSubstr("/extraArgs/0"));
  EXPECT_THAT(run({built("helm"), "lint", "--strict", kChart}), HasSubstr("0 chart(s) failed"));
}

class Release : public testing::Test {
 protected:
  std::string helm(std::vector<std::string> arguments) {
    std::vector<std::string> command = {built("helm"), "--kubeconfig", cluster_->real().kubeconfig(),
                                        "--namespace", "muster-system"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(std::move(command));
  }
  json deployment() const {
    return cluster_->get("/apis/apps/v1/namespaces/muster-system/deployments/muster");
  }
  bool has_budget() const {
    return !cluster_->get("/apis/policy/v1/namespaces/muster-system/poddisruptionbudgets/muster").is_null();
  }
  json field(const std::string& pointer) const {
    return cluster_->get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.muster.dev")
        .value(json::json_pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties" +
                                  pointer),
               json());
  }
  // The pod of the job, by uid and how often it was started: nothing happened to it while both stay.
  std::string pod_of(const std::string& job) const {
    const auto pods = cluster_->pods(job);
    return pods.size() == 1 ? pods[0]["metadata"]["uid"].get<std::string>() : "";
  }
  // The chart with a field more in a CRD, as a later version may have.
  fs::path newer_chart() const {
    const fs::path chart = cluster_->real().directory() / "newer" / "muster";
    fs::create_directories(chart.parent_path());
    run({"cp", "-rL", kChart, chart});
    const auto replace = [&](const std::string& file, const std::string& old, const std::string& by) {
      std::ifstream in(chart / file);
      std::string text(std::istreambuf_iterator<char>(in), {});
      const auto at = text.find(old);
      ASSERT_NE(at, std::string::npos) << file;
      text.replace(at, old.size(), by);
      std::ofstream(chart / file) << text;
    };
    replace("Chart.yaml", "version: 0.1.0", "version: 0.2.0");
    replace("files/queues.yaml", "              parent:",
            "              colour: {type: string, maxLength: 16}\n              parent:");
    return chart;
  }
  // There is no scheduler and no node for the test's pod: it is played.
  void play_test_pod(bool succeeds) {
    const std::string path = "/api/v1/namespaces/muster-system/pods/muster-test";
    ASSERT_TRUE(cluster_->wait(30s, [&] { return !cluster_->get(path).is_null(); }));
    const json pod = cluster_->get(path);
    EXPECT_EQ(pod["spec"]["containers"][0]["args"], json({"leader", "--lease-namespace=muster-system"}));
    cluster_->patch(path + "/status", {{"status", {{"phase", succeeds ? "Succeeded" : "Failed"}}}});
  }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(Release, IsInstalledUpgradedRolledBackAndUninstalledWhileAJobRuns) {
  const auto install = [](testcluster::TestCluster& real) -> testcluster::Result<void> {
    run({built("helm"), "--kubeconfig", real.kubeconfig(), "install", "muster", kChart, "--namespace",
         "muster-system", "--create-namespace", "--set", "image=registry.example/muster:1"});
    const auto served =
        real.kubectl({"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"});
    if (!served || !served->ok()) return std::unexpected(std::string("the CRDs are not served"));
    return {};
  };
  cluster_ = Cluster::start_with(install);
  cluster_->add_team(1, 8);
  const std::vector<std::string> elect = {"--leader-elect", "--lease-namespace", "muster-system"};
  auto muster = cluster_->muster(elect);
  cluster_->create(job_object({.name = "train", .gpus = 8}));
  ASSERT_TRUE(cluster_->wait_phase("train", "Running")) << muster->log();
  const std::string pod = pod_of("train");
  EXPECT_EQ(deployment()["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example/muster:1");

  {  // What `helm test` runs says who leads; and Helm reads how it ends.
    const std::string leads = run({MUSTER_PROGRAM, "leader", "--kubeconfig", cluster_->real().kubeconfig()});
    EXPECT_THAT(leads, HasSubstr(" leads"));
    std::thread pods([this] { play_test_pod(true); });
    EXPECT_THAT(helm({"test", "muster", "--timeout", "60s"}), HasSubstr("Succeeded"));
    pods.join();
    std::thread failing([this] { play_test_pod(false); });
    EXPECT_THROW(helm({"test", "muster", "--timeout", "60s"}), std::runtime_error);
    failing.join();
  }

  // An upgrade brings values and CRDs, and takes nothing away from those who run.
  EXPECT_FALSE(has_budget());
  helm({"upgrade", "muster", newer_chart(), "--reuse-values", "--set", "ha=true"});
  EXPECT_EQ(deployment()["spec"]["replicas"], 2);
  EXPECT_EQ(deployment()["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example/muster:1");
  EXPECT_TRUE(has_budget());
  EXPECT_FALSE(field("/colour").is_null()) << "the CRD was not upgraded";
  cluster_->create(job_object({.name = "second", .gpus = 0}));
  EXPECT_TRUE(cluster_->wait_phase("second", "Running")) << muster->log();
  EXPECT_EQ(pod_of("train"), pod);

  helm({"rollback", "muster", "1"});
  EXPECT_EQ(deployment()["spec"]["replicas"], 1);
  EXPECT_FALSE(has_budget());
  EXPECT_TRUE(field("/colour").is_null());
  EXPECT_FALSE(field("/parent").is_null());
  EXPECT_EQ(pod_of("train"), pod);

  // Uninstalled, it leaves the CRDs, and with them the job and its pod.
  EXPECT_THAT(helm({"uninstall", "muster"}), HasSubstr("queues.muster.dev"));
  muster->kill();
  EXPECT_TRUE(deployment().is_null());
  EXPECT_TRUE(cluster_->get("/apis/rbac.authorization.k8s.io/v1/clusterroles/muster-controller").is_null());
  EXPECT_EQ(cluster_->phase("train"), "Running");
  EXPECT_EQ(pod_of("train"), pod);

  helm({"install", "muster", kChart});
  cluster_->use_account_of("muster-system");
  muster = cluster_->muster(elect);
  cluster_->create(job_object({.name = "third", .gpus = 0}));
  EXPECT_TRUE(cluster_->wait_phase("third", "Running")) << muster->log();
  EXPECT_EQ(cluster_->phase("train"), "Running");
  EXPECT_EQ(pod_of("train"), pod);
}

}  // namespace
}  // namespace muster::test
