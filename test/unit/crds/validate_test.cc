// The verdicts of the schemas without a server, on the same objects that the API server judges
// in test/cluster/crds.
#include "muster/crds/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "../../cluster/crds/expectation.h"
#include "muster/crds/crds.h"
#include "muster/crds/documents.h"

namespace muster::crds {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string all(const std::vector<FieldError>& errors) {
  std::string text;
  for (const FieldError& error : errors) text += to_string(error) + "\n";
  return text;
}

TEST(Validate, RefusesEveryBadObjectAndNamesTheField) {
  const auto files = object_files(MUSTER_CRD_OBJECTS "/bad");
  EXPECT_GE(files.size(), 40U);
  for (const ObjectFile& file : files) {
    SCOPED_TRACE(file.name);
    ASSERT_FALSE(file.documents.empty());
    ASSERT_FALSE(file.field.empty());
    const Document& last = file.documents.back();
    std::vector<FieldError> errors = validate(last);
    if (file.documents.size() == 2) {
      EXPECT_THAT(validate(file.documents[0]), IsEmpty());
      EXPECT_THAT(errors, IsEmpty()) << "only the update is wrong";
      errors = validate_update(*file.documents[0].object, *last.object);
    }
    ASSERT_EQ(errors.size(), 1U) << all(errors);
    EXPECT_EQ(errors[0].field, file.field);
    EXPECT_THAT(errors[0].message, HasSubstr(file.offline));
    EXPECT_EQ(errors[0].object, object_name(*last.object));
    EXPECT_THAT(last.location(file.field), testing::StartsWith(file.name + ".yaml:"));
  }
}

// Leaves with a value, by path: what reading and printing must not lose.
std::set<std::string> leaves(const Json& json) {
  std::set<std::string> paths;
  const Json flat = json.flatten();
  for (const auto& [path, value] : flat.items()) {
    const bool is_empty =
        value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty());
    if (!is_empty) paths.insert(path);
  }
  return paths;
}

template <class T>
void expect_round_trip(Json object) {
  apply_defaults(object);
  const auto read = from_json<T>(object);
  ASSERT_TRUE(read) << to_string(read.error());
  const Json printed = to_json(*read);
  EXPECT_EQ(leaves(printed), leaves(object));
  EXPECT_THAT(validate(printed), IsEmpty());
  EXPECT_EQ(*from_json<T>(printed), *read);
}

TEST(Validate, AcceptsEveryGoodObjectWhichRoundTrips) {
  const auto files = object_files(MUSTER_CRD_OBJECTS "/good");
  EXPECT_GE(files.size(), 20U);
  for (const ObjectFile& file : files) {
    SCOPED_TRACE(file.name);
    ASSERT_EQ(file.documents.size(), 1U);
    const Json& object = *file.documents[0].object;
    EXPECT_THAT(validate(file.documents[0]), IsEmpty());
    EXPECT_THAT(validate_update(object, object), IsEmpty());
    const std::string kind = object.at("kind");
    if (kind == "Queue") expect_round_trip<Queue>(object);
    if (kind == "Project") expect_round_trip<Project>(object);
    if (kind == "NodePool") expect_round_trip<NodePool>(object);
    if (kind == "TrainingJob") expect_round_trip<TrainingJob>(object);
    if (kind == "InferenceService") expect_round_trip<InferenceService>(object);
  }
}

std::vector<FieldError> verdict(const char* yaml) {
  const auto documents = load_documents(yaml, "f.yaml");
  if (!documents) return {documents.error()};
  return validate(documents->at(0));
}

TEST(Validate, SaysWhereAndWhatIsAllowed) {
  const auto errors = verdict(R"(apiVersion: muster.dev/v1alpha1
kind: TrainingJob
metadata: {name: ft, namespace: nlp}
spec:
  roles:
  - name: worker
    gpus:
      count: 0
    template: {spec: {containers: [{name: a, image: b}]}}
)");
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(to_string(errors[0]),
            "f.yaml:8: TrainingJob nlp/ft: spec.roles[0].gpus.count: must be at least 1, is 0");
}

// In words, and what was meant where that is plain.
TEST(Validate, SaysWhatAnAmountLooksLike) {
  const auto message = [](const std::string& quota) {
    const auto errors =
        verdict(("{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: a}, spec: {quota: {" +
                 quota + "}}}")
                    .c_str());
    return errors.size() == 1 ? errors[0].message : all(errors);
  };
  EXPECT_THAT(message("gpu: 8x"), testing::StartsWith("must be a quantity such as 2, \"0.5\" or \"2500m\""));
  EXPECT_THAT(message("memory: 8X"),
              testing::StartsWith("must be an amount of bytes such as \"512Mi\" or \"4Ti\""));
  EXPECT_EQ(message("cpu: 0.5"), "must be an integer or a string, is 0.5: put the number in quotes");
  EXPECT_EQ(message("memory: 99999999999999999999"),
            "must be an integer or a string, is 100000000000000000000: put the number in quotes");
  EXPECT_EQ(message("gpu: 1e300"), "must be an integer or a string, is 1e+300: put the number in quotes");
  EXPECT_EQ(message("gpu: [1]"), "must be an integer or a string, is a list of 1");
}

TEST(Validate, ABadNameIsOneError) {
  for (const char* kind : {"Queue", "NodePool"}) {
    const std::string text =
        std::string("{apiVersion: muster.dev/v1alpha1, kind: ") + kind + ", metadata: {name: J_1}, spec: {}}";
    const auto errors = verdict(text.c_str());
    ASSERT_EQ(errors.size(), 1U) << all(errors);
    EXPECT_EQ(errors[0].field, "metadata.name");
    EXPECT_THAT(errors[0].message, testing::StartsWith("must be of lower-case letters, digits, - and ., "));
  }
  const auto dots =
      verdict("{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: a.b}, spec: {}}");
  ASSERT_EQ(dots.size(), 1U) << all(dots);
  EXPECT_THAT(dots[0].message, testing::StartsWith("must be of lower-case letters, digits and -, "));
}

TEST(Validate, MetadataAndKind) {
  const auto missing = verdict("{apiVersion: muster.dev/v1alpha1, kind: Queue, spec: {}}");
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].field, "metadata");
  EXPECT_EQ(verdict("{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {}, spec: {}}").at(0).field,
            "metadata.name");
  EXPECT_THAT(
      verdict("{apiVersion: muster.dev/v1alpha1, kind: TrainingJobs, metadata: {name: a}}").at(0).message,
      HasSubstr("InferenceService, NodePool, Project, Queue or TrainingJob"));
  EXPECT_THAT(
      verdict(
          "{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: a, labels: {a b: c}}, spec: {}}")
          .at(0)
          .message,
      HasSubstr("must be a qualified name"));
  EXPECT_EQ(
      verdict("{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: a, labels: {a: 1}}, spec: {}}")
          .at(0)
          .field,
      "metadata.labels.a");
  EXPECT_EQ(verdict("{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: a, nam: b}, spec: {}}")
                .at(0)
                .field,
            "metadata.nam");
  EXPECT_THAT(
      verdict("{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {generateName: a-}, spec: {}}"),
      IsEmpty());
  EXPECT_THAT(validate(Json::array()), testing::SizeIs(1));
}

TEST(Validate, AStatusFromAFileIsJudgedToo) {
  const auto errors = verdict(R"(apiVersion: muster.dev/v1alpha1
kind: TrainingJob
metadata: {name: ft}
spec: {roles: [{name: w, template: {spec: {containers: [{name: a, image: b}]}}}]}
status: {assignment: {attempt: 1, pods: [{role: w, index: 0, node: n1, gpus: [0, 1]}, {role: w, node: n1}]}}
)");
  ASSERT_EQ(errors.size(), 1U) << all(errors);
  EXPECT_EQ(errors[0].field, "status.assignment.pods[1].index");
}

// Whatever is done to a good object, validating and reading it gives a verdict, and what passes the schema
// can be read.
TEST(Validate, NoMutationCrashesAndWhatPassesCanBeRead) {
  std::mt19937 random(7);
  const std::vector<Json> values = {nullptr,
                                    true,
                                    -1,
                                    0,
                                    5,
                                    2147483648LL,
                                    9223372036854775807LL,
                                    1.5,
                                    "",
                                    "a",
                                    "10m",
                                    "99999999Ti",
                                    "4Gi",
                                    Json::array(),
                                    Json::object(),
                                    Json::array({1, "a", nullptr}),
                                    {{"name", "x"}}};
  int accepted = 0;
  for (const ObjectFile& file : object_files(MUSTER_CRD_OBJECTS "/good")) {
    const Json good = *file.documents[0].object;
    const Json flat = good.flatten();
    for (int round = 0; round < 40; ++round) {
      Json object = good;
      const auto at = std::next(flat.begin(), static_cast<std::ptrdiff_t>(random() % flat.size()));
      Json::json_pointer pointer(at.key());
      for (auto up = random() % 3; up > 0 && !pointer.parent_pointer().empty(); --up)
        pointer = pointer.parent_pointer();
      object[pointer] = values[random() % values.size()];
      const bool passes = validate(object).empty();
      validate_update(good, object);
      accepted += passes ? 1 : 0;
      apply_defaults(object);
      const std::string kind = object.at("kind").is_string() ? object.at("kind").get<std::string>() : "";
      if (!passes) continue;
      SCOPED_TRACE(object.dump());
      if (kind == "Queue") {
        EXPECT_TRUE(from_json<Queue>(object));
      }
      if (kind == "Project") {
        EXPECT_TRUE(from_json<Project>(object));
      }
      if (kind == "NodePool") {
        EXPECT_TRUE(from_json<NodePool>(object));
      }
      if (kind == "TrainingJob") {
        EXPECT_TRUE(from_json<TrainingJob>(object));
      }
      if (kind == "InferenceService") {
        EXPECT_TRUE(from_json<InferenceService>(object));
      }
    }
  }
  EXPECT_GT(accepted, 20);
}

}  // namespace
}  // namespace muster::crds
