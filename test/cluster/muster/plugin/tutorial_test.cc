// A section of docs/tutorial.md, played in a shell as it is written: each command has to say what stands
// below it.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "plugin_fixture.h"

namespace muster::test {
namespace {

constexpr const char* kSection = "## 11. From nothing, as a researcher";

// What a reader types, and what is printed then.
struct Command {
  std::string text;
  std::string output;
  bool is_shown = false;  // its output is in the page
};

// Blocks with lines "$ command" show outputs; all others are typed and show none.
std::vector<Command> commands_of(const std::string& section) {
  std::ifstream in(MUSTER_TUTORIAL);
  std::vector<Command> all;
  bool is_inside = false, is_block = false, begins = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) is_inside = line == section;
    if (!is_inside) continue;
    if (line.starts_with("```")) {
      begins = is_block = !is_block;
      continue;
    }
    if (!is_block) continue;
    if (line.starts_with("$ ")) {
      all.push_back({line.substr(2), "", true});
    } else if (begins) {
      all.push_back({line, "", false});
    } else {
      std::string& text = all.back().is_shown ? all.back().output : all.back().text;
      text += (text.empty() ? "" : "\n") + line;
    }
    begins = false;
  }
  return all;
}

// Without what differs from run to run (ages, times, and how wide columns and lines are for them), and
// without the name of the pool: that of the demo is another.
std::string comparable(std::string text) {
  text = std::regex_replace(text, std::regex(R"(\d{4}-\d\d-\d\dT[\d:]+Z)"), "TIME");
  text = std::regex_replace(text, std::regex(R"(\b(\d+[hms])+(?![\w.-]))"), "AGE");
  text = std::regex_replace(text, std::regex(R"(\s+)"), " ");
  text = std::regex_replace(text, std::regex(R"( pool [-a-z0-9]+)"), " pool POOL");
  return std::regex_replace(text, std::regex("^ | $"), "");
}

class Tutorial : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(4, 8);
    muster_ = cluster_->muster();
    cluster_->apply(
        "{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: vision}, spec: {queue: root}}");
    ASSERT_TRUE(cluster_->wait_namespace("vision"));
  }
  // All of it in one shell. Before the output of each command stands its number.
  static std::string play(const std::vector<Command>& commands) {
    const auto folder = cluster_->real().directory() / "tutorial";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "kubectl")
        << "#!/bin/sh\nif [ \"$1\" = muster ]; then shift; exec '" MUSTER_PLUGIN "' \"$@\"; fi\nexec "
        << cluster_->real().controlplane().string() << " kubectl \"$@\"\n";
    std::filesystem::permissions(folder / "kubectl", std::filesystem::perms::all);
    std::ofstream script(folder / "typed.sh");
    const std::regex as_before("KUBECONFIG=…");
    for (std::size_t i = 0; i < commands.size(); ++i) {
      script << "echo '@@" << i << "'\n"
             << std::regex_replace(commands[i].text, as_before, "KUBECONFIG=$$ADMIN") << "\n";
    }
    script << "echo '@@end'\n";
    script.close();
    const std::string admin = cluster_->real().kubeconfig().string();
    const char* path = std::getenv("PATH");
    const auto said = testcluster::run_command(
        {.arguments = {"/bin/bash", "-c", "exec 2>&1; . " + (folder / "typed.sh").string()},
         .environment = {{"PATH", folder.string() + ":" + (path == nullptr ? "/usr/bin:/bin" : path)},
                         {"KUBECONFIG", admin},
                         {"ADMIN", admin}},
         .log = {}},
        {}, 500s);
    return said ? said->out : said.error();
  }
};

TEST_F(Tutorial, AResearcherGetsWhatThePageSays) {
  const auto commands = commands_of(kSection);
  ASSERT_GT(commands.size(), 15U);
  const std::string said = play(commands);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const std::string mark = "@@" + std::to_string(i) + "\n";
    const auto begin = said.find(mark);
    ASSERT_NE(begin, std::string::npos) << said;
    const auto end =
        said.find("@@" + (i + 1 < commands.size() ? std::to_string(i + 1) : "end") + "\n", begin);
    const auto output = said.substr(begin + mark.size(), end - begin - mark.size());
    if (commands[i].is_shown)
      EXPECT_EQ(comparable(output), comparable(commands[i].output)) << commands[i].text;
    if (!commands[i].is_shown)
      EXPECT_THAT(output, testing::Not(testing::HasSubstr("rror"))) << commands[i].text;
  }
  // Nobody else saw anything of it.
  EXPECT_TRUE(cluster_->get("/apis/muster.dev/v1alpha1/namespaces/vision/trainingjobs/hello").is_null());
}

}  // namespace
}  // namespace muster::test
