// What the packing benchmark reads, draws and bounds.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "packing/bound.h"
#include "packing/replay.h"
#include "packing/trace.h"

namespace muster::bench {
namespace {

class File {
 public:
  explicit File(const std::string& text)
      : path_(std::filesystem::path(testing::TempDir()) /
              (std::string("packing-") + testing::UnitTest::GetInstance()->current_test_info()->name() +
               ".csv")) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TraceNode node(const std::string& name, std::int32_t gpus, std::int64_t cpu = 64'000,
               const std::string& model = "A") {
  return {name, model, cpu, 1024, gpus};
}
TracePod pod(std::int32_t gpus, std::int64_t milli, std::int64_t cpu = 0,
             std::vector<std::string> models = {}) {
  return {"p", cpu, 0, gpus, milli, std::move(models)};
}

TEST(Trace, FindsColumnsByNameAndSplitsModels) {
  const File file(
      "gpu_milli,name,num_gpu,cpu_milli,memory_mib,gpu_spec\n460,a,1,6000,12288,V100M16|V100M32\n,b,0,1,2,"
      "\n");
  const auto pods = read_pods(file.path());
  ASSERT_EQ(pods.size(), 2U);
  EXPECT_EQ(pods[0], (TracePod{"a", 6000, 12288, 1, 460, {"V100M16", "V100M32"}}));
  EXPECT_EQ(pods[1], (TracePod{"b", 1, 2, 0, 0, {}}));
}

TEST(Trace, SaysWhereAFileCannotBeRead) {
  const File file("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,1024,8,A\nn2,many,1024,8,A\n");
  try {
    read_nodes(file.path());
    FAIL() << "\"many\" was read as a number";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("line 3: \"many\" is not a number"), std::string::npos) << e.what();
  }
}

TEST(Replay, ArrivalsReachTheLoadAndNoMore) {
  const std::vector<TraceNode> nodes = {node("n", 8)};
  for (const std::int64_t each : {1, 8}) {  // a list that is too short, one that is too long
    const std::vector<TracePod> list(static_cast<std::size_t>(2 * each), pod(1, 1000));
    const auto arriving = arrivals(nodes, list, 1.3, 7);
    EXPECT_EQ(arriving.size(), 11U);  // 10.4, rounded up
  }
}

TEST(Replay, DropsWhatDoesNotFitAndGoesOn) {
  const std::vector<TraceNode> nodes = {node("n1", 2), node("n2", 1)};
  const Outcome outcome = replay(nodes, {pod(1, 700), pod(2, 1000), pod(1, 700), pod(1, 300)});
  // 0.7 on one, 2 on the other; the second 0.7 has no GPU, 0.3 joins the first.
  EXPECT_EQ(outcome.dropped, 1);
  EXPECT_NEAR(outcome.at_end, 100, 1e-9);
  EXPECT_NEAR(outcome.at_100, 90, 1e-9);  // 3.4 of 3 have arrived with the third
}

TEST(Bound, IsReachedByWhatFitsExactly) {
  EXPECT_NEAR(packing_bound({node("n", 2)}, {pod(1, 1000), pod(1, 600), pod(1, 400)}), 2000, 2);
}

TEST(Bound, CountsTheCpuThatGpusNeed) {
  EXPECT_NEAR(packing_bound({node("n", 2, 10'000)}, {pod(1, 1000, 10'000), pod(1, 1000, 10'000)}), 1000,
              1e-6);
}

TEST(Bound, CountsTheModelsThatPodsAccept) {
  EXPECT_NEAR(packing_bound({node("n", 1, 64'000, "A"), node("m", 3, 64'000, "B")},
                            {pod(1, 1000, 0, {"A"}), pod(1, 1000, 0, {"A"}), pod(1, 1000, 0, {"B"})}),
              2000, 1e-6);
}

TEST(Bound, CountsPartsThatDoNotGoTogether) {
  const std::vector<TracePod> pods(8, pod(1, 600));
  EXPECT_NEAR(packing_bound({node("n", 4)}, pods), 2400, 24);
}

}  // namespace
}  // namespace muster::bench
