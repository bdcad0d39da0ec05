// What `muster validate -f` says.
#include "muster/crds/validate_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "muster/crds/validate.h"

namespace muster::crds {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kMixed = R"(apiVersion: v1
kind: Namespace
metadata: {name: nlp}
---
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: research}
spec: {weight: 2}
---
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: research}
spec:
  weight: heavy
)";

class ValidateFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("validate-files-" + std::to_string(getpid()));
    fs::create_directories(folder_ / "below");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  FilesVerdict run(std::vector<std::string> files, const std::string& input = {}) {
    std::istringstream in(input);
    std::ostringstream out;
    const FilesVerdict verdict = validate_files(files, in, out);
    out_ = out.str();
    return verdict;
  }

  fs::path folder_;
  std::string out_;
};

TEST_F(ValidateFiles, NamesFileLineObjectAndField) {
  const FilesVerdict verdict = run({"-"}, kMixed);
  EXPECT_EQ(verdict.exit_code(), 1);
  EXPECT_EQ(out_,
            "standard input:14: Queue research: spec.weight: must be an integer, is \"heavy\"\n"
            "standard input:12: Queue research: metadata.name: must not be stated twice, is also at standard "
            "input:5\n"
            "1 valid, 1 invalid, 1 of other groups passed over\n");
}

// Two items without a name are two errors, and no name that is there twice.
TEST_F(ValidateFiles, ItemsWithoutANameAreNotTwice) {
  write("a.yaml",
        "apiVersion: muster.dev/v1alpha1\nkind: Project\nmetadata: {name: p}\n"
        "spec: {queue: q, pools: [h100, a100]}\n");
  EXPECT_EQ(run({folder_}).exit_code(), 1);
  EXPECT_THAT(out_, testing::HasSubstr("spec.pools[1]: must be an object, is \"a100\""));
  EXPECT_THAT(out_, testing::Not(testing::HasSubstr("twice")));
}

// Of what the schemas refuse, nothing else is said.
TEST_F(ValidateFiles, AJudgeSaysWhatElseIsWrongWithWhatTheSchemasAccept) {
  std::istringstream in(kMixed);
  std::ostringstream out;
  std::vector<std::string> judged;
  const auto verdict = validate_files({"-"}, in, out, [&](const Json& object) {
    judged.push_back(object_name(object));
    return std::vector<FieldError>{{judged.back(), "spec.weight", "is odd", ""}};
  });
  EXPECT_EQ(judged, std::vector<std::string>{"Queue research"});
  EXPECT_EQ(verdict.invalid, 2);
  EXPECT_THAT(out.str(), testing::HasSubstr("standard input:8: Queue research: spec.weight: is odd\n"));
}

TEST_F(ValidateFiles, FoldersAreReadWhole) {
  write("a.yaml", "apiVersion: muster.dev/v1alpha1\nkind: Project\nmetadata: {name: p}\nspec: {queue: q}\n");
  write("below/b.json",
        R"({"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}})");
  write("notes.txt", "[");
  EXPECT_EQ(run({folder_}).exit_code(), 0);
  EXPECT_EQ(out_, "2 valid, 0 invalid\n");
}

TEST_F(ValidateFiles, AllThatIsWrongInAFileIsSaidAtOnce) {
  EXPECT_EQ(run({"-"}, "{a: 1}\n{b: 2}\n---\nhello\n").exit_code(), 2);
  EXPECT_THAT(out_, HasSubstr("standard input:2: must end with its document"));
  EXPECT_THAT(out_, HasSubstr("standard input:4: must be an object, is \"hello\""));
  EXPECT_THAT(out_, HasSubstr("1 file not readable"));
}

TEST_F(ValidateFiles, WhatCannotBeReadIsSaid) {
  write("broken.yaml", "a: [\n");
  EXPECT_EQ(run({folder_ / "broken.yaml", folder_ / "absent.yaml", folder_ / "below"}).exit_code(), 2);
  EXPECT_THAT(out_, HasSubstr("broken.yaml:2: must be YAML"));
  EXPECT_THAT(out_, HasSubstr("absent.yaml: cannot be read"));
  EXPECT_THAT(out_, HasSubstr("below: has no file named"));
  EXPECT_THAT(out_, HasSubstr("0 valid, 0 invalid, 3 files not readable"));
}

TEST_F(ValidateFiles, AWrongKindOfOursAndAnObjectOfNoKindAreErrors) {
  EXPECT_EQ(
      run({"-"}, "apiVersion: muster.dev/v1\nkind: Queue\nmetadata: {name: a}\n---\nhello: 1\n").invalid, 2);
  EXPECT_THAT(out_, HasSubstr("must be of apiVersion muster.dev/v1alpha1 and of kind"));
}

}  // namespace
}  // namespace muster::crds
