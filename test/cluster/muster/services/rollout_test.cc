// Revisions and canaries on a real API server: going back, promoting and aborting, while the operator is
// killed in between.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "history.h"
#include "metrics_servers.h"
#include "plugin_fixture.h"
#include "service_fixture.h"
#include "write_log.h"

namespace muster::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

std::string image(int n) {
  return "registry.example/serve:" + std::to_string(n);
}

// A service `chat`, and the operator that is killed.
class Rollouts : public testing::Test {
 protected:
  void start(int replicas, const json& rollout, const testcluster::Options& options = {}) {
    s_.cluster = Cluster::start(3, 4, options);
    history_ = std::make_unique<History>(*s_.cluster, std::vector<std::string>{"trainingjobs"});
    s_.muster = s_.cluster->muster();
    s_.cluster->create(service_object("chat", replicas, {{"rollout", rollout}}));
    ASSERT_TRUE(rolled_out(image(1), replicas)) << s_.say("chat");
  }
  void TearDown() override {
    if (HasFailure() && s_.muster) std::cerr << s_.muster->log().substr(0, 20000);
  }

  void kill_and_start() {
    s_.muster->kill();
    s_.muster = s_.cluster->muster();
  }
  std::string ask(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "rollout");
    arguments.insert(arguments.end(), {"-n", "team", "chat"});
    const auto said = ask_plugin(std::move(arguments), s_.cluster->real().kubeconfig());
    return said.out + said.err;
  }
  // Replicas of each image that are there and stay; `ready`: all of whose pods are ready.
  std::map<std::string, int> replicas(bool ready = true) const {
    std::map<std::string, int> all;
    const json list = s_.cluster->get("/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs");
    for (const auto& job : list["items"]) {
      if (job["metadata"].contains("deletionTimestamp")) continue;
      if (ready && job.value("/status/readyReplicas"_json_pointer, 0) == 0) continue;
      ++all[job["spec"]["roles"][0]["template"]["spec"]["containers"][0]["image"]];
    }
    return all;
  }
  bool wait_replicas(const std::map<std::string, int>& wanted, Milliseconds timeout = 60s) const {
    return s_.cluster->wait(timeout, [&] { return replicas() == wanted && replicas(false) == wanted; });
  }
  bool wait_reason(const std::string& reason, Milliseconds timeout = 60s) const {
    return s_.cluster->wait(timeout, [&] { return s_.condition("chat", "RolledOut")["reason"] == reason; });
  }
  bool rolled_out(const std::string& of, int n) const {
    return wait_replicas({{of, n}}) && s_.cluster->wait(30s, [&] {
      return s_.condition("chat", "RolledOut")["status"] == "True" &&
             s_.status("chat")["stableRevision"] == s_.status("chat")["revision"] &&
             s_.status("chat").value("readyReplicas", 0) == n;
    });
  }
  std::vector<json> kept() const {
    return s_.cluster->get("/apis/apps/v1/namespaces/team/controllerrevisions")["items"];
  }
  std::vector<int> numbers() const {
    std::vector<int> all;
    for (const auto& one : s_.status("chat")["revisions"]) all.push_back(one["number"]);
    return all;
  }

  // The operator is killed when it has written so often, again and again, after what `act` does.
  void kill_after(const std::function<void()>& act, std::vector<int> writes) {
    WriteLog log(s_.cluster->real().audit_log());
    std::ranges::sort(writes);
    act();
    for (const int n : writes) {
      testcluster::wait_until(10s, [&] { return log.but_for_events() >= n; }, 1ms);
      kill_and_start();
    }
  }

  Stage s_;
  std::unique_ptr<History> history_;  // of all that there ever was; it ends before the cluster does
};

// How many replicas there are of each image, and how many pods serve, after each write.
class Counted {
 public:
  void see(const Change& change) {
    const json& meta = change.object["metadata"];
    if (!meta.value("labels", json::object()).contains("muster.dev/service")) return;
    const std::string uid = meta["uid"];
    const bool stays = !change.is_gone && !meta.contains("deletionTimestamp");
    if (change.object["kind"] == "TrainingJob") {
      replicas_.erase(uid);
      if (stays)
        replicas_[uid] = change.object["spec"]["roles"][0]["template"]["spec"]["containers"][0]["image"];
      most_ = std::max(most_, static_cast<int>(replicas_.size()));
    } else if (change.object["kind"] == "Pod") {
      const json status = change.object.value("status", json::object());
      const json conditions = status.value("conditions", json::array());
      const bool ready = std::ranges::any_of(
          conditions, [](const json& c) { return c["type"] == "Ready" && c["status"] == "True"; });
      serving_.erase(uid);
      if (stays && ready) serving_.insert(uid);
    }
  }
  int of(const std::string& image) const {
    return static_cast<int>(
        std::ranges::count_if(replicas_, [&](const auto& r) { return r.second == image; }));
  }
  int most() const { return most_; }
  int serving() const { return static_cast<int>(serving_.size()); }

 private:
  std::map<std::string, std::string> replicas_;  // by uid
  std::set<std::string> serving_;
  int most_ = 0;
};

TEST_F(Rollouts, GoBackToAnEarlierRevisionAndKeepAFew) {
  start(2, {{"revisionHistoryLimit", 1}});
  EXPECT_EQ(numbers(), std::vector{1});
  s_.roll("chat", image(2));
  ASSERT_TRUE(rolled_out(image(2), 2)) << s_.say("chat");
  const json two = s_.status("chat");
  ASSERT_EQ(numbers(), (std::vector{2, 1}));
  EXPECT_EQ(two["revisions"][0]["images"][0], image(2));
  EXPECT_EQ(two["revisions"][0]["replicas"], 2);
  EXPECT_THAT(ask({"history"}),
              ContainsRegex("2 +" + two["revision"].get<std::string>() + " +in force +2 +2"));
  ASSERT_EQ(kept().size(), 2u);
  for (const auto& one : kept()) EXPECT_EQ(one["metadata"]["ownerReferences"][0]["name"], "chat");

  // The one who is told dies at once; the next has only the objects.
  s_.muster->kill();
  EXPECT_THAT(ask({"undo"}), HasSubstr("goes back to revision 1 ("));
  s_.muster = s_.cluster->muster();
  ASSERT_TRUE(rolled_out(image(1), 2)) << s_.say("chat");
  EXPECT_EQ(s_.condition("chat", "RolledOut")["reason"], "RolledBack");
  EXPECT_THAT(ask({"status"}), HasSubstr("spec.rollout.toRevision"));
  EXPECT_EQ(numbers(), (std::vector{3, 2})) << "the first has come into force again";
  s_.scale("chat", 3);
  ASSERT_TRUE(wait_replicas({{image(1), 3}})) << "what is made now is made of the kept one";
  s_.scale("chat", 2);
  ASSERT_TRUE(wait_replicas({{image(1), 2}}));

  // One that nobody keeps is refused, and nothing changes.
  s_.cluster->patch(path_of_service("chat"), {{"spec", {{"rollout", {{"toRevision", "f00f00"}}}}}});
  ASSERT_TRUE(s_.cluster->wait(20s, [&] { return s_.condition("chat", "Accepted")["status"] == "False"; }));
  EXPECT_THAT(s_.condition("chat", "Accepted")["message"].get<std::string>(),
              HasSubstr("spec.rollout.toRevision: there is no revision \"f00f00\""));
  EXPECT_TRUE(wait_replicas({{image(1), 2}}));

  // Back to what the spec says.
  EXPECT_THAT(ask({"undo", "--to-revision", "2"}), HasSubstr("that of its spec"));
  ASSERT_TRUE(rolled_out(image(2), 2)) << s_.say("chat");
  EXPECT_FALSE(s_.cluster->get(path_of_service("chat"))["spec"]["rollout"].contains("toRevision"));
  EXPECT_EQ(s_.condition("chat", "RolledOut")["reason"], "RolledOut");

  for (const int n : {3, 4}) {
    s_.roll("chat", image(n));
    ASSERT_TRUE(rolled_out(image(n), 2)) << s_.say("chat");
  }
  EXPECT_TRUE(s_.cluster->wait(20s, [&] { return numbers() == std::vector{6, 5} && kept().size() == 2; }))
      << s_.say("chat");
  EXPECT_THAT(ask({"undo", "--to-revision", "1"}), HasSubstr("error: there is no revision 1"));
  s_.cluster->remove(path_of_service("chat"));
  EXPECT_TRUE(s_.cluster->wait(kCollected, [&] { return kept().empty(); })) << "they go with their service";
}

TEST_F(Rollouts, ACanaryStaysIsTakenBackAndIsPromotedWhoeverDies) {
  start(4, {{"canary", {{"percent", 25}}}});
  const std::string stable = s_.status("chat")["revision"];
  s_.roll("chat", image(2));
  for (int i = 0; i < 2; ++i) kill_and_start();
  ASSERT_TRUE(wait_replicas({{image(1), 3}, {image(2), 1}})) << s_.say("chat");
  ASSERT_TRUE(wait_reason("CanaryServes")) << s_.say("chat");
  EXPECT_EQ(s_.status("chat")["stableRevision"], stable);
  EXPECT_EQ(s_.status("chat")["canary"]["replicas"], 1);
  EXPECT_THAT(ask({"history"}), ContainsRegex("1 +" + stable + " +stable +3 +3"));

  // It stays, whoever looks, and what is lost comes back of its own revision.
  kill_and_start();
  const json list = s_.cluster->get("/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs");
  for (const auto& job : list["items"]) {
    if (job["metadata"]["name"].get<std::string>().ends_with("-0"))
      s_.cluster->remove(path_of_job(job["metadata"]["name"]));
  }
  s_.scale("chat", 8);
  ASSERT_TRUE(wait_replicas({{image(1), 6}, {image(2), 2}}, 120s)) << s_.say("chat");
  s_.scale("chat", 4);
  ASSERT_TRUE(wait_replicas({{image(1), 3}, {image(2), 1}})) << s_.say("chat");

  // Taken back, by a process that comes when all has been said.
  s_.muster->kill();
  EXPECT_THAT(ask({"abort"}), HasSubstr("gives its replicas back to revision " + stable));
  s_.muster = s_.cluster->muster();
  ASSERT_TRUE(rolled_out(image(1), 4)) << s_.say("chat");
  EXPECT_EQ(s_.status("chat")["revision"], stable);
  EXPECT_EQ(s_.condition("chat", "RolledOut")["reason"], "RolledBack");
  EXPECT_THAT(s_.condition("chat", "RolledOut")["message"].get<std::string>(), HasSubstr("was aborted"));
  EXPECT_TRUE(s_.cluster->wait(20s, [&] { return s_.events("chat").contains("CanaryAborted"); }));
  EXPECT_FALSE(s_.status("chat").contains("canary"));
  kill_and_start();
  s_.cluster->catch_up();
  EXPECT_TRUE(wait_replicas({{image(1), 4}})) << "it stays aborted";

  // The next edit is a canary again, and that one is promoted.
  s_.roll("chat", image(3));
  ASSERT_TRUE(wait_replicas({{image(1), 3}, {image(3), 1}})) << s_.say("chat");
  ASSERT_TRUE(wait_reason("CanaryServes")) << s_.say("chat");
  EXPECT_THAT(ask({"promote"}), HasSubstr("gets all replicas"));
  for (int i = 0; i < 3; ++i) kill_and_start();
  ASSERT_TRUE(rolled_out(image(3), 4)) << s_.say("chat");
  EXPECT_THAT(ask({"abort"}), HasSubstr("error: no canary is under way"));

  // Of everything that the API server has ever shown: the parts were kept, and none was too many.
  Counted counted;
  history_->replay([&](const Change& change) {
    counted.see(change);
    EXPECT_LE(counted.of(image(2)), 2) << "a canary is never more than its part";
  });
  EXPECT_GE(counted.most(), 8);
  EXPECT_LE(counted.most(), 9) << "of the 8 that were asked for at most";
  EXPECT_EQ(s_.cluster->audit_gpus(), "");
}

// Its only replica is not the first that tries something.
TEST_F(Rollouts, ACanaryOfAServiceOfOneReplicaIsOneMoreAndFromZeroTheStableOneIsFirst) {
  start(1, {{"canary", {{"percent", 50}}}});
  s_.roll("chat", image(2));
  ASSERT_TRUE(wait_replicas({{image(1), 1}, {image(2), 1}})) << s_.say("chat");
  ASSERT_TRUE(wait_reason("CanaryServes")) << s_.say("chat");
  kill_and_start();
  s_.cluster->catch_up();
  EXPECT_TRUE(wait_replicas({{image(1), 1}, {image(2), 1}})) << "it stays";

  s_.scale("chat", 0);
  ASSERT_TRUE(wait_replicas({})) << s_.say("chat");
  ASSERT_TRUE(wait_reason("CanaryWaits")) << s_.say("chat");
  EXPECT_THAT(s_.condition("chat", "RolledOut")["message"].get<std::string>(), HasSubstr("at size 0"));
  EXPECT_EQ(s_.condition("chat", "Reconciling")["status"], "False");
  s_.scale("chat", 1);
  ASSERT_TRUE(wait_replicas({{image(1), 1}, {image(2), 1}})) << s_.say("chat");
  ASSERT_TRUE(wait_reason("CanaryServes")) << s_.say("chat");
  Counted counted;
  int canary_first = 0;
  history_->replay([&](const Change& change) {
    counted.see(change);
    if (counted.of(image(1)) > 0) return;
    canary_first = counted.of(image(2)) > 0 ? canary_first + 1 : 0;  // counted since there was none
  });
  EXPECT_EQ(canary_first, 0);

  EXPECT_THAT(ask({"promote"}), HasSubstr("gets all replicas"));
  ASSERT_TRUE(rolled_out(image(2), 1)) << s_.say("chat");
}

TEST_F(Rollouts, StepsGoOnByThemselvesAndNotWhileTheCanaryDoesNotServe) {
  start(4, {{"canary",
             {{"steps", {{{"percent", 25}, {"duration", "3s"}}, {{"percent", 50}, {"duration", "3s"}}}}}}});
  s_.roll("chat", image(2));
  ASSERT_TRUE(s_.cluster->wait(30s, [&] {
    return s_.status("chat").contains("/canary/readySince"_json_pointer);
  })) << s_.say("chat");
  const json since = s_.status("chat")["canary"]["readySince"];
  kill_and_start();
  EXPECT_TRUE(s_.status("chat")["canary"]["readySince"] == since ||
              s_.status("chat")["canary"].value("step", 0) == 1)
      << "the time goes on";
  ASSERT_TRUE(s_.cluster->wait(30s, [&] {
    return s_.status("chat").value("/canary/step"_json_pointer, 0) == 1;
  })) << s_.say("chat");
  ASSERT_TRUE(rolled_out(image(2), 4)) << s_.say("chat");
  EXPECT_TRUE(s_.cluster->wait(20s, [&] { return s_.events("chat").contains("CanaryPromoted"); }));

  // One that does not come up costs nobody a replica, and no step passes.
  s_.cluster->patch(
      path_of_service("chat"),
      {{"spec", {{"template", {{"metadata", {{"annotations", {{"test.muster.dev/start-after", "1h"}}}}}}}}}});
  ASSERT_TRUE(s_.cluster->wait(30s, [&] { return s_.status("chat").value("replicas", 0) == 5; }))
      << s_.say("chat");
  std::this_thread::sleep_for(5s);
  kill_and_start();
  s_.cluster->catch_up();
  EXPECT_FALSE(s_.status("chat")["canary"].contains("readySince")) << s_.say("chat");
  EXPECT_EQ(s_.status("chat")["readyReplicas"], 4);
  EXPECT_THAT(ask({"abort"}), HasSubstr("gives its replicas back"));
  ASSERT_TRUE(rolled_out(image(2), 4)) << s_.say("chat");
}

// Servers of image 2 answer half of their requests with an error, those of others none.
TEST_F(Rollouts, AnalysisAbortsACanaryThatAnswersWithErrorsAndLetsAnotherPass) {
  std::array<std::atomic<int>, 2> answered{};
  MetricsServers servers(2, [&](int i) {
    const int n = answered[static_cast<std::size_t>(i)] += 10;
    const int errors = i == 1 ? n / 2 : 0;
    return controller::HttpAnswer{
        200, "http_requests_total{handler=\"/v1\",status=\"2xx\"} " + std::to_string(n - errors) +
                 "\nhttp_requests_total{handler=\"/v1\",status=\"5xx\"} " + std::to_string(errors) + "\n"};
  });
  start(4, {{"canary",
             {{"steps", {{{"percent", 25}, {"duration", "2s"}}}},
              {"analysis", {{"window", "4s"}, {"checks", {{{"metric", "ErrorRate"}, {"max", "50m"}}}}}}}}});
  s_.cluster->patch(path_of_service("chat"), {{"spec", {{"port", servers.port()}}}});
  const auto give_addresses = [&] {
    for (const auto& pod : s_.pods("chat")) {
      const std::string ip = pod["status"].value("podIP", "");
      if (ip.empty() || ip.starts_with("127.") || pod["metadata"].contains("deletionTimestamp")) continue;
      const std::string mine =
          MetricsServers::address(pod["spec"]["containers"][0]["image"] == image(2) ? 1 : 0);
      const json status = {{"status", {{"podIP", mine}, {"podIPs", {{{"ip", mine}}}}}}};
      // It may have gone meanwhile.
      static_cast<void>(s_.cluster->real().request(
          "PATCH", "/api/v1/namespaces/team/pods/" + pod["metadata"]["name"].get<std::string>() + "/status",
          status.dump(), "application/merge-patch+json"));
    }
  };
  const auto wait = [&](const std::function<bool()>& done) {
    return s_.cluster->wait(60s, [&] {
      give_addresses();
      return done();
    });
  };

  const std::string stable = s_.status("chat")["revision"];
  s_.roll("chat", image(2));
  ASSERT_TRUE(wait([&] { return s_.status("chat").contains("abortedCanary"); })) << s_.say("chat");
  const json aborted = s_.status("chat")["abortedCanary"];
  EXPECT_THAT(aborted["message"].get<std::string>(), HasSubstr("ErrorRate is 0.5 over 4s, max 0.05"));
  ASSERT_TRUE(rolled_out(image(1), 4)) << s_.say("chat");
  EXPECT_EQ(s_.status("chat")["revision"], stable);
  EXPECT_THAT(s_.condition("chat", "RolledOut")["message"].get<std::string>(),
              HasSubstr("was aborted by spec.rollout.canary.analysis: ErrorRate is 0.5"));
  EXPECT_TRUE(s_.cluster->wait(20s, [&] { return s_.events("chat").contains("CanaryAborted"); }));
  kill_and_start();
  s_.cluster->catch_up();
  EXPECT_TRUE(wait_replicas({{image(1), 4}})) << "who comes next does not try it again";
  EXPECT_EQ(s_.status("chat")["abortedCanary"], aborted);

  s_.roll("chat", image(3));
  ASSERT_TRUE(wait([&] { return replicas() == std::map<std::string, int>{{image(3), 4}}; }))
      << s_.say("chat");
  ASSERT_TRUE(rolled_out(image(3), 4)) << s_.say("chat");
  EXPECT_FALSE(s_.status("chat").contains("abortedCanary"));

  Counted counted;
  int of_three_in_all = 0;
  history_->replay([&](const Change& change) {
    counted.see(change);
    EXPECT_LE(counted.of(image(2)), 1) << "it never got more than its step";
    of_three_in_all = std::max(of_three_in_all, counted.of(image(3)));
  });
  EXPECT_EQ(of_three_in_all, 4);
}

TEST_F(Rollouts, KilledAfterAnyWriteItLosesNeitherTheStableRevisionNorAReplicaThatServes) {
  constexpr int kReplicas = 6, kShare = 2;
  const unsigned seed = seed_of_run();
  std::mt19937 random(seed);
  const auto at = [&](int kills, int most) {
    std::vector<int> writes;
    for (int i = 0; i < kills; ++i)
      writes.push_back(1 + static_cast<int>(random() % static_cast<unsigned>(most)));
    return writes;
  };
  testcluster::Options options;
  options.audit = true;
  start(kReplicas, {{"canary", {{"percent", 34}}}}, options);
  const std::string stable = s_.status("chat")["revision"];

  kill_after([&] { s_.roll("chat", image(2)); }, at(4, 16));
  ASSERT_TRUE(wait_replicas({{image(1), kReplicas - kShare}, {image(2), kShare}}, 120s)) << s_.say("chat");
  ASSERT_TRUE(wait_reason("CanaryServes")) << s_.say("chat");
  EXPECT_EQ(s_.status("chat")["stableRevision"], stable);
  kill_after([&] { ask({"abort"}); }, at(3, 14));
  ASSERT_TRUE(rolled_out(image(1), kReplicas)) << s_.say("chat");
  EXPECT_EQ(s_.status("chat")["stableRevision"], stable);
  kill_after([&] { s_.roll("chat", image(3)); }, at(3, 16));
  ASSERT_TRUE(wait_reason("CanaryServes", 120s)) << s_.say("chat");
  kill_after([&] { ask({"promote"}); }, at(4, 30));
  ASSERT_TRUE(rolled_out(image(3), kReplicas)) << s_.say("chat");
  EXPECT_EQ(kept().size(), 3u);

  Counted counted;
  int fewest = kReplicas;
  bool began = false;
  history_->replay([&](const Change& change) {
    counted.see(change);
    began = began || counted.serving() == kReplicas;
    if (began) fewest = std::min(fewest, counted.serving());
    EXPECT_LE(counted.of(image(2)), kShare) << "it was never promoted";
  });
  EXPECT_EQ(counted.most(), kReplicas + 1);
  EXPECT_TRUE(began);
  EXPECT_EQ(fewest, kReplicas);
  EXPECT_EQ(s_.cluster->audit_gpus(), "");
}

}  // namespace
}  // namespace muster::test
