// The pure parts of the page's server: who may ask, what of an object leaves it, and what a browser is told.
// That all of it works together is tried on a control plane, in a browser (test/cluster/muster/ui).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assets.h"
#include "model.h"
#include "one/details.h"
#include "rows.h"
#include "who/guard.h"

namespace muster::ui {
namespace {

using crds::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Text text(const std::string& json) {
  return std::make_shared<const std::string>(json);
}

int status(const std::optional<Refusal>& refusal) {
  return refusal ? refusal->status : 200;
}

const Guard kGuard("secret", 4000);

TEST(Guard, AnswersOnlyUnderItsOwnName) {
  EXPECT_EQ(status(kGuard.refuses({"GET", "127.0.0.1:4000", "", ""})), 200);
  EXPECT_EQ(status(kGuard.refuses({"GET", "localhost:4000", "http://localhost:4000", ""})), 200);
  for (const char* host : {"", "127.0.0.1", "127.0.0.1:4001", "evil.example:4000",
                           "127.0.0.1:4000.evil.example", "evil.example@127.0.0.1:4000"}) {
    EXPECT_EQ(status(kGuard.refuses({"GET", host, "", ""})), 421) << host;
  }
  for (const char* origin :
       {"http://evil.example", "http://127.0.0.1:4001", "https://127.0.0.1:4000", "null"}) {
    EXPECT_EQ(status(kGuard.refuses({"GET", "127.0.0.1:4000", origin, ""})), 403) << origin;
  }
}

TEST(Guard, ChangesNothing) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "HEAD"})
    EXPECT_EQ(status(kGuard.refuses({method, "127.0.0.1:4000", "", ""})), 405) << method;
}

TEST(Guard, TellsOfTheClusterOnlyWithTheToken) {
  EXPECT_EQ(status(kGuard.refuses_data({"GET", "127.0.0.1:4000", "", "Bearer secret"})), 200);
  for (const char* said :
       {"", "secret", "Bearer ", "Bearer secre", "Bearer secret1", "bearer secret", "Basic secret"})
    EXPECT_EQ(status(kGuard.refuses_data({"GET", "127.0.0.1:4000", "", said})), 401) << said;
  EXPECT_EQ(status(kGuard.refuses_data({"GET", "evil.example:4000", "", "Bearer secret"})), 421);
}

TEST(Guard, HasANewTokenEachTime) {
  const std::string token = new_token();
  EXPECT_THAT(token, testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(token, new_token());
  EXPECT_EQ(Guard(token, 80).url(), "http://127.0.0.1:80/#token=" + token);
}

TEST(Assets, AreThePageAndNothingElse) {
  ASSERT_NE(find_asset("/"), nullptr);
  EXPECT_EQ(find_asset("/")->name, "index.html");
  EXPECT_EQ(find_asset("/../etc/passwd"), nullptr);
  EXPECT_EQ(find_asset("index.html"), nullptr);
  for (const Asset& asset : assets()) {
    EXPECT_NE(content_type(asset.name), "application/octet-stream") << asset.name;
    EXPECT_THAT(std::string(asset.content), Not(HasSubstr("innerHTML"))) << asset.name;
  }
}

class AModel : public testing::Test {
 protected:
  Model model_;
  int told_ = 0;
  Model::Reader reader_{model_, [this] { ++told_; }};
};

TEST_F(AModel, TellsEverythingOnceAndThenWhatHasChanged) {
  model_.set(Table::kJobs, "team/a", text(R"({"phase":"Queued"})"));
  model_.set(Table::kNodes, "n", text(R"({"gpus":8})"));
  EXPECT_TRUE(reader_.has_changes());
  const Json all = Json::parse(reader_.snapshot());
  EXPECT_EQ(all["jobs"], Json({{"team/a", {{"phase", "Queued"}}}}));
  EXPECT_EQ(all["projects"], Json::object());
  EXPECT_FALSE(reader_.has_changes());
  EXPECT_EQ(reader_.changes(), "{}");

  model_.set(Table::kJobs, "team/a", text(R"({"phase":"Running"})"));
  model_.set(Table::kJobs, "team/b", text("{}"));
  model_.erase(Table::kJobs, "team/b");
  EXPECT_EQ(Json::parse(reader_.changes()),
            Json({{"jobs", {{"team/a", {{"phase", "Running"}}}, {"team/b", nullptr}}}}));
  EXPECT_FALSE(reader_.has_changes());
}

TEST_F(AModel, SaysNothingWhereNothingIsNew) {
  model_.set(Table::kPlaces, "team/a", text("[]"));
  EXPECT_EQ(told_, 1);
  model_.set(Table::kPlaces, "team/b", text("[]"));
  EXPECT_EQ(told_, 1) << "the reader has not read yet";
  reader_.changes();
  model_.set(Table::kPlaces, "team/a", text("[]"));
  model_.erase(Table::kPlaces, "team/c");
  EXPECT_FALSE(reader_.has_changes());
  model_.set(Table::kPlaces, "team/a", nullptr);
  EXPECT_EQ(told_, 2);
  EXPECT_EQ(reader_.changes(), R"({"places":{"team/a":null}})");
}

TEST_F(AModel, KeepsAccountForEachReader) {
  Model::Reader other(model_, [] {});
  model_.set(Table::kPools, "p", text("{}"));
  reader_.changes();
  EXPECT_FALSE(reader_.has_changes());
  EXPECT_EQ(other.changes(), R"({"pools":{"p":{}}})");
}

const char* const kJob = R"({
 "apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob",
 "metadata": {"name": "a", "namespace": "team", "resourceVersion": "7", "creationTimestamp": "2026-03-04T12:00:00Z",
  "annotations": {"note": "private"}},
 "spec": {"roles": [
   {"name": "worker", "minReplicas": 1, "maxReplicas": 4, "gpus": {"count": 2},
    "template": {"spec": {"containers": [{"name": "main", "image": "i", "env": [{"name": "KEY", "value": "private"}]}]}}},
   {"name": "eval", "replicas": 1, "gpus": {"fraction": "500m"}, "template": {"spec": {"containers": []}}}]},
 "status": {"phase": "Running", "allocated": {"gpu": "4500m"}, "pods": "3/3",
  "assignment": {"attempt": 1, "pool": "h100", "pods": [
   {"role": "worker", "index": 0, "node": "n-0", "gpus": [0, 1]}, {"role": "worker", "index": 2, "node": "n-1", "gpus": [2, 3]},
   {"role": "eval", "index": 0, "node": "n-1", "gpus": [4]}]},
  "queue": {"reason": "old", "position": 3}}})";

TEST(Rows, HoldOfAJobWhatThePageShows) {
  const auto row = job_row(kJob);
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_EQ(row->meta.key(), "team/a");
  EXPECT_EQ(Json::parse(*row->row), Json({{"version", "7"},
                                          {"created", 1772625600},
                                          {"phase", "Running"},
                                          {"pool", "h100"},
                                          {"gpus", 4500},
                                          {"wants", 2500},
                                          {"pods", "3/3"}}));
  EXPECT_EQ(*row->extra, R"([["n-0",[0,1]],["n-1",[2,3]],["n-1",[4]]])");
}

TEST(Rows, OfAJobThatWaitsSayWhy) {
  Json job = Json::parse(kJob);
  job["status"] = {{"phase", "Queued"},
                   {"queue",
                    {{"reason", "InsufficientCapacity"},
                     {"message", "m <b>"},
                     {"position", 2},
                     {"projectPosition", 1},
                     {"estimatedStart", "2026-03-04T12:00:01Z"}}}};
  const auto row = job_row(job.dump());
  ASSERT_TRUE(row);
  const Json said = Json::parse(*row->row);
  EXPECT_EQ(said["reason"], "InsufficientCapacity");
  EXPECT_EQ(said["message"], "m <b>");
  EXPECT_EQ(said["position"], 2);
  EXPECT_EQ(said["eta"], 1772625601);
  EXPECT_EQ(row->extra, nullptr);
}

TEST(Rows, OfWhatIsNoJobAreErrors) {
  EXPECT_FALSE(job_row("{"));
  EXPECT_FALSE(job_row(R"({"metadata":{"name":"a"},"spec":{"roles":7}})"));
}

TEST(Rows, HoldSharesByPoolAndUsageByDay) {
  const auto row = project_row(R"({"metadata": {"name": "nlp"},
 "spec": {"queue": "research", "quota": {"gpu": 8}, "namespace": {"name": "nlp-jobs"}, "pools": [{"name": "h100", "quota": {"gpu": 4}}]},
 "status": {"allocated": {"gpu": 9}, "borrowed": {"gpu": 1}, "running": 2,
  "pools": [{"name": "h100", "allocated": {"gpu": 2}}],
  "usage": {"until": "2026-03-04T12:00:00Z", "days": [
   {"date": "2026-03-04", "sum": {"gpuSeconds": 100, "lost": 7, "cost": "1.5"}, "users": [{"name": "rosa", "gpuSeconds": 100}],
    "waits": {"starts": 3, "seconds": 90, "longest": 60}}]}}})");
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_EQ(Json::parse(*row->row), Json({{"queue", "research"},
                                          {"namespace", "nlp-jobs"},
                                          {"quota", 8000},
                                          {"used", 9000},
                                          {"borrowed", 1000},
                                          {"running", 2},
                                          {"pools", {{"h100", {{"quota", 4000}, {"used", 2000}}}}}}));
  EXPECT_EQ(Json::parse(*row->extra), Json({{"until", 1772625600},
                                            {"days",
                                             {{"2026-03-04",
                                               {{"held", 100},
                                                {"lost", 7},
                                                {"cost", 1500},
                                                {"starts", 3},
                                                {"waited", 90},
                                                {"longest", 60}}}}}}));
  EXPECT_EQ(project_row(R"({"metadata":{"name":"p"},"spec":{"queue":"q"}})")->extra, nullptr);
}

TEST(Disruptions, AreReadAsTheOperatorKeepsThem) {
  const Json file = {
      {"data",
       {{"lines",
         R"({"at":"2026-03-04T12:00:01Z","job":"gone","user":"ann","reason":"Reclaimed","message":"for cv/x","gave":"4500m","cost":60,"owed":true}
somebody edited this
{"at":"soon","job":"x","gave":"1"}
{"at":"2026-03-04T12:00:02Z","job":"b","gave":"1"}
)"}}}};
  const auto lines = disruptions_in(file);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], Json({{"at", 1772625601},
                            {"job", "gone"},
                            {"user", "ann"},
                            {"reason", "Reclaimed"},
                            {"message", "for cv/x"},
                            {"gave", 4500},
                            {"cost", 60},
                            {"owed", true}}));
  EXPECT_EQ(lines[1]["cost"], 0);
  EXPECT_TRUE(disruptions_in(Json::object()).empty());
}

TEST(ServicePast, IsWhatChangedAndNoMore) {
  const auto row = service_row(R"({"metadata": {"name": "chat"},
 "spec": {"autoscaling": {"minReplicas": 1, "maxReplicas": 4, "metric": "RequestsRunning", "target": "4"}},
 "status": {"readyReplicas": 2, "desiredReplicas": 3, "allocated": {"gpu": "2"}, "conditions": [
  {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "lastTransitionTime": "2026-03-04T12:00:00Z",
   "message": "RequestsRunning is 9500m in 2 replicas over 1m, target 4 for each: 3 wanted"}]}})");
  ASSERT_TRUE(row && row->sample);
  ServiceSample sample = *row->sample;
  EXPECT_EQ(sample.load, 9500);
  ServicePast past;
  EXPECT_EQ(past.text_of("nlp/chat"), "[]");
  sample.at = 100;
  past.note("nlp/chat", sample);
  sample.at = 200;
  past.note("nlp/chat", sample);
  sample.at = 300, sample.ready = 3, sample.load.reset();
  past.note("nlp/chat", sample);
  const auto told = Json::parse(past.text_of("nlp/chat"));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0], Json({100, 2, row->sample->wanted, 2000, 9500}));
  EXPECT_EQ(told[1], Json({300, 3, row->sample->wanted, 2000, nullptr}));
  for (int i = 0; i < 2000; ++i) {
    sample.at = 1000 + i, sample.ready = i % 2;
    past.note("nlp/chat", sample);
  }
  EXPECT_EQ(Json::parse(past.text_of("nlp/chat")).size(), ServicePast::kMost);
  past.forget("nlp/chat");
  EXPECT_EQ(past.text_of("nlp/chat"), "[]");
  // Without autoscaling there is no load.
  EXPECT_EQ(service_row(R"({"metadata":{"name":"a"},"status":{"conditions":[]}})")->sample->load,
            std::nullopt);
}

TEST(Rows, FindThePoolOfANode) {
  const auto pool = pool_row(R"({"metadata": {"name": "h100"},
 "spec": {"nodeSelector": {"matchLabels": {"pool": "h100"}}, "gpuResource": "nvidia.com/gpu"}})");
  ASSERT_TRUE(pool) << pool.error().message;
  const auto node = [](const char* label, const char* gpus, const char* more,
                       const std::string& annotations = "") {
    return *client::decode_node(std::string(R"({"metadata": {"name": "n", "labels": {"pool": ")") + label +
                                    R"("})" + annotations + R"(}, "spec": {)" + more +
                                    R"(}, "status": {"allocatable": {"nvidia.com/gpu": ")" + gpus +
                                    R"("}, "conditions": [{"type": "Ready", "status": "True"}]}})",
                                "muster.dev");
  };
  EXPECT_EQ(*node_row(node("h100", "8", ""), {&*pool}), R"({"gpus":8,"pool":"h100"})");
  EXPECT_EQ(*node_row(node("h100", "8", R"("unschedulable": true)"), {&*pool}),
            R"({"gpus":8,"pool":"h100","state":"Cordoned"})");
  const auto sick = node("h100", "8", "", R"(, "annotations": {"muster.dev/gpu-unhealthy": "3,x,5"})");
  EXPECT_EQ(*node_row(sick, {&*pool}), R"({"gpus":8,"pool":"h100","unhealthy":[3,5]})");
  EXPECT_EQ(node_row(node("a100", "8", ""), {&*pool}), nullptr);
  EXPECT_EQ(node_row(node("h100", "0", ""), {&*pool}), nullptr);
  EXPECT_EQ(node_row(node("h100", "8", ""), {}), nullptr);
}

TEST(Rows, OfAPoolSayWhatNobodyHeldByDay) {
  const auto pool = pool_row(R"({"metadata": {"name": "h100"}, "spec": {}, "status": {"usage": {
    "until": "2026-03-04T12:00:00Z", "days": [{"date": "2026-03-04", "gpuSeconds": 80, "unallocated": 60}]}}})");
  ASSERT_TRUE(pool) << pool.error().message;
  EXPECT_EQ(*pool->row, R"({"days":{"2026-03-04":{"had":80,"unallocated":60}}})");
}

TEST(Details, TellOfAJobNothingOfItsTemplate) {
  const auto job = crds::from_text<crds::TrainingJob>(kJob);
  ASSERT_TRUE(job);
  const Json said = job_json(*job, [](std::string_view) { return ""; });
  EXPECT_THAT(said.dump(), Not(HasSubstr("private")));
  EXPECT_EQ(said["places"][1],
            Json({{"role", "worker"}, {"index", 2}, {"rank", 2}, {"node", "n-1"}, {"gpus", {2, 3}}}));
}

TEST(Details, KnowTheRanksOfPods) {
  auto job = *crds::from_text<crds::TrainingJob>(kJob);
  // It resizes in place: ranks of `eval` begin behind the four that `worker` may have.
  EXPECT_THAT(ranks(job), ElementsAre(0, 2, 4));
  job.spec.elastic = crds::Elastic{.resize = crds::Resize::kRestart};
  EXPECT_THAT(ranks(job), ElementsAre(0, 1, 2));
}

TEST(Details, SayWhyAJobWaitsAndWhatWouldHelp) {
  auto job = *crds::from_text<crds::TrainingJob>(kJob);
  job.status.phase = crds::Phase::kQueued;
  job.status.queue.reason = "LimitReached";
  job.status.queue.blocking = {{"gpu", "h100", "8", "4", {"Queue research"}}};
  const Json said =
      job_json(job, [](std::string_view reason) { return reason == "LimitReached" ? "to wait" : ""; });
  EXPECT_EQ(said["queue"]["helps"], "to wait");
  EXPECT_EQ(said["queue"]["blocking"][0]["by"], Json({"Queue research"}));
}

TEST(Details, ReadEventsOfBothForms) {
  const Json old = event_json({{"lastTimestamp", "2026-03-04T12:00:00Z"},
                               {"count", 3},
                               {"reason", "R"},
                               {"message", "m"},
                               {"type", "Normal"}});
  EXPECT_EQ(old,
            Json({{"at", 1772625600}, {"count", 3}, {"reason", "R"}, {"message", "m"}, {"type", "Normal"}}));
  const Json series =
      event_json({{"eventTime", "2026-03-04T12:00:00.5Z"},
                  {"lastTimestamp", nullptr},
                  {"series", {{"count", 4}, {"lastObservedTime", "2026-03-04T12:00:09.5Z"}}}});
  EXPECT_EQ(series["at"], 1772625609);
  EXPECT_EQ(series["count"], 4);
  EXPECT_EQ(event_json(Json::object())["at"], 0);
}

}  // namespace
}  // namespace muster::ui
