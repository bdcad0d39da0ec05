// A cluster that a borrower has filled with small jobs, and an owner who wants all of it at once: how long it
// takes, what it costs, and what becomes of it when the controller is killed on the way.
//
// CI runs 50 nodes of 8 GPUs; MUSTER_FULL_SIZE=1: 500. MUSTER_NODES: as many.
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <thread>

#include "fixture.h"
#include "history.h"
#include "write_log.h"

namespace muster::test {
namespace {

using testing::IsEmpty;
using Clock = std::chrono::steady_clock;

constexpr int kGpus = 8;                  // of a node
constexpr Milliseconds kPatience = 900s;  // at full size, beside others

std::int64_t milliseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<Milliseconds>(Clock::now() - start).count();
}

// `nodes` nodes that belong to `team`, and a project `guests` that owns nothing.
class Reclaimed : public testing::Test {
 protected:
  void start(int nodes, testcluster::Options options = {}) {
    nodes_ = nodes;
    options.audit = true;
    cluster_ = Cluster::start(nodes, kGpus, options, nodes * kGpus);
    cluster_->make_namespace("guests", "guests");
    cluster_->apply(
        "apiVersion: muster.dev/v1alpha1\nkind: Project\nmetadata: {name: guests}\nspec: {queue: root}\n");
    muster_ = cluster_->muster();
  }
  void TearDown() override {
    if (HasFailure() && muster_) {
      const std::string log = muster_->log();
      std::cerr << log.substr(log.size() - std::min<std::size_t>(log.size(), 6000));
    }
  }

  int loans() const { return nodes_ * kGpus; }
  static std::string loan(int i) { return "loan-" + std::to_string(i); }
  // One GPU each, that save as soon as they are asked to.
  void lend() {
    const std::map<std::string, std::string> annotations = {
        {"test.muster.dev/termination-message", R"({"checkpoint":{"step":1200}})"}};
    for (int i = 0; i < loans(); ++i) {
      cluster_->create(
          job_object({.name = loan(i),
                      .ns = "guests",
                      .pod_annotations = annotations,
                      .spec = {{"checkpoint", {{"gracePeriod", "1s"}}}, {"restart", {{"limit", 0}}}}}));
    }
    ASSERT_TRUE(wait_for_guests("Running", kPatience)) << testing::PrintToString(phases("guests"));
  }
  // All of the cluster, in one gang.
  void claim() { cluster_->create(job_object({.name = "owner", .replicas = nodes_, .gpus = kGpus})); }

  json jobs(const std::string& ns) const {
    const json list = cluster_->get("/apis/muster.dev/v1alpha1/namespaces/" + ns + "/trainingjobs");
    return list.is_null() ? json::array() : list["items"];
  }
  std::map<std::string, int> phases(const std::string& ns) const {
    std::map<std::string, int> counts;
    for (const auto& j : jobs(ns)) ++counts[j.value("/status/phase"_json_pointer, std::string())];
    return counts;
  }
  std::map<std::string, int> all_of(const std::string& phase) const { return {{phase, loans()}}; }
  // Asked seldom: the list of all is large.
  bool wait_for_guests(const std::string& phase, Milliseconds timeout) const {
    return testcluster::wait_until(timeout, [&] { return phases("guests") == all_of(phase); }, 500ms);
  }

  int count_saved(int least_step, const std::string& where = "/status/checkpoint/step") const {
    const json all = jobs("guests");
    return static_cast<int>(std::ranges::count_if(
        all, [&](const json& j) { return j.value(json::json_pointer(where), 0) >= least_step; }));
  }

  // The gang runs; all others wait, with what they have saved.
  void expect_taken_over(int least_step) const {
    EXPECT_EQ(phases("guests"), all_of("Queued"));
    for (const auto& j : jobs("guests")) {
      const json& status = j["status"];
      EXPECT_GE(status.value("/checkpoint/step"_json_pointer, 0), least_step) << j["metadata"]["name"];
      EXPECT_EQ(status.value("preemptions", 0), 1) << j["metadata"]["name"];
      EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0) << j["metadata"]["name"];
      if (HasFailure()) return;  // one will do
    }
    const json owner = cluster_->job("owner");
    EXPECT_EQ(owner["status"]["pods"], std::to_string(nodes_) + "/" + std::to_string(nodes_));
    EXPECT_EQ(owner["status"]["attempt"], 1);
    EXPECT_EQ(cluster_->all_pods().size(), static_cast<std::size_t>(nodes_));
    EXPECT_EQ(cluster_->audit_gpus(), "");
  }

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<MusterProcess> muster_;
  int nodes_ = 0;
};

TEST_F(Reclaimed, AWholeClusterIsHandedOverAndNothingIsLost) {
  start(number_from_environment("MUSTER_NODES", full_size() ? 500 : 50));
  WriteLog lending(cluster_->real().audit_log());
  const auto lent_at = Clock::now();
  lend();
  if (HasFatalFailure()) return;
  std::cout << loans() << " jobs of one GPU: running " << milliseconds_since(lent_at)
            << " ms after the first was submitted; writes:\n"
            << tell(lending.kinds());

  WriteLog writes(cluster_->real().audit_log());
  const auto asked_at = Clock::now();
  claim();
  ASSERT_TRUE(testcluster::wait_until(
      kPatience, [&] { return writes.of("delete pods") >= loans(); }, 5ms))
      << writes.of("delete pods") << " of " << loans() << "\n"
      << tell(writes.kinds());
  const auto told = milliseconds_since(asked_at);
  ASSERT_TRUE(cluster_->wait_phase("owner", "Running", kPatience))
      << cluster_->job("owner")["status"]["conditions"].dump(2);
  const auto ran = milliseconds_since(asked_at);
  ASSERT_TRUE(wait_for_guests("Queued", kPatience)) << testing::PrintToString(phases("guests"));
  // What a status interval (1 s here) puts off is in as well.
  for (int before = -1; before != writes.all();) {
    before = writes.all();
    std::this_thread::sleep_for(3s);
  }
  std::cout << "one gang of all " << loans() << " GPUs: the last of " << loans()
            << " victims asked to save after " << told << " ms, running after " << ran << " ms; "
            << writes.all() << " writes of Muster:\n"
            << tell(writes.kinds());
  RecordProperty("asked_to_save_ms", static_cast<int>(told));
  RecordProperty("running_ms", static_cast<int>(ran));
  RecordProperty("writes", writes.all());
  EXPECT_EQ(writes.of("delete pods"), loans()) << "each is told once";
  expect_taken_over(1200);
}

// The same while the controller is killed again and again. Every state that the API server has ever shown is
// judged, not only the last one.
TEST_F(Reclaimed, KilledAfterAnyWriteItEndsTheSameAndIsRightAtEveryMoment) {
  const int kills = number_from_environment("MUSTER_KILLS", 10);
  const unsigned seed = seed_of_run();
  RecordProperty("seed", static_cast<int>(seed));
  start(number_from_environment("MUSTER_NODES", 50));
  History history(*cluster_, {"trainingjobs"});
  // What a pod says with its last breath is lost if nobody listens (decisions/0028); what it has said before
  // is not.
  lend();
  if (HasFatalFailure()) return;
  for (const auto& pod : cluster_->all_pods()) {
    cluster_->patch(
        "/api/v1/namespaces/guests/pods/" + pod["metadata"]["name"].get<std::string>(),
        {{"metadata", {{"annotations", {{"muster.dev/checkpoint", R"({"checkpoint":{"step":1000}})"}}}}}});
  }
  ASSERT_TRUE(testcluster::wait_until(60s, [&] { return count_saved(1000) == loans(); }, 500ms));

  // For each victim its withdrawal, the request to its pod and its place in the queue; for the gang its pods.
  const int expected = 3 * loans() + nodes_;
  std::mt19937 random(seed);
  std::vector<int> fatal;
  for (int i = 0; i < kills; ++i) fatal.push_back(1 + static_cast<int>(random() % expected));
  std::ranges::sort(fatal);
  WriteLog writes(cluster_->real().audit_log());
  const auto asked_at = Clock::now();
  claim();
  int killed = 0;
  for (const int n : fatal) {
    // Fewer than expected: it is done.
    if (!testcluster::wait_until(60s, [&] { return writes.but_for_events() >= n; }, 1ms)) break;
    muster_->kill();
    ++killed;
    muster_ = cluster_->muster();
  }
  ASSERT_TRUE(cluster_->wait_phase("owner", "Running", kPatience))
      << cluster_->job("owner")["status"]["conditions"].dump(2);
  ASSERT_TRUE(wait_for_guests("Queued", kPatience)) << testing::PrintToString(phases("guests"));
  std::cout << "killed " << killed << " times on the way; the gang runs " << milliseconds_since(asked_at)
            << " ms after its submission, all wait with their checkpoints; " << writes.but_for_events()
            << " writes but for events:\n"
            << tell(writes.kinds());
  expect_taken_over(1000);

  // And back: nothing was lost that would be needed for it.
  cluster_->remove(path_of_job("owner"));
  ASSERT_TRUE(wait_for_guests("Running", kPatience)) << testing::PrintToString(phases("guests"));
  EXPECT_EQ(count_saved(1000, "/status/assignment/resume/step"), loans()) << "they go on from there";
  Auditor auditor;
  int changes = 0;
  history.replay([&](const Change& change) {
    ++changes;
    auditor.see(change);
  });
  std::cout << "audited " << changes << " states of the API server\n";
  EXPECT_THAT(auditor.problems(), IsEmpty());
  EXPECT_EQ(auditor.evictions().size(), static_cast<std::size_t>(loans()));
  EXPECT_FALSE(auditor.evictions().contains("owner"));
  EXPECT_EQ(auditor.pods_made(), 2 * loans() + nodes_);
}

}  // namespace
}  // namespace muster::test
