// No object takes the controller down: thousands of mutated TrainingJobs, Queues, Projects and NodePools that
// pass the schema, and each ends accepted or with a reason.
#include <gmock/gmock.h>

#include <random>

#include "fixture.h"

namespace muster::test {
namespace {

// Turns one random leaf or branch of an object into something else that YAML can hold.
class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  json mutate(json object) {
    const int changes = 1 + pick(3);
    for (int i = 0; i < changes; ++i) change(object["spec"]);
    return object;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void change(json& at) {
    if (at.is_object() && !at.empty() && pick(8) != 0) {
      auto it = at.begin();
      std::advance(it, pick(static_cast<int>(at.size())));
      if (pick(8) == 0) {
        at.erase(it);
      } else {
        change(*it);
      }
    } else if (at.is_array() && !at.empty() && pick(6) != 0) {
      const auto i = static_cast<std::size_t>(pick(static_cast<int>(at.size())));
      const int what = pick(8);
      if (what == 0) {
        at.erase(i);
      } else if (what == 1) {
        at.push_back(at[i]);
      } else {
        change(at[i]);
      }
    } else {
      at = replacement(at);
    }
  }

  json replacement(const json& was) {
    static const std::vector<std::string> kTexts = {"",
                                                    "x",
                                                    "0",
                                                    "1",
                                                    "-1",
                                                    "1e3",
                                                    "9223372036854775807",
                                                    "8Ei",
                                                    "0.0001",
                                                    "100y",
                                                    "36500d",
                                                    "0s",
                                                    "5Ki",
                                                    "default",
                                                    "root",
                                                    "team",
                                                    "kubernetes.io/hostname",
                                                    "a/b",
                                                    "In",
                                                    "NotIn",
                                                    "training",
                                                    "café",
                                                    std::string(63, 'a'),
                                                    std::string(300, 'b')};
    if (was.is_number()) {
      static const std::vector<std::int64_t> kNumbers = {0,   1,    2,     -1,         7,         100,
                                                         256, 9999, 10000, 2147483647, 4294967296};
      return kNumbers[static_cast<std::size_t>(pick(static_cast<int>(kNumbers.size())))];
    }
    if (was.is_boolean()) return !was.get<bool>();
    if (was.is_string() || pick(3) == 0)
      return kTexts[static_cast<std::size_t>(pick(static_cast<int>(kTexts.size())))];
    return pick(2) == 0 ? json::object() : json::array();
  }

  std::mt19937 random_;
};

json rich_job() {
  return json::parse(R"({
    "apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"namespace": "team"},
    "spec": {"mode": "Batch", "preemptible": true, "priorityClassName": "training", "suspend": false, "framework": "PyTorch",
      "pools": ["default"], "startTimeout": "10m", "maxRuntime": "48h", "ttlAfterFinished": "24h",
      "restart": {"limit": 3, "window": "1h"}, "completion": {"role": "worker", "policy": "All"},
      "checkpoint": {"gracePeriod": "30s"},
      "roles": [
        {"name": "worker", "replicas": 2, "gpus": {"count": 1, "models": ["NVIDIA-H100-80GB-HBM3"]},
         "template": {"metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
           "spec": {"containers": [{"name": "main", "image": "i:1", "command": ["run"], "args": ["a"], "env": [{"name": "A", "value": "b"}],
                                    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1"}}}],
                    "nodeSelector": {"kubernetes.io/hostname": "node-0"},
                    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
                    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                      {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]}]}]}}}}}},
        {"name": "ps", "replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}]}}}
      ]}})");
}
json rich_queue() {
  return json::parse(R"({"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {},
    "spec": {"parent": "root", "quota": {"gpu": "2500m", "cpu": "4", "memory": "8Gi"}, "limit": {"gpu": 8, "cpu": "64", "memory": "1Ti"},
             "weight": 2, "priority": 100, "admission": "Open", "pools": [{"name": "other", "quota": {"gpu": 1}, "limit": {"gpu": 2}, "weight": 1, "priority": 1}]}})");
}
json rich_project() {
  return json::parse(R"({"apiVersion": "muster.dev/v1alpha1", "kind": "Project", "metadata": {},
    "spec": {"queue": "root", "quota": {"gpu": 1}, "limit": {"gpu": 2}, "weight": 1, "priority": 1, "namespace": {"name": "team-x"}}})");
}
json rich_pool() {
  return json::parse(R"({"apiVersion": "muster.dev/v1alpha1", "kind": "NodePool", "metadata": {},
    "spec": {"nodeSelector": {"matchLabels": {"pool": "x"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["a"]}]},
             "gpuResource": "nvidia.com/gpu", "placement": {"nodes": "Pack"}, "default": false}})");
}

// "" if the status says Accepted True, or False with reason and message.
std::string said(const json& object) {
  const json conditions = object.value("/status/conditions"_json_pointer, json::array());
  for (const auto& c : conditions) {
    if (c["type"] != "Accepted") continue;
    if (c["status"] == "True") return "";
    if (c["status"] == "False" && !c.value("reason", "").empty() && !c.value("message", "").empty())
      return "";
  }
  return object.value("status", json()).dump();
}

TEST(Mutation, EveryMutatedObjectThatPassesTheSchemaEndsAcceptedOrWithAReason) {
  auto cluster = Cluster::start(4, 8);
  auto muster = cluster->muster();
  const unsigned seed = seed_of_run();
  Mutator mutator(seed);
  const std::vector<std::pair<json, std::string>> templates = {{rich_job(), "namespaces/team/trainingjobs"},
                                                               {rich_job(), "namespaces/team/trainingjobs"},
                                                               {rich_job(), "namespaces/team/trainingjobs"},
                                                               {rich_queue(), "queues"},
                                                               {rich_project(), "projects"},
                                                               {rich_pool(), "nodepools"}};
  int passed = 0, tried = 0;
  while (passed < 2000 && tried < 40000) {
    const auto& [base, plural] = templates[static_cast<std::size_t>(tried) % templates.size()];
    json object = mutator.mutate(base);
    object["metadata"]["name"] = "m" + std::to_string(tried++);
    const auto answer = cluster->try_create(object);
    ASSERT_NE(answer.status, 500) << object.dump() << answer.body;
    if (answer.ok()) ++passed;
  }
  EXPECT_GE(passed, 2000) << "of " << tried << " tried";
  std::string unsaid;
  for (const std::string plural : {"trainingjobs", "queues", "projects", "nodepools"}) {
    EXPECT_TRUE(cluster->wait(120s, [&] {
      unsaid.clear();
      const json list = cluster->get("/apis/muster.dev/v1alpha1/" + plural);
      for (const auto& item : list["items"]) {
        if (const auto status = said(item); !status.empty()) unsaid = item.dump();
      }
      return unsaid.empty();
    })) << unsaid;
  }
  EXPECT_TRUE(muster->alive());
  EXPECT_TRUE(muster->ready());
  EXPECT_EQ(cluster->audit_gpus(), "");
  // And it still does its work.
  cluster->create(job_object({.name = "sane", .gpus = 0}));
  EXPECT_TRUE(cluster->wait(
      60s, [&] { return !cluster->job("sane").value("/status/phase"_json_pointer, std::string()).empty(); }));
}

}  // namespace
}  // namespace muster::test
