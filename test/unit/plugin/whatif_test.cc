// How kubectl-muster copies a cluster, and what it tells of a job that is played on the copy.
#include "whatif/whatif.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objects.h"

namespace muster::plugin {
namespace {

using crds::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json node(const std::string& name, int gpus) {
  const Json amounts = {
      {"cpu", "64"}, {"memory", "512Gi"}, {"pods", "110"}, {"nvidia.com/gpu", std::to_string(gpus)}};
  return copy_of_other(
      {{"metadata", {{"name", name}, {"managedFields", Json::array()}}},
       {"status", {{"capacity", amounts}, {"allocatable", amounts}, {"images", Json::array()}}}},
      "v1", "Node");
}
Json tree_object(const std::string& kind, const std::string& name, const Json& spec) {
  return copy_of_other({{"metadata", {{"name", name}}}, {"spec", spec}}, "muster.dev/v1alpha1", kind);
}
// Of whole GPUs.
Json live_job(const std::string& ns, const std::string& name, int gpus, const std::string& priority = "") {
  const Json pod = {{"spec", {{"containers", {{{"name", "main"}, {"image", "img"}}}}}}};
  Json job = {
      {"apiVersion", "muster.dev/v1alpha1"},
      {"kind", "TrainingJob"},
      {"metadata", {{"name", name}, {"namespace", ns}, {"creationTimestamp", crds::to_string(kNow - 1h)}}},
      {"spec", {{"roles", {{{"name", "worker"}, {"gpus", {{"count", gpus}}}, {"template", pod}}}}}}};
  if (!priority.empty()) job["spec"]["priorityClassName"] = priority;
  return job;
}
Json running(Json job, const std::string& on, const std::vector<int>& gpus) {
  job["status"] = {{"phase", "Running"},
                   {"startedAt", crds::to_string(kNow - 30min)},
                   {"assignment",
                    {{"attempt", 1},
                     {"pool", "default"},
                     {"admittedAt", crds::to_string(kNow - 31min)},
                     {"pods", {{{"role", "worker"}, {"index", 0}, {"node", on}, {"gpus", gpus}}}}}}};
  return job;
}
// Two Projects with half of the eight GPUs of one node each.
ClusterCopy cluster(const std::vector<Json>& jobs) {
  ClusterCopy copy;
  copy.objects = {
      node("n1", 8),
      tree_object("NodePool", "default", {{"default", true}}),
      tree_object("Queue", "all", {{"quota", {{"gpu", "8"}}}}),
      tree_object("Project", "nlp", {{"queue", "all"}, {"quota", {{"gpu", "4"}}}}),
      tree_object("Project", "cv", {{"queue", "all"}, {"quota", {{"gpu", "4"}}}}),
  };
  for (const Json& job : jobs) {
    if (Json one = copy_of_job(job, kNow); !one.is_null()) copy.objects.push_back(one);
  }
  return copy;
}

TEST(Copy, OfAJobHasItsAgeAndHowLongItRuns) {
  Json live = running(live_job("nlp", "first", 8), "n1", {0, 1});
  live["metadata"]["annotations"] = {{"simulate.muster.dev/runs-for", "1s"}, {"mine", "yes"}};
  live["metadata"]["ownerReferences"] = {{{"kind", "InferenceService"}}};
  live["spec"]["maxRuntime"] = "2h";
  live["status"]["runSeconds"] = 3600;
  const Json copy = copy_of_job(live, kNow);
  EXPECT_EQ(copy["metadata"]["annotations"],
            Json::parse(R"({"mine": "yes", "simulate.muster.dev/age": "3600s",
                            "simulate.muster.dev/running-for": "1800s"})"));
  EXPECT_FALSE(copy["metadata"].contains("ownerReferences"));
  EXPECT_EQ(copy["spec"]["maxRuntime"], "1h");
  EXPECT_FALSE(copy["status"].contains("phase"));
  live["status"]["phase"] = "Succeeded";
  EXPECT_TRUE(copy_of_job(live, kNow).is_null());
}

TEST(Copy, OfPodsHasThoseOfOthers) {
  Json pod = Json::parse(R"({"metadata": {"name": "p", "namespace": "x", "uid": "u"},
      "spec": {"nodeName": "n1", "volumes": [{}], "containers":
        [{"name": "c", "image": "i", "env": [], "resources": {"requests": {"cpu": "1"}}}]},
      "status": {"phase": "Running"}})");
  EXPECT_EQ(copy_of_pod(pod), Json::parse(R"({"apiVersion": "v1", "kind": "Pod",
      "metadata": {"name": "p", "namespace": "x"},
      "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})"));
  Json ended = pod, unplaced = pod, ours = pod;
  ended["status"]["phase"] = "Succeeded";
  unplaced["spec"].erase("nodeName");
  ours["metadata"]["labels"] = {{"muster.dev/job", "j"}};
  for (const Json& one : {ended, unplaced, ours}) EXPECT_TRUE(copy_of_pod(one).is_null());
}

TEST(Forecast, OfAJobThatFitsSaysWhere) {
  const auto f = forecast(cluster({running(live_job("cv", "first", 4), "n1", {0, 1, 2, 3})}),
                          live_job("nlp", "new", 2), kNow);
  ASSERT_TRUE(f) << f.error();
  EXPECT_TRUE(f->starts);
  EXPECT_THAT(f->places, ElementsAre("worker-0 on n1, GPUs 4,5"));
  EXPECT_EQ(to_text(*f, kNow), "nlp/new would start now.\n  worker-0 on n1, GPUs 4,5\n");
}

TEST(Forecast, OfAJobThatWaitsSaysWhy) {
  Json busy = running(live_job("nlp", "first", 8), "n1", {0, 1, 2, 3, 4, 5, 6, 7});
  busy["spec"]["maxRuntime"] = "2h";
  busy["spec"]["preemptible"] = true;
  auto copy = cluster({busy});
  copy.unknown = {"You may not list pods."};
  const auto f = forecast(std::move(copy), live_job("nlp", "new", 2), kNow);
  ASSERT_TRUE(f) << f.error();
  EXPECT_FALSE(f->starts);
  EXPECT_THAT(f->places, IsEmpty());
  EXPECT_EQ(f->waiting.reason, "InsufficientCapacity");
  const std::string text = to_text(*f, kNow);
  EXPECT_THAT(text, HasSubstr("nlp/new would wait: InsufficientCapacity: "));
  EXPECT_THAT(text, HasSubstr("What this does not know:\n  You may not list pods.\n"));
  EXPECT_EQ(to_data(*f)["reason"], "InsufficientCapacity");
  EXPECT_EQ(to_data(*f)["unknown"].size(), 1U);
}

TEST(Forecast, SaysWhoWouldMakeRoom) {
  const auto f = forecast(cluster({running(live_job("cv", "borrower", 8), "n1", {0, 1, 2, 3, 4, 5, 6, 7})}),
                          live_job("nlp", "new", 4), kNow);
  ASSERT_TRUE(f) << f.error();
  EXPECT_THAT(f->give_way, ElementsAre("cv/borrower is evicted (Reclaimed)"));
  EXPECT_THAT(to_text(*f, kNow),
              HasSubstr("These would make room for it:\n  cv/borrower is evicted (Reclaimed)\n"));
}

TEST(Forecast, TakesTheJobThatIsThereForAnother) {
  const auto f = forecast(cluster({running(live_job("nlp", "new", 8), "n1", {0, 1, 2, 3, 4, 5, 6, 7})}),
                          live_job("nlp", "new", 4), kNow);
  ASSERT_TRUE(f) << f.error();
  EXPECT_TRUE(f->starts);
  EXPECT_THAT(f->unknown, ElementsAre(HasSubstr("TrainingJob nlp/new exists.")));
}

TEST(Forecast, LeavesOutWhatCannotBeCopied) {
  const auto f =
      forecast(cluster({running(live_job("cv", "lost", 1), "gone", {0})}), live_job("nlp", "new", 4), kNow);
  ASSERT_TRUE(f) << f.error();
  EXPECT_TRUE(f->starts);
  EXPECT_THAT(f->unknown, ElementsAre(HasSubstr("TrainingJob cv/lost is left out of the copy: ")));
}

// Within its quota of 4.
TEST(Forecast, OfAServiceSaysHowManyReplicasStart) {
  Json service = live_job("nlp", "chat", 1);
  const Json pod = service["spec"]["roles"][0]["template"];
  service["kind"] = "InferenceService";
  service["spec"] = {{"replicas", 6}, {"gpus", {{"count", 1}}}, {"template", pod}};
  const auto f = forecast(cluster({}), service, kNow);
  ASSERT_TRUE(f) << f.error();
  EXPECT_TRUE(f->starts);
  EXPECT_EQ(f->started, 4);
  EXPECT_EQ(f->wanted, 6);
  EXPECT_EQ(f->places.size(), 4U) << "each once";
  const std::string text = to_text(*f, kNow);
  EXPECT_THAT(text, HasSubstr("4 of 6 replicas of nlp/chat would start now.\n"));
  EXPECT_THAT(text, HasSubstr("The next would wait: QuotaExceeded: "));
  EXPECT_EQ(to_data(*f)["reason"], "QuotaExceeded");
}

TEST(Forecast, OfAnArrayCountsItsIndexes) {
  Json array = live_job("nlp", "sweep", 4);
  array["spec"]["array"] = {{"count", 50}, {"parallelism", 3}};
  const auto f = forecast(cluster({}), array, kNow);
  ASSERT_TRUE(f) << f.error();
  EXPECT_EQ(f->started, 2);
  EXPECT_EQ(f->wanted, 3);
  EXPECT_THAT(to_text(*f, kNow), HasSubstr("2 of 3 indexes of nlp/sweep would start now.\n"));
}

TEST(Forecast, OfAJobThatIsNotWellFormedSaysSo) {
  const auto f = forecast(cluster({}), live_job("nlp", "new", 0), kNow);
  ASSERT_FALSE(f);
  EXPECT_THAT(f.error(), HasSubstr("spec.roles[0].gpus.count"));
}

}  // namespace
}  // namespace muster::plugin
