// Objects from JSON and back; conditions; selectors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/crds/crds.h"
#include "muster/crds/validate.h"

namespace muster::crds {
namespace {

using testing::HasSubstr;

Json minimal_job() {
  return Json::parse(
      R"({"apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "a", "namespace": "ns"},
    "spec": {"roles": [{"name": "worker", "template": {"spec": {"containers": [{"name": "m", "image": "i"}]}}}]}})");
}

TEST(Codec, ReadsATrainingJob) {
  Json object = minimal_job();
  object["metadata"]["uid"] = "u-1";
  object["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z";
  object["metadata"]["ownerReferences"] = Json::array();  // not ours: passed over
  object["spec"]["roles"][0]["replicas"] = 4;
  object["spec"]["roles"][0]["gpus"] = {{"count", 8}, {"models", {"A"}}};
  object["spec"]["maxRuntime"] = "48h";
  object["spec"]["fieldOfTomorrow"] = 1;
  const auto job = from_json<TrainingJob>(object);
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->metadata.ns, "ns");
  EXPECT_EQ(to_string(*job->metadata.creation_timestamp), "2026-01-02T03:04:05Z");
  EXPECT_EQ(replicas_of(job->spec), 4);
  EXPECT_EQ(job->spec.roles[0].gpus->count, 8);
  EXPECT_EQ(job->spec.max_runtime, std::chrono::hours{48});
  EXPECT_EQ(job->spec.start_timeout, std::chrono::minutes{10});
  EXPECT_EQ(job->spec.restart, RestartPolicy{});
  EXPECT_TRUE(is_preemptible(job->spec));
  EXPECT_EQ((*job->spec.roles[0].pod_template.value)["spec"]["containers"][0]["image"], "i");
  EXPECT_FALSE(job->status.phase);
}

TEST(Codec, ErrorsNameObjectAndFieldAndWhatIsAllowed) {
  struct Case {
    const char* pointer;
    Json value;
    const char* field;
    const char* message;
  };
  const Case cases[] = {
      {"/spec/roles/0/replicas", "two", "spec.roles[0].replicas",
       "must be an integer from -2147483648 to 2147483647, is \"two\""},
      {"/spec/roles/0/replicas", 3'000'000'000, "spec.roles[0].replicas", "must be an integer from"},
      {"/spec/roles", Json::object(), "spec.roles", "must be a list, is an object"},
      {"/spec/mode", "Night", "spec.mode", "must be one of Batch, Interactive, is \"Night\""},
      {"/spec/maxRuntime", "soon", "spec.maxRuntime", "must be a duration"},
      {"/spec/suspend", "no", "spec.suspend", "must be true or false"},
      {"/metadata/labels", {{"a", 1}}, "metadata.labels.a", "must be a string, is 1"},
      {"/status", 3, "status", "must be an object, is 3"},
      {"/status", {{"allocated", {{"gpu", "many"}}}}, "status.allocated.gpu", "must be a quantity"},
      {"/kind", "Pod", "kind", "must be TrainingJob"},
  };
  for (const Case& c : cases) {
    Json object = minimal_job();
    object[Json::json_pointer(c.pointer)] = c.value;
    const auto job = from_json<TrainingJob>(object);
    ASSERT_FALSE(job) << c.pointer;
    EXPECT_EQ(job.error().field, c.field);
    EXPECT_THAT(job.error().object, HasSubstr("ns/a"));
    EXPECT_THAT(job.error().message, HasSubstr(c.message));
  }
  EXPECT_THAT(to_string(from_text<Queue>("{").error()), HasSubstr("must be JSON"));
  EXPECT_THAT(to_string(from_text<Queue>("[]").error()), HasSubstr("must be an object"));
}

TrainingJob full_job() {
  TrainingJob job = *from_json<TrainingJob>(minimal_job());
  const Time time{std::chrono::seconds{1'767'323'045}};
  job.metadata.uid = "u";
  job.metadata.resource_version = "77";
  TrainingJobStatus& s = job.status;
  s.observed_generation = 2;
  s.phase = Phase::kRunning;
  s.conditions = {{"Admitted", ConditionStatus::kTrue, 2, time, "Placed", "4 pods on 2 nodes"}};
  s.assignment = {3,
                  "h100",
                  time,
                  {{"worker", 0, "n1", {0, 1}, 0}, {"worker", 1, "n2", {}, 2, time}},
                  {1},
                  {7, "u"},
                  time,
                  2,
                  "places-pods"};
  s.pods = "1/2";
  s.desired_replicas = 2;
  s.ready_replicas = 1;
  s.succeeded_replicas = 1;
  s.allocated = {MilliGpu{2500}, MilliCpu{1000}, Bytes{1 << 30}};
  s.attempt = 3;
  s.restarts = {2, {time}};
  s.preemptions = 1;
  s.start_failures = 1;
  s.retry_at = time;
  s.node_refusals = {{"n9", "OutOfcpu", time}};
  s.queue = {4, 2, "InsufficientCapacity", "needs 6, has 2", {{"gpu", "h100", "6", "2", {"ns/other"}}}};
  s.started_at = time;
  s.finished_at = time;
  return job;
}

TEST(Codec, StatusRoundTripsAndFitsTheSchema) {
  const TrainingJob job = full_job();
  const Json json = to_json(job);
  const auto again = from_json<TrainingJob>(json);
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, job);
  EXPECT_THAT(validate(json), testing::IsEmpty());
  EXPECT_EQ(json["status"]["assignment"]["pods"][0].dump(),
            R"({"gpus":[0,1],"index":0,"node":"n1","role":"worker"})");
  EXPECT_EQ(json["status"]["assignment"]["pods"][1].dump(),
            R"({"index":1,"joiningSince":"2026-01-02T03:04:05Z","node":"n2","role":"worker","try":2})");
}

TEST(Codec, EmptyStatusFieldsAreLeftOut) {
  TrainingJob job = full_job();
  job.status = {};
  EXPECT_EQ(
      status_to_json(job).dump(),
      R"({"apiVersion":"muster.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"a","namespace":"ns",)"
      R"("resourceVersion":"77","uid":"u"},"status":{}})");
  job.status.assignment.attempt = 1;
  job.status.assignment.pods = {{"worker", 0, "n", {}, 0}};
  EXPECT_EQ(status_to_json(job)["status"].dump(),
            R"({"assignment":{"attempt":1,"pods":[{"index":0,"node":"n","role":"worker"}]}})");
  Queue queue;
  queue.metadata.name = "q";
  EXPECT_EQ(status_to_json(queue)["metadata"].dump(), R"({"name":"q"})");
}

TEST(Codec, EqualityOfTemplatesIsByContent) {
  TrainingJob a = *from_json<TrainingJob>(minimal_job());
  TrainingJob b = *from_json<TrainingJob>(minimal_job());
  EXPECT_EQ(a, b);
  b.spec.roles[0].pod_template.value = std::make_shared<const Json>(Json::object());
  EXPECT_NE(a, b);
  b.spec.roles[0].pod_template.value = nullptr;
  EXPECT_NE(a, b);
}

// What bounds the object: 10,000 pods of 8 GPUs on nodes with names of 38 characters.
TEST(Codec, TheLargestGangStaysBelowOneMebibyte) {
  TrainingJob job = full_job();
  job.status.assignment.pods.clear();
  job.status.assignment.succeeded.clear();
  for (int i = 0; i < kMaxPods; ++i) {
    std::string node = "gpu-node-" + std::to_string(i) + ".rack-17.eu-west.example";
    node.resize(38, 'x');
    job.status.assignment.pods.push_back({"worker", i, node, {0, 1, 2, 3, 4, 5, 6, 7}, 0});
  }
  EXPECT_LT(to_json(job).dump().size(), 1U << 20U);
  for (int i = 1; i < kMaxPods; ++i) job.status.assignment.succeeded.push_back(i);
  const std::string text = to_json(job).dump();
  EXPECT_LT(text.size(), (1U << 20U) + 50'000U) << "the more it has ended, the more it remembers";
  EXPECT_EQ(from_text<TrainingJob>(text)->status.assignment, job.status.assignment);
}

TEST(Conditions, KeepTheirTransitionTimeWhileTheStatusStays) {
  const Time early{std::chrono::seconds{100}};
  const Time late{std::chrono::seconds{200}};
  Conditions conditions;
  EXPECT_TRUE(set_condition(conditions, {"Admitted", ConditionStatus::kFalse, 1, early, "Waiting", "a"}));
  EXPECT_FALSE(set_condition(conditions, {"Admitted", ConditionStatus::kFalse, 1, late, "Waiting", "a"}));
  EXPECT_TRUE(set_condition(conditions, {"Admitted", ConditionStatus::kFalse, 1, late, "Waiting", "b"}));
  EXPECT_EQ(conditions[0].last_transition_time, early);
  EXPECT_FALSE(is_true(conditions, "Admitted"));
  EXPECT_TRUE(set_condition(conditions, {"Admitted", ConditionStatus::kTrue, 2, late, "Placed", ""}));
  EXPECT_EQ(find_condition(conditions, "Admitted")->last_transition_time, late);
  EXPECT_TRUE(is_true(conditions, "Admitted"));
  EXPECT_EQ(find_condition(conditions, "Failed"), nullptr);
  EXPECT_EQ(conditions.size(), 1U);
  std::string endless(5000, 'x');
  endless.replace(4091, 3, "\u20ac");  // three bytes, across the cut
  set_condition(conditions, {"Admitted", ConditionStatus::kTrue, 2, late, "Placed", endless});
  EXPECT_LE(conditions[0].message.size(), 4096U);
  EXPECT_NO_THROW(Json(conditions[0].message).dump()) << "cut inside a character";
}

TEST(Selector, MatchesAsKubernetesDoes) {
  LabelSelector selector;
  EXPECT_TRUE(matches(selector, {}));
  selector.match_labels = {{"pool", "a"}};
  EXPECT_FALSE(matches(selector, {}));
  EXPECT_TRUE(matches(selector, {{"pool", "a"}}));
  selector.match_expressions = {{"zone", SelectorOperator::kIn, {"x", "y"}},
                                {"old", SelectorOperator::kDoesNotExist, {}}};
  EXPECT_FALSE(matches(selector, {{"pool", "a"}}));
  EXPECT_TRUE(matches(selector, {{"pool", "a"}, {"zone", "y"}}));
  EXPECT_FALSE(matches(selector, {{"pool", "a"}, {"zone", "y"}, {"old", ""}}));
  selector.match_expressions = {{"zone", SelectorOperator::kNotIn, {"x"}},
                                {"new", SelectorOperator::kExists, {}}};
  EXPECT_TRUE(matches(selector, {{"pool", "a"}, {"new", ""}})) << "an absent label is not in";
  EXPECT_FALSE(matches(selector, {{"pool", "a"}, {"new", ""}, {"zone", "x"}}));
}

TEST(Project, ClaimsTheNamespaceOfItsNameUnlessItSaysOtherwise) {
  Project project;
  project.metadata.name = "nlp";
  EXPECT_EQ(namespace_of(project), "nlp");
  project.spec.ns.name = "team";
  EXPECT_EQ(namespace_of(project), "team");
}

// Others than bytes are written as whole numbers, however they were stated.
TEST(Codec, ResourcesByNameAreAmounts) {
  const auto queue = from_text<Queue>(
      R"({"kind": "Queue", "metadata": {"name": "q"}, "spec": {"quota": {"resources":
          {"rdma/hca": 1024, "v/x": "1k", "hugepages-2Mi": "4096Mi"}}}})");
  ASSERT_TRUE(queue);
  EXPECT_EQ(queue->spec.quota.resources,
            (NamedAmounts{{"hugepages-2Mi", std::int64_t{4} << 30}, {"rdma/hca", 1024}, {"v/x", 1000}}));
  EXPECT_EQ(to_json(*queue)["spec"]["quota"]["resources"],
            (Json{{"hugepages-2Mi", "4Gi"}, {"rdma/hca", "1024"}, {"v/x", "1000"}}));
  const auto wrong = from_text<Queue>(R"({"spec": {"limit": {"resources": {"rdma/hca": "many"}}}})");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().field, "spec.limit.resources.rdma/hca");
}

}  // namespace
}  // namespace muster::crds
