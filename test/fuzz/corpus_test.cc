// The fuzzing targets over their corpus: seeds, and every input that once broke something.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "targets.h"

namespace muster::fuzz {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, Target> kTargets = {{"documents", documents},   {"exposition", exposition},
                                                {"kubeconfig", kubeconfig}, {"node", node},
                                                {"objects", objects},       {"pod", pod},
                                                {"scalars", scalars},       {"watch", watch}};

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class Corpus : public testing::TestWithParam<std::string> {};

// A target that is broken aborts; the last name printed is the input.
TEST_P(Corpus, BreaksNothing) {
  const auto files = files_of(fs::path(MUSTER_FUZZ_CORPUS) / GetParam());
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) {
    const std::string text = text_of(file);
    ASSERT_FALSE(text.empty());
    std::printf("%s\n", file.filename().c_str());
    std::fflush(stdout);
    kTargets.at(GetParam())(text);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, target] : kTargets) all.push_back(name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, testing::ValuesIn(names()), [](const auto& one) { return one.param; });

TEST(CorpusFolders, AreTheTargets) {
  std::vector<std::string> folders;
  for (const fs::path& folder : files_of(MUSTER_FUZZ_CORPUS)) folders.push_back(folder.filename());
  std::ranges::sort(folders);
  EXPECT_EQ(folders, names());
}

}  // namespace
}  // namespace muster::fuzz
