// What is stored by an earlier version: the schemas of now take it, and the API server shows it unchanged.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "compatibility.h"
#include "expectation.h"
#include "muster/crds/crds.h"
#include "muster/crds/validate.h"
#include "muster/testcluster/testcluster.h"

namespace muster::crds {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Where upgrades are supported from.
constexpr const char* kOlder = "d846148";

Json schema_of(const std::string& crd) {
  const auto documents = load_documents(crd, "crd");
  return (*documents->at(0).object)["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
}

TEST(Compatibility, EveryKindOfBreakIsFound) {
  const Json older = Json::parse(R"({"type": "object", "required": ["a"], "properties": {
    "a": {"type": "string", "enum": ["x", "y"], "maxLength": 4, "pattern": "^[xy]$", "description": "of old"},
    "n": {"type": "integer", "minimum": 1, "default": 3},
    "list": {"type": "array", "maxItems": 8, "items": {"type": "object", "properties": {"b": {"type": "string"}}}},
    "map": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 9}}},
    "x-kubernetes-validations": [{"rule": "r1"}, {"rule": "r2"}]})");
  const auto changed = [&](const std::string& patch) {
    Json newer = older;
    newer.merge_patch(Json::parse(patch));
    return breaks(older, newer);
  };
  // Not one of these refuses what was taken.
  EXPECT_THAT(changed(R"({"required": [], "x-kubernetes-validations": [{"rule": "r2"}], "properties": {
    "new": {"type": "string", "default": "d"}, "a": {"enum": ["y", "z", "x"], "maxLength": 5, "pattern": null, "description": "of now"},
    "n": {"minimum": 0, "maximum": null}, "list": {"maxItems": null, "items": {"properties": {"c": {"type": "string"}}}}}})"),
              IsEmpty());
  // A new rule that is about a new field alone.
  for (const char* rule : {"!has(self.new) || self.new > 1", "self.a != 'x' || !has(self.new)",
                           "has(self.new) == has(oldSelf.new)",
                           // `a` is required, and r2 is there already.
                           "has(self.a) || has(self.new)", "has(self.new) || r2"}) {
    const Json patch = {{"properties", {{"new", {{"type", "integer"}}}}},
                        {"x-kubernetes-validations", {{{"rule", "r1"}}, {{"rule", rule}}}}};
    EXPECT_THAT(changed(patch.dump()), IsEmpty()) << rule;
  }
  for (const char* rule :
       {"!has(self.n) || self.n > 1", "has(self.new)", "(!has(self.new) || true) && self.n > 1",
        "!has(self.new) && self.n > 1", "!has(self.never) || self.n > 1", "has(self.n) == has(oldSelf.n)",
        "has(self.new) == has(oldSelf.n)", "has(self.n) || has(self.new)", "has(self.new) || r3",
        "has(self.new) && r2"}) {
    const Json patch = {{"properties", {{"new", {{"type", "integer"}}}}},
                        {"x-kubernetes-validations", {{{"rule", "r1"}}, {{"rule", rule}}}}};
    EXPECT_THAT(changed(patch.dump()), ElementsAre(HasSubstr(": x-kubernetes-validations"))) << rule;
  }
  // Each of these does, or drops it, or makes something else of it.
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"required": ["a", "n"]})", ": required"},
      {R"({"properties": {"n": null}})", ".n is gone"},
      {R"({"properties": {"n": {"type": "string"}}})", ".n: type"},
      {R"({"properties": {"n": {"minimum": 2}}})", ".n: minimum"},
      {R"({"properties": {"n": {"maximum": 9}}})", ".n: maximum"},
      {R"({"properties": {"n": {"default": 4}}})", ".n: default"},
      {R"({"properties": {"n": {"default": null}}})", ".n: default"},
      {R"({"properties": {"a": {"enum": ["x"]}}})", ".a: enum"},
      {R"({"properties": {"a": {"pattern": "^x$"}}})", ".a: pattern"},
      {R"({"properties": {"a": {"maxLength": 3}}})", ".a: maxLength"},
      {R"({"properties": {"a": {"format": "date-time"}}})", ".a: format"},
      {R"({"properties": {"list": {"maxItems": 7}}})", ".list: maxItems"},
      {R"({"properties": {"list": {"x-kubernetes-list-type": "set"}}})", ".list: x-kubernetes-list-type"},
      {R"({"properties": {"list": {"items": {"required": ["b"]}}}})", ".list[]: required"},
      {R"({"properties": {"list": {"items": {"properties": {"b": null}}}}})", ".list[].b is gone"},
      {R"({"properties": {"map": {"additionalProperties": {"maxLength": 8}}}})", ".map[]: maxLength"},
      {R"({"x-kubernetes-validations": [{"rule": "r1"}, {"rule": "r2"}, {"rule": "r3"}]})",
       ": x-kubernetes-validations"},
      {R"({"x-kubernetes-validations": [{"rule": "r1 changed"}, {"rule": "r2"}]})",
       ": x-kubernetes-validations"}};
  for (const auto& [patch, said] : cases) EXPECT_THAT(changed(patch), ElementsAre(HasSubstr(said))) << patch;
}

class History : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::path(testing::TempDir()) / fmt::format("muster-history-{}", getpid());
    std::filesystem::create_directories(folder_);
    // A shallow clone, or an archive of the source, has no history.
    const std::string unpack =
        fmt::format("git -C {} archive {} crds test/cluster/crds/good 2>/dev/null | tar -x -C {} 2>/dev/null",
                    MUSTER_SOURCE_DIR, kOlder, folder_.string());
    has_history_ = std::system(unpack.c_str()) == 0 && std::filesystem::exists(folder_ / "crds");
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }
  void SetUp() override {
    if (!has_history_) GTEST_SKIP() << "no history: " << kOlder << " is not in this checkout";
  }
  static std::string older_crd(const Crd& crd) {
    std::ifstream in(folder_ / "crds" / (crd.plural + ".yaml"));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::string path_of(const Json& object) {
    const Crd* crd = find_crd(kApiVersion, object.at("kind").get<std::string>());
    return fmt::format("/apis/muster.dev/v1alpha1/{}{}", crd->namespaced ? "namespaces/default/" : "",
                       crd->plural);
  }
  static inline std::filesystem::path folder_;
  static inline bool has_history_ = false;
};

TEST_F(History, NoSchemaRefusesOrDropsWhatItTook) {
  for (const Crd& crd : all_crds()) {
    auto found = breaks(schema_of(older_crd(crd)), schema_of(std::string(crd.yaml)));
    // Containers may ask for more kinds of resources now, by other rules, which hold of CPU and memory as
    // before. No comparison of texts can tell that; the objects below show it.
    std::erase_if(found, [](const std::string& line) {
      return line.find("ontainers[].resources") != std::string::npos &&
             line.find("self.all(name, name in ['cpu', 'memory'])") != std::string::npos;
    });
    EXPECT_THAT(found, IsEmpty()) << crd.kind;
  }
}

TEST_F(History, ObjectsStayAsTheyAreUnderTheNewerAndTheOlderSchemas) {
  testcluster::Options options;
  options.with_controller_manager = false;
  options.with_kwok = false;
  auto cluster = testcluster::TestCluster::start(options);
  ASSERT_TRUE(cluster) << cluster.error();
  const auto kubectl = [&](std::vector<std::string> arguments, const std::string& input = {}) {
    const auto done = cluster->kubectl(std::move(arguments), input);
    ASSERT_TRUE(done && done->ok()) << (done ? done->err : done.error());
  };
  // True once the server validates by it: a field that only the newer schema has is unknown to the older one.
  const auto install = [&](bool older) {
    for (const Crd& crd : all_crds())
      kubectl({"apply", "--server-side", "-f", "-"}, older ? older_crd(crd) : std::string(crd.yaml));
    const std::string probe =
        R"({"apiVersion": "muster.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": "probe"}, "spec": {"wattsPerGPU": 700}})";
    ASSERT_TRUE(testcluster::wait_until(30s, [&] {
      const auto answer = cluster->request(
          "POST", "/apis/muster.dev/v1alpha1/nodepools?fieldValidation=Strict&dryRun=All", probe);
      return answer && answer->status == (older ? 400 : 201);
    })) << "the schemas are not in force";
  };
  const auto look = [&](const Json& object) {
    const auto answer =
        cluster->request("GET", path_of(object) + "/" + object["metadata"]["name"].get<std::string>());
    EXPECT_TRUE(answer && answer->ok());
    return answer && answer->ok() ? Json::parse(answer->body) : Json();
  };
  install(true);
  const std::string good = folder_ / "test/cluster/crds/good";
  kubectl({"apply", "--server-side", "-f", good});
  std::vector<Json> stored;
  for (const ObjectFile& file : object_files(good)) stored.push_back(look(*file.documents.at(0).object));
  ASSERT_GE(stored.size(), 20u);

  install(false);
  for (const Json& before : stored) {
    const std::string name = before["metadata"]["name"];
    SCOPED_TRACE(name);
    EXPECT_THAT(validate(before), IsEmpty()) << "offline";
    const Json now = look(before);
    const Json changes = Json::diff(before["spec"], now["spec"]);
    for (const Json& change : changes)
      EXPECT_EQ(change["op"], "add") << "only defaults come: " << change.dump();
    // Neither by the ratchet, which lets unchanged fields pass.
    Json anew = before;
    anew["metadata"] = {{"name", "anew"}};
    if (before["metadata"].contains("namespace"))
      anew["metadata"]["namespace"] = before["metadata"]["namespace"];
    const auto taken =
        cluster->request("POST", path_of(before) + "?fieldValidation=Strict&dryRun=All", anew.dump());
    EXPECT_TRUE(taken && taken->status == 201) << (taken ? taken->body.substr(0, 1000) : taken.error());
    const auto edited =
        cluster->request("PUT", path_of(before) + "/" + name + "?fieldValidation=Strict", now.dump());
    EXPECT_TRUE(edited && edited->ok()) << (edited ? edited->body.substr(0, 1000) : edited.error());
  }
  // And back: what the older schemas know is there.
  install(true);
  for (const Json& before : stored)
    EXPECT_EQ(look(before)["spec"], before["spec"]) << before["metadata"]["name"];
}

}  // namespace
}  // namespace muster::crds
