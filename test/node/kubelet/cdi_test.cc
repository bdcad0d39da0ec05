// GPUs that come by their CDI names (Container Device Interface), through the device plugin, the kubelet and
// containerd 2.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "../fixture.h"

namespace muster::test {
namespace {

// Empty: it is not built.
std::filesystem::path containerd_with_cdi() {
  testcluster::ProcessSpec spec;
  spec.arguments = {MUSTER_SOURCE_DIR "/scripts/build-controlplane.sh", "--containerd", "--path"};
  const auto found = testcluster::run_command(spec);
  if (!found || !found->ok()) return {};
  return std::filesystem::path(found->out.substr(0, found->out.find('\n'))).parent_path();
}

// Writes the variable and the device nodes that it sees, and ends.
constexpr const char* kTellDevices =
    "echo $NVIDIA_VISIBLE_DEVICES >/ckpt/$NAME.new; for device in /dev/nvidia*; do echo $device "
    ">>/ckpt/$NAME.new; done; "
    "/bin/busybox mv /ckpt/$NAME.new /ckpt/$NAME; exec /bin/busybox sleep $LEFT";

class Cdi : public Node {
 protected:
  static json telling(const std::string& name, const json& gpus, const std::string& seconds) {
    json job = nodes_->train_job({.name = name}, {{"NAME", name}, {"LEFT", seconds}});
    json& role = job["spec"]["roles"][0];
    role["gpus"] = gpus;
    json& pod = role["template"]["spec"];
    pod["nodeSelector"] = {{"kubernetes.io/hostname", "real-1"}};
    pod["containers"][0]["command"] = {"/bin/sh", "-c", kTellDevices};
    pod["containers"][0].erase("readinessProbe");
    return job;
  }
  static std::vector<std::string> told(const std::string& name) {
    const auto file = nodes_->state() / name;
    EXPECT_TRUE(cluster().wait(60s, [&] { return std::filesystem::exists(file); }))
        << cluster().job(name).dump(2);
    std::vector<std::string> lines;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(Cdi, JobsGetTheDevicesAndThoseWhoShareTheName) {
  const auto containerd = containerd_with_cdi();
  if (containerd.empty()) GTEST_SKIP() << "no containerd 2: scripts/build-controlplane.sh --containerd";
  testcluster::RealNodeOptions options;
  options.containerd = containerd;
  options.cdi = true;
  auto node = nodes_->start_real_node(1, options);
  EXPECT_THAT(cluster().get("/api/v1/nodes/real-1")["status"]["nodeInfo"]["containerRuntimeVersion"],
              testing::StartsWith("containerd://2"));

  cluster().create(telling("cdi-first", {{"count", 2}}, "2147483647"));
  cluster().create(telling("cdi-shares", {{"fraction", "500m"}}, "2147483647"));
  ASSERT_TRUE(cluster().wait_phase("cdi-first", "Running", 60s)) << cluster().job("cdi-first").dump(2);
  ASSERT_TRUE(cluster().wait_phase("cdi-shares", "Running", 60s)) << cluster().job("cdi-shares").dump(2);
  const auto first = told("cdi-first");
  ASSERT_EQ(first.size(), 3u) << "two of the four device nodes, and no other";
  const auto shares = told("cdi-shares");
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_THAT(shares[0], testing::MatchesRegex("nvidia.com/gpu=GPU-real-1-[0-3]"));
  EXPECT_EQ(shares[1], "/dev/nvidia*") << "only the variable gives it a device: it asks for none";
  EXPECT_THAT(first[0],
              testing::MatchesRegex("nvidia.com/gpu=GPU-real-1-[0-3],nvidia.com/gpu=GPU-real-1-[0-3]"));
  EXPECT_THAT(first[0], testing::Not(testing::HasSubstr(shares[0])));

  // The one that is left.
  cluster().create(telling("cdi-last", {{"count", 1}}, "0"));
  ASSERT_TRUE(cluster().wait_phase("cdi-last", "Succeeded", 60s)) << cluster().job("cdi-last").dump(2);
  const auto last = told("cdi-last");
  ASSERT_EQ(last.size(), 2u);
  std::set<std::string> all(first.begin() + 1, first.end());
  all.insert(last[1]);
  EXPECT_EQ(all.size(), 3u);
  EXPECT_THAT(last[1], testing::EndsWith(last[0].substr(last[0].size() - 1))) << "the node of that name";

  nodes_->stop_jobs();
  const std::string held = "/api/v1/namespaces/muster-system/pods?labelSelector=muster.dev%2Fgpu-reservation";
  EXPECT_TRUE(cluster().wait(30s, [&] { return cluster().get(held)["items"].empty(); }));
  EXPECT_TRUE(node.stop());
  cluster().remove("/api/v1/nodes/real-1");
}

}  // namespace
}  // namespace muster::test
