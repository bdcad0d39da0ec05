// The schemas on the real API server: it takes them, refuses every bad object by the field's name, takes
// every good one unchanged, and its verdicts are the offline validator's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "expectation.h"
#include "muster/crds/crds.h"
#include "muster/crds/validate.h"
#include "muster/testcluster/testcluster.h"

namespace muster::crds {
namespace {

constexpr int kMutants = 25;  // of each good object

using namespace std::chrono_literals;
using testcluster::TestCluster;
using testing::HasSubstr;

class CrdsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    testcluster::Options options;
    options.with_controller_manager = false;
    options.with_kwok = false;
    auto started = TestCluster::start(options);
    ASSERT_TRUE(started) << started.error();
    cluster_ = std::make_unique<TestCluster>(std::move(*started));
    for (const Crd& crd : all_crds()) {
      const auto applied = cluster_->kubectl({"apply", "--server-side", "-f", "-"}, std::string(crd.yaml));
      ASSERT_TRUE(applied && applied->ok()) << (applied ? applied->err : applied.error());
    }
    for (const Crd& crd : all_crds()) {
      const auto served = [&] {
        const auto answer = cluster_->request("GET", "/apis/muster.dev/v1alpha1/" + crd.plural);
        return answer && answer->ok();
      };
      ASSERT_TRUE(testcluster::wait_until(30s, served)) << crd.plural;
    }
  }
  static void TearDownTestSuite() { cluster_.reset(); }

  // Of the collection, or of the object where it has a name that is to be in the path.
  static std::string path_of(const Json& object, bool with_name) {
    const Crd* crd = find_crd(kApiVersion, object.at("kind").get<std::string>());
    std::string path = "/apis/muster.dev/v1alpha1/";
    if (crd->namespaced) path += "namespaces/default/";
    path += crd->plural;
    return with_name ? path + "/" + object["metadata"]["name"].get<std::string>() : path;
  }
  static testcluster::HttpResponse send(const std::string& method, const std::string& path, const Json& body,
                                        const std::string& type = "application/json") {
    const auto answer = cluster_->request(method, path, body.dump(), type);
    EXPECT_TRUE(answer) << answer.error();
    return answer ? *answer : testcluster::HttpResponse{};
  }
  static Json get(const std::string& path) {
    const auto answer = cluster_->request("GET", path);
    EXPECT_TRUE(answer && answer->ok()) << path;
    return answer && answer->ok() ? Json::parse(answer->body) : Json();
  }

  static inline std::unique_ptr<TestCluster> cluster_;
};

TEST_F(CrdsTest, SchemasAreStructuralAndNamesAccepted) {
  for (const Crd& crd : all_crds()) {
    const Json object =
        get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + crd.plural + ".muster.dev");
    for (const Json& condition : object["status"]["conditions"]) {
      const std::string type = condition["type"];
      EXPECT_EQ(condition["status"],
                type == "NonStructuralSchema" || type == "Terminating" ? "False" : "True")
          << crd.kind << " " << type << ": " << condition["message"];
    }
  }
}

TEST_F(CrdsTest, EveryBadObjectIsRefusedByTheNameOfItsField) {
  const auto files = object_files(MUSTER_CRD_OBJECTS "/bad");
  EXPECT_GE(files.size(), 40U);
  for (const ObjectFile& file : files) {
    SCOPED_TRACE(file.name);
    ASSERT_FALSE(file.documents.empty());
    const Json& last = *file.documents.back().object;
    testcluster::HttpResponse answer;
    if (file.documents.size() == 2) {
      const Json& first = *file.documents[0].object;
      const auto created = send("POST", path_of(first, false) + "?fieldValidation=Strict", first);
      ASSERT_EQ(created.status, 201) << created.body;
      Json update = last;
      update["metadata"]["resourceVersion"] = Json::parse(created.body)["metadata"]["resourceVersion"];
      answer = send("PUT", path_of(first, true) + "?fieldValidation=Strict", update);
      EXPECT_EQ(send("DELETE", path_of(first, true), Json::object()).status, 200);
    } else {
      answer = send("POST", path_of(last, false) + "?fieldValidation=Strict&dryRun=All", last);
    }
    EXPECT_THAT(answer.status, testing::AnyOf(400, 422)) << answer.body;
    const std::string message = Json::parse(answer.body).value("message", "");
    EXPECT_THAT(message, HasSubstr(file.field));
    EXPECT_THAT(message, HasSubstr(file.message));
  }
}

TEST_F(CrdsTest, EveryGoodObjectIsTakenAsTheOfflineDefaultsHaveItAndDiffsToNothing) {
  const std::string folder = MUSTER_CRD_OBJECTS "/good";
  const auto files = object_files(folder);
  EXPECT_GE(files.size(), 20U);
  const auto applied = cluster_->kubectl({"apply", "-f", folder});
  ASSERT_TRUE(applied && applied->ok()) << (applied ? applied->err : applied.error());
  for (const ObjectFile& file : files) {
    SCOPED_TRACE(file.name);
    Json ours = *file.documents.at(0).object;
    const Json theirs = get(path_of(ours, true));
    apply_defaults(ours);
    EXPECT_EQ(theirs["spec"], ours["spec"]);
  }
  const auto diff = cluster_->kubectl({"diff", "-f", folder});
  ASSERT_TRUE(diff);
  EXPECT_EQ(diff->exit_code, 0) << diff->out << diff->err;
  // The same by server-side apply, from the start.
  const auto deleted = cluster_->kubectl({"delete", "-f", folder});
  ASSERT_TRUE(deleted && deleted->ok()) << (deleted ? deleted->err : deleted.error());
  const auto again = cluster_->kubectl({"apply", "--server-side", "-f", folder});
  ASSERT_TRUE(again && again->ok()) << (again ? again->err : again.error());
  const auto server_side_diff = cluster_->kubectl({"diff", "--server-side", "-f", folder});
  ASSERT_TRUE(server_side_diff);
  EXPECT_EQ(server_side_diff->exit_code, 0) << server_side_diff->out << server_side_diff->err;
}

// A null is nothing stated: a default where there is one, else absent. The offline validator stands on it.
TEST_F(CrdsTest, NullsAreDefaultsOrAbsent) {
  Json object = Json::parse(
      R"({"apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "nulls"},
    "spec": {"mode": null, "maxRuntime": null, "restart": null, "roles": [{"name": "w", "gpus": null, "replicas": null,
             "template": {"spec": {"containers": [{"name": "m", "image": "i", "workingDir": null, "resources": {"limits": null, "requests": {"cpu": null}}}]}}}]}})");
  const auto answer = send("POST", path_of(object, false) + "?fieldValidation=Strict&dryRun=All", object);
  ASSERT_EQ(answer.status, 201) << answer.body;
  EXPECT_TRUE(validate(object).empty());
  apply_defaults(object);
  EXPECT_EQ(Json::parse(answer.body)["spec"], object["spec"]);
}

// Good objects with one thing changed at random: the server and the offline validator accept and refuse the
// same ones.
TEST_F(CrdsTest, VerdictsAgreeOnMutatedObjects) {
  std::mt19937 random(11);
  const std::vector<Json> values = {nullptr,
                                    true,
                                    false,
                                    -1,
                                    0,
                                    5,
                                    70000,
                                    2147483648LL,
                                    1.5,
                                    "",
                                    "a",
                                    "worker",
                                    "10m",
                                    "0s",
                                    "8Gi",
                                    "1.5",
                                    "900000Pi",
                                    "Never",
                                    "A b",
                                    Json::array(),
                                    Json::object(),
                                    Json::array({1, "a"}),
                                    {{"name", "x"}},
                                    Json::array({{{"name", "x"}}, {{"name", "x"}}}),
                                    std::string(70, 'x')};
  const std::vector<std::string> fields = {
      "name",     "unknown",   "gpu",        "restartPolicy",
      "hostname", "resources", "maxRuntime", "terminationGracePeriodSeconds"};
  int accepted = 0;
  int refused = 0;
  for (const ObjectFile& file : object_files(MUSTER_CRD_OBJECTS "/good")) {
    Json good = *file.documents.at(0).object;
    if (file.name == "trainingjob-biggest") continue;  // too large to be quick
    const Json flat = good["spec"].flatten();
    for (int round = 0; round < kMutants; ++round) {
      Json object = good;
      object["metadata"]["name"] = "mutant";
      Json::json_pointer pointer(
          std::next(flat.begin(), static_cast<std::ptrdiff_t>(random() % flat.size())).key());
      for (auto up = random() % 3; up > 0 && !pointer.empty(); --up) pointer = pointer.parent_pointer();
      Json& at = object["spec"][pointer];
      if (at.is_object() && random() % 2 == 0) {
        at[fields[random() % fields.size()]] = values[random() % values.size()];
      } else {
        at = values[random() % values.size()];
      }
      const auto answer = send("POST", path_of(object, false) + "?fieldValidation=Strict&dryRun=All", object);
      const auto errors = validate(object);
      EXPECT_EQ(answer.ok(), errors.empty())
          << object.dump() << "\nserver: " << answer.body.substr(0, 1500)
          << "\noffline: " << (errors.empty() ? "accepted" : to_string(errors[0]));
      (answer.ok() ? accepted : refused) += 1;
    }
  }
  std::cout << "mutants: " << accepted << " accepted, " << refused << " refused\n";
  EXPECT_GT(accepted, 30);
  EXPECT_GT(refused, 300);
}

TEST_F(CrdsTest, WhatWePrintIsWhatTheServerHolds) {
  for (const ObjectFile& file : object_files(MUSTER_CRD_OBJECTS "/good")) {
    SCOPED_TRACE(file.name);
    const Json theirs = get(path_of(*file.documents.at(0).object, true));
    if (theirs.at("kind") != "TrainingJob") continue;
    const auto job = from_json<TrainingJob>(theirs);
    ASSERT_TRUE(job) << to_string(job.error());
    EXPECT_FALSE(job->metadata.uid.empty());
    const auto answer =
        send("PUT", path_of(theirs, true) + "?fieldValidation=Strict&dryRun=All", to_json(*job));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(from_text<TrainingJob>(answer.body)->spec, job->spec);
  }
}

TEST_F(CrdsTest, AStatusWithTenThousandPodsStaysBelowOneMebibyte) {
  const auto files = object_files(MUSTER_CRD_OBJECTS "/good");
  const auto biggest = std::ranges::find(files, "trainingjob-biggest", &ObjectFile::name);
  ASSERT_NE(biggest, files.end());
  const Json& object = *biggest->documents.at(0).object;
  auto job = *from_json<TrainingJob>(object);
  const Time now{std::chrono::seconds{1'767'323'045}};
  for (const char* type : {"Accepted", "Admitted", "PodsReady", "Evicted", "Suspended", "Complete", "Failed",
                           "Stalled", "GracePeriodTooShort"}) {
    set_condition(job.status.conditions,
                  {type, ConditionStatus::kTrue, 1, now, "Because", std::string(200, 'x')});
  }
  job.status.phase = Phase::kRunning;
  job.status.assignment = {1, "default", now, {}, {}, {}, {}, 0, {}};
  for (int i = 0; i < kMaxPods; ++i) {
    std::string node = "node-" + std::to_string(i) + ".rack-17.eu-central.internal";
    node.resize(38, '0');
    job.status.assignment.pods.push_back({"worker", i, node, {0, 1, 2, 3, 4, 5, 6, 7}, 0});
  }
  const std::string path = path_of(object, true);
  const auto created =
      send("PATCH", path + "?fieldManager=test&force=true", object, "application/apply-patch+yaml");
  ASSERT_TRUE(created.ok()) << created.body;
  const auto start = std::chrono::steady_clock::now();
  const auto answer = send("PATCH", path + "/status?fieldManager=muster&force=true&fieldValidation=Strict",
                           status_to_json(job), "application/apply-patch+yaml");
  ASSERT_EQ(answer.status, 200) << answer.body.substr(0, 2000);
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  std::cout << "10000 pods: " << answer.body.size() << " bytes, written in " << took.count() << " ms\n";
  EXPECT_LT(answer.body.size(), 1U << 20U);
  const auto held = from_text<TrainingJob>(answer.body);
  ASSERT_TRUE(held) << to_string(held.error());
  EXPECT_EQ(held->status, job.status);
  // By update, for comparison: server-side apply merges by schema, which costs the server more. (A dry run:
  // a real one would make the update a second owner of the fields, and the next apply would then remove
  // none of them.)
  Json whole = Json::parse(answer.body);
  whole["status"]["pods"] = "1/10000";
  const auto update_start = std::chrono::steady_clock::now();
  const auto updated = send("PUT", path + "/status?fieldManager=muster&dryRun=All", whole);
  ASSERT_EQ(updated.status, 200) << updated.body.substr(0, 2000);
  std::cout << "the same by update: "
            << std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                     update_start)
                   .count()
            << " ms\n";
  // What a status leaves out is gone.
  job.status.assignment = {};
  job.metadata.resource_version = held->metadata.resource_version;
  const auto withdrawn = send("PATCH", path + "/status?fieldManager=muster&force=true", status_to_json(job),
                              "application/apply-patch+yaml");
  ASSERT_EQ(withdrawn.status, 200) << withdrawn.body.substr(0, 2000);
  EXPECT_EQ(from_text<TrainingJob>(withdrawn.body)->status, job.status);
  EXPECT_LT(withdrawn.body.size(), 20'000U);
  // A write that did not see the last one is refused.
  job.metadata.resource_version = held->metadata.resource_version;
  EXPECT_EQ(send("PATCH", path + "/status?fieldManager=muster&force=true", status_to_json(job),
                 "application/apply-patch+yaml")
                .status,
            409);
}

TEST_F(CrdsTest, StatusOfEveryOtherKindIsTaken) {
  const auto put = [](const Json& object, const Json& body) {
    const auto answer =
        send("PATCH", path_of(object, true) + "/status?fieldManager=muster&force=true&fieldValidation=Strict",
             body, "application/apply-patch+yaml");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body);
  };
  const Amounts amounts{MilliGpu{2500},
                        MilliCpu{64'000},
                        Bytes{std::int64_t{4} << 40},
                        {{"hugepages-2Mi", std::int64_t{4} << 30}, {"rdma/hca", 64}}};
  const Conditions conditions = {
      {"Accepted", ConditionStatus::kFalse, 1, Time{}, "ParentNotFound", "queue company does not exist"}};
  const Usage used{1, 2, 3, 4, 5, 6, 7, MilliCost{8'500}, 9};
  const UsageStatus usage{
      Time{},
      used,
      used,
      used,
      {{"2026-01-31", used, {{"ann", 8, MilliCost{1}, 2}}, {{"h100", 9}}, {{"NVIDIA-H100", 9}}}}};
  Queue queue;
  queue.metadata.name = "queue-full";
  queue.status = {1,
                  conditions,
                  amounts,
                  amounts,
                  amounts,
                  amounts,
                  3,
                  4,
                  {{"h100", amounts, amounts, {}, amounts}},
                  usage,
                  NextChange{Time{}, "limit.gpu 64 (now 32)"},
                  DrainStatus{Time{}, 4, 3, 2, 1, MilliGpu{16'000}}};
  EXPECT_EQ(from_json<Queue>(put(to_json(queue), status_to_json(queue)))->status, queue.status);
  Project project;
  project.metadata.name = "project-full";
  project.status = {1,
                    conditions,
                    "nlp",
                    "uid-1",
                    amounts,
                    {},
                    amounts,
                    amounts,
                    3,
                    4,
                    {{"h100", amounts, amounts, {}, amounts}},
                    usage,
                    {{"ann", MilliGpu{8000}, Duration{60}, Duration{90}, {60, 90}}},
                    NextChange{Time{}, "quota.gpu none (now 4)"},
                    DrainStatus{Time{}, 4, 3, 2, 1, MilliGpu{16'000}}};
  EXPECT_EQ(from_json<Project>(put(to_json(project), status_to_json(project)))->status, project.status);
  NodePool pool;
  pool.metadata.name = "nodepool-full";
  pool.status = {1,
                 conditions,
                 8,
                 amounts,
                 amounts,
                 MilliGpu{16'000},
                 {Time{}, 7, 3, {{"2026-01-31", 7, 3}}},
                 {{"node-3", {0, 5}}}};
  EXPECT_EQ(from_json<NodePool>(put(to_json(pool), status_to_json(pool)))->status, pool.status);
  InferenceService service;
  service.metadata.name = "inferenceservice-full";
  service.metadata.ns = "default";
  service.status = {
      1,
      conditions,
      2,
      1,
      1,
      2,
      20017,
      3,
      "1/2",
      {{"prefill", 1, 2}},
      "app=x",
      "0f3a1",
      "1a1b2",
      CanaryStatus{"0f3a1", 2, 1, Time{std::chrono::hours{1}}},
      AbortedCanary{"0f3a0", Time{}, "errors 12, allowed 5"},
      "/models/llama",
      {{"0f3a1", 2, Time{}, {"serve:2"}, 2, 1}},
      "http://x.default.svc:80",
      amounts,
      {1, 1, "LimitReached", "m", {{"gpu", "p", "2", "0", {"a"}}}, Time{std::chrono::hours{1}}}};
  EXPECT_EQ(from_json<InferenceService>(put(to_json(service), status_to_json(service)))->status,
            service.status);
  const Json scale = get(path_of(to_json(service), true) + "/scale");
  EXPECT_EQ(scale["status"]["selector"], "app=x");
  EXPECT_EQ(scale["status"]["replicas"], 2);
}

TEST_F(CrdsTest, TablesAndShortNames) {
  const auto table = [](const std::string& kind, const std::string& headings) {
    const auto result = cluster_->kubectl({"get", kind, "-o", "wide"});
    ASSERT_TRUE(result && result->ok()) << kind;
    std::string first = result->out.substr(0, result->out.find('\n'));
    std::string words;
    std::istringstream in(first);
    for (std::string word; in >> word;) words += (words.empty() ? "" : " ") + word;
    EXPECT_EQ(words, headings);
  };
  table("q", "NAME PARENT QUOTA FAIR SHARE ALLOCATED BORROWED PENDING AGE");
  table("proj", "NAME QUEUE NAMESPACE QUOTA FAIR SHARE ALLOCATED RUNNING PENDING AGE");
  table("npool", "NAME NODES GPUS FREE LARGEST GANG AGE");
  table("tj", "NAME STATUS PODS GPUS POSITION REASON AGE ETA PRIORITY CHECKPOINT PREEMPTIONS");
  table("isvc", "NAME READY PODS GPUS REASON URL AGE");
  const auto queue = cluster_->kubectl({"get", "q", "queue-full"});
  EXPECT_THAT(queue->out, testing::ContainsRegex("queue-full +company +16 +2500m"));
  const auto everything = cluster_->kubectl({"get", "muster", "-A", "-o", "name"});
  EXPECT_THAT(everything->out,
              testing::AllOf(HasSubstr("queue.muster.dev/"), HasSubstr("trainingjob.muster.dev/")));
}

}  // namespace
}  // namespace muster::crds
