// An upgrade from an earlier version and the way back, with work in every state and more coming. That version
// is built from the repository's history (scripts/build-older.sh): `make test-upgrade`.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>

#include "delivery.h"

namespace muster::test {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

constexpr const char* kOlder =
    "d846148";  // the last one before overlays, the chart, Stalled and learned run times
const std::string kApi = "/apis/muster.dev/v1alpha1/";
const std::vector<std::string> kElect = {"--leader-elect", "--lease-namespace", "muster-system"};

// Users who submit short jobs all the time.
class Load {
 public:
  Load(Cluster& cluster, std::string name)
      : cluster_(cluster), name_(std::move(name)), thread_([this] { submit(); }) {}
  ~Load() { end(); }
  // All that were submitted.
  std::vector<std::string> end() {
    if (thread_.joinable()) {
      ends_ = true;
      thread_.join();
    }
    return names_;
  }

 private:
  void submit() {
    for (int i = 0; !ends_; ++i) {
      const std::string name = fmt::format("short-{}-{}", name_, i);
      const json job =
          job_object({.name = name, .gpus = i % 2, .pod_annotations = {{"test.muster.dev/runs-for", "1s"}}});
      if (cluster_.try_create(job).ok()) {
        names_.push_back(name);
      } else {
        ADD_FAILURE() << name << " was refused";
      }
      std::this_thread::sleep_for(300ms);
    }
  }
  Cluster& cluster_;
  std::string name_;
  std::vector<std::string> names_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

class Upgrade : public testing::Test {
 protected:
  void SetUp() override {
    older_ = run({MUSTER_SOURCE_DIR "/scripts/build-older.sh", kOlder, "--path"});
    while (!older_.empty() && older_.back() == '\n') older_.pop_back();
    cluster_ = Cluster::start_with([this](testcluster::TestCluster& real) {
      return real.apply_without_deployments(older_ + "/source/manifests/base");
    });
    cluster_->add_team(2, 8);
  }
  std::unique_ptr<MusterProcess> older() {
    setenv("MUSTER_OPERATOR", (older_ + "/muster").c_str(), 1);
    auto process = cluster_->muster(kElect);
    unsetenv("MUSTER_OPERATOR");
    return process;
  }
  // CRDs and rights first, then one process more, then the one before goes: as the Deployment rolls.
  void replace(std::unique_ptr<MusterProcess>& running, const std::string& base, bool by_older) {
    const auto applied = cluster_->real().apply_without_deployments(base);
    ASSERT_TRUE(applied) << applied.error();
    auto next = by_older ? older() : cluster_->muster(kElect);
    EXPECT_EQ(running->stop(), 0) << running->log();
    running = std::move(next);
    const std::string name = by_older ? "after-return" : "after-upgrade";
    cluster_->create(job_object({.name = name, .gpus = 0}));
    EXPECT_TRUE(cluster_->wait_phase(name, "Running", 60s)) << running->log();
    cluster_->remove(path_of_job(name));
  }

  void fill() {
    add_jobs_at_rest(*cluster_);
    start(*cluster_, {.name = "train", .replicas = 2, .gpus = 4}, "Running");
    start(*cluster_, {.name = "slow", .gpus = 0, .pod_annotations = {{"test.muster.dev/start-after", "10m"}}},
          "Starting");
    start(*cluster_, {.name = "odd", .spec = {{"priorityClassName", "no-such-class"}}}, "Queued");
    add_sharer_and_service(*cluster_);
    start(*cluster_, {.name = "waits", .replicas = 2, .gpus = 8}, "Queued");
    start(*cluster_,
          {.name = "saves",
           .gpus = 0,
           .pod_annotations = {{"test.muster.dev/save-for", "100s"}},
           .spec = {{"checkpoint", {{"gracePeriod", "5m"}}}}},
          "Running");
    cluster_->patch(path_of_job("saves"), {{"spec", {{"suspend", true}}}});
    EXPECT_TRUE(cluster_->wait_phase("saves", "Checkpointing"));
  }

  // kind/namespace/name -> object, of everything that Muster's kinds have, but for the load.
  std::map<std::string, json> objects() const {
    std::map<std::string, json> all;
    for (const char* kind : {"queues", "projects", "nodepools", "trainingjobs", "inferenceservices"}) {
      const json list = cluster_->get(kApi + kind);
      for (const auto& item : list["items"]) {
        const std::string name = item["metadata"]["name"];
        if (name.starts_with("short-") || name.starts_with("after-")) continue;
        all[fmt::format("{}/{}/{}", kind, item["metadata"].value("namespace", ""), name)] = item;
      }
    }
    return all;
  }
  // Of pods that are not of the load: nothing happened to them while this stays.
  std::map<std::string, std::string> uids() const {
    std::map<std::string, std::string> all;
    for (const auto& pod : cluster_->all_pods()) {
      const std::string name = pod["metadata"]["name"];
      if (!name.starts_with("short-") && !name.starts_with("after-")) all[name] = pod["metadata"]["uid"];
    }
    return all;
  }
  static std::set<std::string> paths_of(const json& value, const std::string& at = "") {
    std::set<std::string> all;
    for (const auto& [key, item] : value.items()) {
      if (item.is_object())
        all.merge(paths_of(item, at + "/" + key));
      else
        all.insert(at + "/" + key);
    }
    return all;
  }
  // What may change while time goes on and others come and go.
  static bool is_of_the_moment(const std::string& path) {
    static const std::vector<std::string> kOfTheMoment = {
        "/status/queue/",   "/status/usage/",    "/status/allocated", "/status/pending",
        "/status/borrowed", "/status/fairShare", "/status/free",      "/status/largestGang",
        "/status/running",  "/status/waiting",   "/status/retryAt",   "/status/pools"};
    return std::ranges::any_of(kOfTheMoment, [&](const auto& begin) { return path.starts_with(begin); });
  }
  // Nothing that the older schemas know went, and nothing but numbers of the moment changed.
  static void expect_kept(const std::map<std::string, json>& before,
                          const std::map<std::string, json>& after) {
    for (const auto& [name, old] : before) {
      SCOPED_TRACE(name);
      const auto found = after.find(name);
      ASSERT_NE(found, after.end()) << "is lost";
      const json& now = found->second;
      EXPECT_EQ(now["metadata"]["uid"], old["metadata"]["uid"]);
      EXPECT_EQ(now["metadata"]["generation"], old["metadata"]["generation"]);
      json spec = now["spec"];  // newer schemas may have defaults for fields of their own
      spec.merge_patch(old["spec"]);
      EXPECT_EQ(now["spec"], spec);
      const auto there = paths_of({{"status", now.value("status", json::object())}});
      for (const auto& path : paths_of({{"status", old.value("status", json::object())}})) {
        if (path.ends_with("/conditions")) continue;
        EXPECT_TRUE(there.contains(path) || path.starts_with("/status/queue/estimated") ||
                    path.starts_with("/status/runTimes") || path.starts_with("/status/retryAt") ||
                    path.starts_with("/status/fairShare"))  // of what is asked for now
            << path << " went";
        const json::json_pointer at(path);
        if (there.contains(path) && !is_of_the_moment(path)) EXPECT_EQ(now[at], old[at]) << path;
      }
      for (const auto& condition : old["status"].value("conditions", json::array())) {
        const auto& now_has = now["status"]["conditions"];
        const auto same =
            std::ranges::find_if(now_has, [&](const json& c) { return c["type"] == condition["type"]; });
        ASSERT_NE(same, now_has.end()) << condition["type"];
        if (condition["type"] == "Admitted") continue;  // its message has what the job waits for
        EXPECT_EQ((*same)["status"], condition["status"]) << condition["type"];
        EXPECT_EQ((*same)["reason"], condition["reason"]) << condition["type"];
        EXPECT_EQ((*same)["lastTransitionTime"], condition["lastTransitionTime"]) << condition["type"];
      }
    }
  }
  // Two looks, five seconds apart, find the same versions of all objects.
  void expect_quiet() const {
    const auto versions = [&] {
      std::map<std::string, json> all;
      for (const auto& [name, object] : objects()) all[name] = object["metadata"]["resourceVersion"];
      return all;
    };
    auto before = versions();
    EXPECT_TRUE(cluster_->wait(40s, [&] {
      std::this_thread::sleep_for(5s);
      return std::exchange(before, versions()) == before;
    })) << "something is written all the time";
  }
  void expect_all_succeed(const std::vector<std::string>& names) const {
    EXPECT_GE(names.size(), 10u);
    for (const auto& name : names) {
      EXPECT_TRUE(cluster_->wait_phase(name, "Succeeded", 60s)) << cluster_->job(name).dump(1);
      EXPECT_EQ(cluster_->job(name)["status"]["attempt"], 1) << cluster_->job(name).dump(1);
    }
  }

  std::string older_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(Upgrade, ThereAndBackNothingIsLostAndNoPodNotices) {
  auto muster = older();
  fill();
  auto before = objects();
  const auto pods = uids();
  ASSERT_GE(pods.size(), 8u);
  {
    Load load(*cluster_, "there");
    std::this_thread::sleep_for(2s);
    replace(muster, manifests("base"), false);
    std::this_thread::sleep_for(2s);
    expect_all_succeed(load.end());
  }
  EXPECT_EQ(uids(), pods);
  const auto upgraded = objects();
  expect_kept(before, upgraded);
  EXPECT_EQ(cluster_->audit_gpus(), "");
  EXPECT_TRUE(serves(*cluster_));
  EXPECT_EQ(cluster_->reason("waits"), "InsufficientCapacity");
  EXPECT_EQ(cluster_->condition("odd", "Stalled")["status"], "True");
  for (const auto& [name, object] : upgraded)
    EXPECT_TRUE(object["status"].dump().find("Stalled") != std::string::npos) << name << " was not looked at";
  expect_quiet();

  // A field that only the newer one knows is in use.
  cluster_->patch(kApi + "nodepools/default", {{"spec", {{"pricePerGPUHour", "2.5"}}}});
  cluster_->catch_up();
  json& pool = before.at("nodepools//default");
  pool["metadata"]["generation"] = pool["status"]["observedGeneration"] = 2;
  for (auto& condition : pool["status"]["conditions"]) condition["observedGeneration"] = 2;
  {
    Load load(*cluster_, "back");
    std::this_thread::sleep_for(2s);
    replace(muster, older_ + "/source/manifests/base", true);
    std::this_thread::sleep_for(2s);
    expect_all_succeed(load.end());
  }
  EXPECT_EQ(uids(), pods);
  expect_kept(before, objects());
  EXPECT_EQ(cluster_->audit_gpus(), "");
  EXPECT_TRUE(serves(*cluster_));
  EXPECT_FALSE(cluster_->get(kApi + "nodepools/default")["spec"].contains("pricePerGPUHour"));
  expect_quiet();

  // And forth again: what the older one has left is as good as new.
  replace(muster, manifests("base"), false);
  EXPECT_EQ(uids(), pods);
  expect_kept(before, objects());
  cluster_->patch(path_of_job("paused"), {{"spec", {{"suspend", false}}}});
  EXPECT_TRUE(cluster_->wait_phase("paused", "Running"));
  EXPECT_THAT(muster->log(), testing::Not(testing::HasSubstr("cannot be read")));
}

}  // namespace
}  // namespace muster::test
