// Pods from their text, against a slow reader on random pods.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "muster/client/pod.h"
#include "muster/common/quantity.h"
#include "muster/common/time.h"

namespace muster::client {
namespace {

using nlohmann::json;

struct Asked {
  std::map<std::string, std::int64_t> of;
  std::int64_t& operator[](const std::string& r) { return of[r]; }
};

Asked requests_of(const json& container) {
  Asked out;
  for (const char* r :
       {"cpu", "memory", "nvidia.com/gpu", "amd.com/gpu", "ephemeral-storage", "hugepages-2Mi"}) {
    const json::json_pointer at("/resources/requests");
    if (!container.contains(at) || container[at].is_null() || !container[at].contains(r)) continue;
    const auto amount = common::parse_quantity(
        container[at][r].is_string() ? container[at][r].get<std::string>() : container[at][r].dump(),
        r == std::string("cpu") ? 1000 : 1);
    EXPECT_TRUE(amount);
    out[r] = amount.value_or(0);
  }
  return out;
}

// The scheduler's words: at each moment of starting up, what must be there at once; the most of these.
Asked slow_requests(const json& spec) {
  const std::vector<std::string> resources = {
      "cpu", "memory", "nvidia.com/gpu", "amd.com/gpu", "ephemeral-storage", "hugepages-2Mi"};
  Asked most, sidecars;
  const auto moment = [&](Asked now) {
    for (const auto& r : resources) most[r] = std::max(most[r], now[r]);
  };
  for (const json& c : spec.value("initContainers", json::array())) {
    Asked own = requests_of(c);
    Asked now = sidecars;
    for (const auto& r : resources) now[r] += own[r];
    moment(now);
    if (c.value("restartPolicy", "") == "Always") sidecars = now;
  }
  Asked running = sidecars;
  for (const json& c : spec.value("containers", json::array())) {
    Asked own = requests_of(c);
    for (const auto& r : resources) running[r] += own[r];
  }
  moment(running);
  if (spec.contains("resources")) {
    Asked level = requests_of(spec);
    for (const char* r : {"cpu", "memory", "hugepages-2Mi"}) {
      if (level.of.contains(r)) most[r] = level[r];
    }
  }
  if (spec.contains("overhead")) {
    Asked extra = requests_of({{"resources", {{"requests", spec["overhead"]}}}});
    for (const auto& r : resources) most[r] += extra[r];
  }
  return most;
}

class RandomPod {
 public:
  explicit RandomPod(std::uint64_t seed) : random_(seed) {}

  json make() {
    json pod = {{"metadata", metadata()}, {"spec", spec()}, {"status", status()}};
    if (one_in(4)) pod["apiVersion"] = "v1";
    if (one_in(6)) pod["unknown"] = {{"deep", json::array({1, "two", {{"three", 3.5}}, nullptr})}};
    return pod;
  }

 private:
  bool one_in(std::uint64_t n) { return random_() % n == 0; }
  std::string pick(std::vector<std::string> of) { return of[random_() % of.size()]; }
  std::string odd_text() {
    return pick({"", "plain", "with \"quotes\" and \\", "line\nbreak\t", "\u00e4\u20ac\U0001f600",
                 std::string(40, 'z')});
  }
  std::string time() {
    const WallTime t{std::chrono::seconds{static_cast<std::int64_t>(random_() % 4'000'000'000)}};
    return one_in(3) ? format_micro_time(t) : format_time(t);
  }
  json quantities() {
    json out = json::object();
    if (!one_in(3)) out["cpu"] = pick({"100m", "1", "1500m", "0.25", "2k", "0"});
    if (!one_in(3)) out["memory"] = pick({"1Gi", "512Mi", "1.5Gi", "1000000", "128974848000m", "1e9"});
    if (one_in(2)) out["nvidia.com/gpu"] = pick({"1", "8", "0"});
    if (one_in(4)) out["amd.com/gpu"] = "2";
    if (one_in(5)) out["cpu"] = static_cast<int>(random_() % 5);
    if (one_in(4)) out["ephemeral-storage"] = "1Gi";
    if (one_in(4)) out["hugepages-2Mi"] = pick({"2Mi", "64Mi"});
    return out;
  }
  json container(bool init) {
    json c = {{"name", "c" + std::to_string(random_() % 100)}};
    if (!one_in(4)) c["resources"] = {{"limits", quantities()}, {"requests", quantities()}};
    if (one_in(8)) c["resources"] = nullptr;
    if (init && one_in(2)) c["restartPolicy"] = pick({"Always", "Never", "OnFailure"});
    return c;
  }
  json metadata() {
    json m = {{"name", "p" + std::to_string(random_() % 1000)},
              {"uid", odd_text()},
              {"resourceVersion", std::to_string(random_())}};
    if (!one_in(4)) m["namespace"] = "team";
    if (!one_in(3)) m["creationTimestamp"] = one_in(6) ? json() : json(time());
    if (one_in(3)) m["deletionTimestamp"] = time();
    if (!one_in(3)) m["labels"] = {{"muster.dev/job", odd_text()}, {"muster.dev/role", "worker"}, {"x", "y"}};
    if (one_in(6)) m["labels"] = nullptr;
    if (one_in(2)) m["annotations"] = {{"muster.dev/gpus", odd_text()}, {"z", odd_text()}};
    if (one_in(2)) {
      m["ownerReferences"] = json::array();
      for (int i = static_cast<int>(random_() % 3); i > 0; --i) {
        json o = {{"uid", "owner" + std::to_string(random_() % 100)}, {"kind", "Job"}};
        if (!one_in(3)) o["controller"] = i == 1;
        m["ownerReferences"].push_back(o);
      }
    }
    return m;
  }
  json spec() {
    json s = {{"containers", json::array()}};
    for (auto i = random_() % 4; i > 0; --i) s["containers"].push_back(container(false));
    if (one_in(2)) {
      s["initContainers"] = json::array();
      for (auto i = random_() % 4; i > 0; --i) s["initContainers"].push_back(container(true));
    }
    if (one_in(3)) s["overhead"] = quantities();
    if (one_in(4)) s["resources"] = {{"requests", quantities()}};
    if (one_in(2)) s["nodeName"] = odd_text();
    return s;
  }
  json status() {
    json s = json::object();
    if (!one_in(5)) s["phase"] = pick({"Pending", "Running", "Succeeded", "Failed", "Unknown"});
    if (one_in(3)) s["reason"] = odd_text();
    if (one_in(3)) s["message"] = odd_text();
    s["conditions"] = json::array();
    for (const char* type : {"PodScheduled", "Ready", "Initialized"}) {
      if (one_in(3)) continue;
      s["conditions"].push_back(
          {{"type", type}, {"status", pick({"True", "False", "Unknown"})}, {"lastTransitionTime", time()}});
    }
    for (const char* field : {"initContainerStatuses", "containerStatuses"}) {
      if (one_in(3)) continue;
      s[field] = json::array();
      for (auto i = random_() % 4; i > 0; --i) {
        json c = {{"name", "c" + std::to_string(random_() % 9)}, {"restartCount", random_() % 7}};
        if (one_in(3))
          c["state"] = {{"terminated",
                         {{"exitCode", random_() % 2 * 137},
                          {"reason", "Error"},
                          {"message", odd_text()},
                          {"finishedAt", time()}}}};
        else if (one_in(2))
          c["state"] = {{"waiting",
                         {{"reason", pick({"ContainerCreating", "PodInitializing", "CrashLoopBackOff",
                                           "ErrImagePull"})},
                          {"message", odd_text()}}}};
        else
          c["state"] = {{"running", {{"startedAt", time()}}}};
        s[field].push_back(c);
      }
    }
    return s;
  }

  std::mt19937_64 random_;
};

std::int64_t seconds_at(const json& object, const char* field) {
  if (!object.contains(field) || object[field].is_null()) return 0;
  const auto t = common::parse_time(object[field].get<std::string>());
  EXPECT_TRUE(t);
  return std::chrono::floor<std::chrono::seconds>(t.value_or(WallTime{})).time_since_epoch().count();
}

void expect_same(const Pod& pod, const json& j) {
  const json& m = j["metadata"];
  const json& status = j["status"];
  EXPECT_EQ(m["name"], pod.meta.name);
  EXPECT_EQ(pod.meta.ns, m.value("namespace", ""));
  EXPECT_EQ(m["uid"], pod.meta.uid);
  EXPECT_EQ(m["resourceVersion"], pod.meta.resource_version);
  KeyValues labels, annotations;
  if (m.contains("labels") && m["labels"].is_object()) {
    for (const auto& [k, v] : m["labels"].items()) {
      if (k.starts_with("muster.dev/")) labels.emplace_back(k, v);
    }
  }
  if (m.contains("annotations"))
    annotations.emplace_back("muster.dev/gpus", m["annotations"]["muster.dev/gpus"]);
  EXPECT_EQ(pod.labels, labels);
  EXPECT_EQ(pod.annotations, annotations);
  std::string owner;
  for (const json& o : m.value("ownerReferences", json::array())) {
    if (o.value("controller", false)) owner = o["uid"];
  }
  EXPECT_EQ(pod.owner_uid, owner);
  EXPECT_EQ(pod.created_at, seconds_at(m, "creationTimestamp"));
  EXPECT_EQ(pod.deleted_at, seconds_at(m, "deletionTimestamp"));
  EXPECT_EQ(pod.deleting, m.contains("deletionTimestamp"));
  EXPECT_EQ(pod.node_name, j["spec"].value("nodeName", ""));
  const std::map<std::string, PodPhase> phases = {{"Pending", PodPhase::kPending},
                                                  {"Running", PodPhase::kRunning},
                                                  {"Succeeded", PodPhase::kSucceeded},
                                                  {"Failed", PodPhase::kFailed},
                                                  {"Unknown", PodPhase::kUnknown}};
  EXPECT_EQ(pod.phase, phases.at(status.value("phase", "Pending")));
  EXPECT_EQ(pod.reason, status.value("reason", ""));
  EXPECT_EQ(pod.message, status.value("message", ""));
  for (const json& c : status["conditions"]) {
    if (c["type"] == "DisruptionTarget") {
      EXPECT_EQ(pod.disrupted, c["status"] == "True");
    }
    if (c["type"] == "PodScheduled") {
      EXPECT_EQ(pod.scheduled_false, c["status"] == "False");
    }
    if (c["type"] != "Ready") continue;
    EXPECT_EQ(pod.ready, c["status"] == "True");
    EXPECT_EQ(pod.ready_at, pod.ready ? seconds_at(c, "lastTransitionTime") : 0);
  }
  Asked asked = slow_requests(j["spec"]);
  EXPECT_EQ(pod.milli_cpu, asked["cpu"]);
  EXPECT_EQ(pod.memory_bytes, asked["memory"]);
  Extended extended;
  for (const char* r : {"amd.com/gpu", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"}) {
    if (asked[r] > 0) extended.emplace_back(r, asked[r]);
  }
  EXPECT_EQ(pod.extended, extended);
  std::vector<json> ended;
  std::string waits;
  int restarts = 0;
  for (const json& c : status.value("containerStatuses", json::array())) {
    restarts += c["restartCount"].get<int>();
    if (c["state"].contains("terminated")) ended.push_back(c);
  }
  for (const json& c : status.value("initContainerStatuses", json::array())) {
    if (c["state"].contains("terminated") && c["state"]["terminated"]["exitCode"] != 0) ended.push_back(c);
  }
  for (const char* field : {"initContainerStatuses", "containerStatuses"}) {
    for (const json& c : status.value(field, json::array())) {
      const std::string reason =
          c["state"].contains("waiting") ? c["state"]["waiting"]["reason"].get<std::string>() : "";
      if (waits.empty() && (reason == "CrashLoopBackOff" || reason == "ErrImagePull")) waits = reason;
    }
  }
  EXPECT_EQ(pod.waiting_reason, waits);
  EXPECT_EQ(pod.container_restarts, restarts);
  ASSERT_EQ(pod.ended.size(), ended.size());
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const json& t = ended[i]["state"]["terminated"];
    EXPECT_EQ(ended[i]["name"], pod.ended[i].name);
    EXPECT_EQ(t["exitCode"], pod.ended[i].exit_code);
    EXPECT_EQ(t["reason"], pod.ended[i].reason);
    EXPECT_EQ(t["message"], pod.ended[i].message);
    EXPECT_EQ(pod.ended[i].finished_at, seconds_at(t, "finishedAt"));
  }
}

TEST(DecodePod, AgreesWithASlowReaderOnRandomPods) {
  PodFields f;
  f.labels = {"muster.dev/job", "muster.dev/role", "muster.dev/index", "muster.dev/attempt"};
  f.annotations = {"muster.dev/gpus"};
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const json pod = RandomPod(seed).make();
    const auto decoded = decode_pod(pod.dump(), f);
    ASSERT_TRUE(decoded) << decoded.error().message << "\n" << pod.dump(2);
    expect_same(*decoded, pod);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << pod.dump(2);
  }
}

}  // namespace
}  // namespace muster::client
