#include "muster/reconcilers/pods/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sample_jobs.h"

namespace muster::reconcilers {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMi = 1 << 20;
constexpr std::int64_t kGi = 1 << 30;

struct RequestCase {
  const char* name;
  const char* spec;
  std::int64_t cpu;
  std::int64_t memory;
};

// The table of Kubernetes' own rules.
TEST(Requests, CountsAsTheSchedulerDoes) {
  const std::vector<RequestCase> cases = {
      {"nothing stated", R"({"containers": [{}]})", 0, 0},
      {"sum of containers", R"({"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
                                               {"resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}]})",
       1500, kGi + 512 * kMi},
      {"numbers are quantities too",
       R"({"containers": [{"resources": {"requests": {"cpu": 2, "memory": 1024}}}]})", 2000, 1024},
      {"a limit is a request",
       R"({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]})", 2000, kGi},
      {"a request beside a limit",
       R"({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "1"}}}]})",
       1000, 2 * kGi},
      {"init containers run one by one",
       R"({"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
         "initContainers": [{"resources": {"requests": {"cpu": "3"}}}, {"resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}]})",
       3000, 4 * kGi},
      {"small init containers cost nothing", R"({"containers": [{"resources": {"requests": {"cpu": "2"}}}],
         "initContainers": [{"resources": {"requests": {"cpu": "1"}}}]})",
       2000, 0},
      {"sidecars run beside the containers", R"({"containers": [{"resources": {"requests": {"cpu": "2"}}}],
         "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]})",
       3000, 0},
      {"init containers after a sidecar run beside it",
       R"({"containers": [{"resources": {"requests": {"cpu": "1"}}}],
         "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "5"}}}]})",
       6000, 0},
      {"init containers before a sidecar do not",
       R"({"containers": [{"resources": {"requests": {"cpu": "1"}}}],
         "initContainers": [{"resources": {"requests": {"cpu": "5"}}}, {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]})",
       5000, 0},
      {"overhead",
       R"({"containers": [{"resources": {"requests": {"cpu": "1"}}}], "overhead": {"cpu": "250m", "memory": "64Mi"}})",
       1250, 64 * kMi},
      {"pod-level requests replace the sum",
       R"({"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
         "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}})",
       5000, kGi},
      {"a pod-level limit counts where nothing else does",
       R"({"containers": [{"resources": {"requests": {"cpu": "1"}}}],
         "resources": {"limits": {"cpu": "4", "memory": "2Gi"}}})",
       1000, 2 * kGi},
      {"parts are rounded up",
       R"({"containers": [{"resources": {"requests": {"cpu": "0.0001", "memory": "1500m"}}}]})", 1, 2},
      {"local disk is the kubelet's",
       R"({"containers": [{"resources": {"requests": {"cpu": "1", "ephemeral-storage": "10Gi"}}}]})", 1000,
       0},
      {"sums stop at the end",
       R"({"containers": [{"resources": {"requests": {"memory": "9223372036854775807"}}},
                                                  {"resources": {"requests": {"memory": "1Gi"}}}]})",
       0, INT64_MAX},
  };
  for (const RequestCase& c : cases) {
    SCOPED_TRACE(c.name);
    const Json pod_template = {{"spec", Json::parse(c.spec)}};
    const auto requests = effective_requests(pod_template, "spec.template");
    ASSERT_TRUE(requests) << to_string(requests.error());
    EXPECT_EQ(requests->cpu.value, c.cpu);
    EXPECT_EQ(requests->memory.value, c.memory);
  }
}

// Summed as CPU and memory are.
TEST(Requests, CountsOtherResourcesByName) {
  const Json pod_template = {{"spec", Json::parse(R"({
    "containers": [{"resources": {"limits": {"rdma/hca": "8", "hugepages-2Mi": "4Gi", "vendor/none": 0}}},
                   {"resources": {"requests": {"rdma/hca": 1, "ephemeral-storage": "1Gi"},
                                  "limits": {"rdma/hca": "1", "ephemeral-storage": "2Gi"}}}],
    "initContainers": [{"restartPolicy": "Always", "resources": {"limits": {"vendor/side": "1"}}},
                       {"resources": {"limits": {"ephemeral-storage": "5Gi", "rdma/hca": "2"}}}],
    "resources": {"requests": {"hugepages-2Mi": "6Gi"}, "limits": {"hugepages-2Mi": "6Gi"}}})")}};
  const auto requests = effective_requests(pod_template, "t");
  ASSERT_TRUE(requests) << to_string(requests.error());
  EXPECT_EQ(
      requests->named,
      (placement::NamedAmounts{
          {"ephemeral-storage", 5 * kGi}, {"hugepages-2Mi", 6 * kGi}, {"rdma/hca", 9}, {"vendor/side", 1}}));
}

struct ErrorCase {
  const char* field;    // below "t.spec"
  const char* message;  // part of it
  const char* spec;     // merged into a valid one
};

TEST(Requests, RefusesWhatItCannotHonour) {
  const std::vector<ErrorCase> cases = {
      {".containers[0].resources.requests.cpu", "must be",
       R"({"containers": [{"resources": {"requests": {"cpu": "many"}}}]})"},
      {".containers[1].resources.limits.memory", "must be",
       R"({"containers": [{}, {"resources": {"limits": {"memory": "1GB"}}}]})"},
      {".initContainers[0].resources.requests.memory", "must be",
       R"({"initContainers": [{"resources": {"requests": {"memory": "-1"}}}]})"},
      {".initContainers[0].resources.requests.memory", "must be",
       R"({"initContainers": [{"resources": {"requests": {"memory": {}}}}]})"},
      {".containers[0].resources.requests", "object",
       R"({"containers": [{"resources": {"requests": [1]}}]})"},
      {".containers[0].resources.limits", "nvidia.com/gpu",
       R"({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]})"},
      {".containers[0].resources.requests", "GPUs are asked for with gpus",
       R"({"containers": [{"resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}]})"},
      {".containers[0].resources.requests", "has storage",
       R"({"containers": [{"resources": {"requests": {"storage": "1Gi"}}}]})"},
      {".containers[0].resources.requests.rdma/ib", "must equal the limit",
       R"({"containers": [{"resources": {"requests": {"rdma/ib": "1"}}}]})"},
      {".containers[0].resources.requests.rdma/ib", "must equal the limit",
       R"({"containers": [{"resources": {"requests": {"rdma/ib": "1"}, "limits": {"rdma/ib": "2"}}}]})"},
      {".containers[0].resources.limits.rdma/ib", "must be a whole number",
       R"({"containers": [{"resources": {"limits": {"rdma/ib": "500m"}}}]})"},
      {".initContainers[0].resources.requests.hugepages-2Mi", "must equal the limit",
       R"({"initContainers": [{"resources": {"requests": {"hugepages-2Mi": "2Mi"}}}]})"},
      {".containers[0].resources.limits.hugepages-2Mi", "must be a multiple of the size of a page",
       R"({"containers": [{"resources": {"limits": {"hugepages-2Mi": "3Mi"}}}]})"},
      {".containers[0].resources.limits.hugepages-", "must name the size of its pages",
       R"({"containers": [{"resources": {"limits": {"hugepages-": "2Mi"}}}]})"},
      {".resources.requests", "cpu, memory and hugepages-<size> only",
       R"({"resources": {"limits": {"rdma/ib": "1"}}})"},
      {".overhead.cpu", "must be", R"({"overhead": {"cpu": "x"}})"},
      {".resources.requests.cpu", "must be", R"({"resources": {"requests": {"cpu": "x"}}})"},
      {".containers", "at least one", R"({"containers": []})"},
      {".nodeName", "Muster chooses", R"({"nodeName": "n1"})"},
      {".schedulerName", "Muster places", R"({"schedulerName": "volcano"})"},
      {".hostname", "must not be set", R"({"hostname": "me"})"},
      {".subdomain", "must not be set", R"({"subdomain": "me"})"},
      {".schedulingGates", "must not be set", R"({"schedulingGates": [{"name": "x"}]})"},
      {".topologySpreadConstraints[0].maxSkew", "from 1 to 10000", R"({"topologySpreadConstraints": [{}]})"},
      {".topologySpreadConstraints[0].whenUnsatisfiable", "DoNotSchedule",
       R"({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]})"},
      {".topologySpreadConstraints[0].nodeAffinityPolicy", "must be Honor",
       R"({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "Ignore"}]})"},
      {".topologySpreadConstraints[0].nodeTaintsPolicy", "must be Ignore",
       R"({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}]})"},
      {".topologySpreadConstraints[0].labelSelector", "must not select by muster.dev/index",
       R"({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
           "labelSelector": {"matchLabels": {"muster.dev/index": "0"}}}]})"},
      {".affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector",
       "must be left out",
       R"({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "namespaceSelector": {}}]}}})"},
      {".affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys",
       "left out where labelSelector is",
       R"({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "matchLabelKeys": ["a"]}]}}})"},
      {".affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector",
       "at least one label or expression",
       R"({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {}}]}}})"},
      {".resourceClaims", "must not be set", R"({"resourceClaims": [{"name": "x"}]})"},
      {".affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey", "is required",
       R"({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}})"},
      {".affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm",
       "is required",
       R"({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}})"},
      {".restartPolicy", "must be Never", R"({"restartPolicy": "OnFailure"})"},
      {".containers[0].ports", "hostNetwork",
       R"({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 1}]}]})"},
      {".nodeSelector.a", "must be a string", R"({"nodeSelector": {"a": 1}})"},
      {".tolerations[1].operator", "Exists or Equal",
       R"({"tolerations": [{"operator": "Exists"}, {"key": "a", "operator": "In"}]})"},
      {".tolerations[0].operator", "must be Exists", R"({"tolerations": [{"value": "a"}]})"},
      {".tolerations[0].value", "left out",
       R"({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]})"},
      {".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
       "at least one",
       R"({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}})"},
      {".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
       "matchExpressions[0].values",
       "at least one",
       R"({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
           {"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}})"},
      {".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
       "matchExpressions[0].values",
       "one integer",
       R"({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
           {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}]}}}})"},
      {".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
       "matchFields[0].key",
       "metadata.name",
       R"({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
           {"matchFields": [{"key": "spec.x", "operator": "In", "values": ["x"]}]}]}}}})"},
      {".affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight", "1 to 100",
       R"({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]}}})"},
      {".affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
       "matchExpressions[0].operator",
       "DoesNotExist",
       R"({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
           {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]}}})"},
  };
  for (const ErrorCase& c : cases) {
    SCOPED_TRACE(c.spec);
    Json pod_template = bare_template();
    pod_template["spec"].update(Json::parse(c.spec));
    const auto needs = pod_needs(pod_template, std::nullopt, "t");
    ASSERT_FALSE(needs);
    EXPECT_EQ(needs.error().field, std::string("t.spec") + c.field);
    EXPECT_THAT(needs.error().message, HasSubstr(c.message));
  }
}

TEST(Requests, ReadsTheTermsOfATemplate) {
  Json pod_template = sample_template();
  pod_template["spec"]["affinity"] = Json::parse(R"({"podAffinity": {}, "nodeAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
      {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}, {"key": "spot", "operator": "DoesNotExist"}]},
      {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
    "preferredDuringSchedulingIgnoredDuringExecution": [
      {"weight": 5, "preference": {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["32"]}]}}]}})");
  pod_template["spec"]["tolerations"].push_back({{"key", "k"}, {"value", "v"}});
  const auto needs = pod_needs(pod_template, crds::Gpus{.count = 2, .models = {"H100"}}, "t");
  ASSERT_TRUE(needs) << to_string(needs.error());
  PodNeeds expected;
  expected.gpus = 2;
  expected.gpu_models = {"H100"};
  expected.requests = {crds::MilliCpu{4100}, crds::Bytes{16 * kGi + 64 * kMi}};
  expected.labels = {{"app", "llama"}, {"team", "nlp"}};
  expected.node_selector = {{"disk", "ssd"}};
  expected.required = {
      {.labels = {{"zone", NodeOperator::kIn, {"a", "b"}}, {"spot", NodeOperator::kDoesNotExist, {}}},
       .fields = {}},
      {.labels = {}, .fields = {{"metadata.name", NodeOperator::kIn, {"n1"}}}}};
  expected.preferred = {{5, {.labels = {{"cores", NodeOperator::kGt, {"32"}}}, .fields = {}}}};
  expected.tolerations = {{"gpu", true, "", "NoSchedule"}, {"k", false, "v", ""}};
  EXPECT_EQ(*needs, expected);
}

TEST(Requests, ReadsTermsAboutOtherPods) {
  Json pod_template = bare_template();
  pod_template["spec"].update(Json::parse(R"({"affinity": {
    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
      {"weight": 5, "podAffinityTerm": {"labelSelector": {"matchLabels": {"app": "cache"}}, "namespaces": ["shared"], "topologyKey": "zone"}}]},
    "podAntiAffinity": {
      "requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "topologyKey": "host"}],
      "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": {"topologyKey": "rack"}}]}},
    "topologySpreadConstraints": [{"maxSkew": 2, "minDomains": 3, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
      "labelSelector": {"matchLabels": {"app": "a"}}}]})"));
  const auto needs = pod_needs(pod_template, std::nullopt, "t");
  ASSERT_TRUE(needs) << to_string(needs.error());
  const std::vector<NodeRequirement> cache = {{"app", NodeOperator::kIn, {"cache"}}};
  const std::vector<NodeRequirement> any_app = {{"app", NodeOperator::kExists, {}}};
  const std::vector<NodeRequirement> a = {{"app", NodeOperator::kIn, {"a"}}};
  EXPECT_TRUE(needs->pod_affinity.empty());
  EXPECT_EQ(needs->pod_anti_affinity, (std::vector<placement::PodTerm>{{any_app, {}, "host"}}));
  EXPECT_EQ(needs->preferred_pods, (std::vector<std::pair<std::int64_t, placement::PodTerm>>{
                                       {5, {cache, {"shared"}, "zone"}}, {-7, {{}, {}, "rack"}}}));
  EXPECT_EQ(needs->spread, (std::vector<placement::SpreadConstraint>{{2, "zone", false, a, 3}}));
}

// As in Kubernetes: the pod's own values, and a key that it does not have plays no part.
TEST(Requests, TakesLabelsOfThePodIntoItsTerms) {
  Json pod_template = bare_template();
  pod_template["metadata"]["labels"] = {{"app", "a"}};
  pod_template["spec"].update(
      Json::parse(R"({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
      {"labelSelector": {"matchLabels": {"app": "a"}}, "mismatchLabelKeys": ["muster.dev/job"], "matchLabelKeys": ["none"], "topologyKey": "host"}]}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
      "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore",
      "labelSelector": {"matchLabels": {"app": "a"}}, "matchLabelKeys": ["muster.dev/job"]}]})"));
  const auto needs = pod_needs(pod_template, std::nullopt, "t", {{"muster.dev/job", "mine"}});
  ASSERT_TRUE(needs) << to_string(needs.error());
  const NodeRequirement a{"app", NodeOperator::kIn, {"a"}};
  EXPECT_EQ(needs->pod_anti_affinity,
            (std::vector<placement::PodTerm>{
                {{a, {"muster.dev/job", NodeOperator::kNotIn, {"mine"}}}, {}, "host"}}));
  EXPECT_EQ(needs->spread, (std::vector<placement::SpreadConstraint>{
                               {1, "zone", true, {a, {"muster.dev/job", NodeOperator::kIn, {"mine"}}}, 0}}));
}

TEST(Requests, OfAJobNameObjectAndRole) {
  crds::TrainingJob job = sample_job();
  job.spec.roles.push_back(role("ps", 1, std::nullopt, bare_template()));
  const auto good = pod_needs(job);
  ASSERT_TRUE(good) << to_string(good.error());
  ASSERT_EQ(good->size(), 2u);
  EXPECT_EQ((*good)[0].gpus, 2);
  EXPECT_EQ((*good)[1].gpus, 0);

  job.spec.roles[1].pod_template.value = nullptr;
  const auto bad = pod_needs(job);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().object, "TrainingJob nlp/llama");
  EXPECT_EQ(bad.error().field, "spec.roles[1].template.spec");
}

}  // namespace
}  // namespace muster::reconcilers
