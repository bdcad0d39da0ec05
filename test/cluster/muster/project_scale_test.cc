// Two hundred Projects of ten members: what it takes to settle, and that a cluster at rest is left at rest.
// Counted from the API server's audit log.
#include <gmock/gmock.h>

#include <thread>

#include "fixture.h"
#include "write_log.h"

namespace muster::test {
namespace {

constexpr int kProjects = 200;
// Of each: Namespace, ServiceAccount, NetworkPolicy, a RoleBinding for each of three roles, and its own
// status.
constexpr int kWritesNeeded = 7 * kProjects;

std::string project(int i) {
  const std::string name = "team-" + std::to_string(i);
  std::string yaml = "---\napiVersion: muster.dev/v1alpha1\nkind: Project\nmetadata: {name: " + name +
                     "}\nspec:\n  queue: root\n  quota: {gpu: 1}\n  namespace: {name: " + name +
                     ", podSecurity: baseline, isolateNetwork: true}\n  members:\n";
  for (int m = 0; m < 10; ++m) {
    yaml += "  - {kind: User, name: user-" + std::to_string(i) + "-" + std::to_string(m) + ", role: " +
            (m == 0  ? "Admin"
             : m < 8 ? "Researcher"
                     : "Viewer") +
            "}\n";
  }
  return yaml;
}

TEST(ProjectScale, TwoHundredProjectsSettleWithTheWritesThatTheirObjectsNeed) {
  testcluster::Options options;
  options.audit = true;
  const auto cluster = Cluster::start(1, 8, options);
  const auto muster = cluster->muster({"--leader-elect", "--lease-namespace", "muster-system"});
  const auto has_settled = [&](int projects) {
    const json list = cluster->get("/apis/muster.dev/v1alpha1/projects");
    int ready = 0;
    for (const auto& p : list["items"]) {
      const json conditions = p.value("/status/conditions"_json_pointer, json::array());
      for (const auto& c : conditions)
        ready += c["type"] == "NamespaceReady" && c["status"] == "True" ? 1 : 0;
    }
    return ready == projects;
  };
  ASSERT_TRUE(cluster->wait(30s, [&] { return has_settled(1); })) << "team";
  const auto before = writes(*cluster);

  std::string all;
  for (int i = 0; i < kProjects; ++i) all += project(i);
  const auto began = std::chrono::steady_clock::now();
  const auto applied = cluster->real().kubectl({"apply", "--server-side", "-f", "-"}, all, 300s);
  ASSERT_TRUE(applied && applied->ok()) << (applied ? applied->err : applied.error());
  ASSERT_TRUE(cluster->wait(120s, [&] { return has_settled(kProjects + 1); }))
      << muster->log().substr(0, 20000);
  const auto took = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began);

  // At rest when nothing was written for five seconds; what a status interval (1 s here) puts off is in.
  auto after = writes(*cluster);
  for (int quiet = 0, tries = 0; quiet < 5 && tries < 60; ++tries) {
    std::this_thread::sleep_for(1s);
    const auto now = writes(*cluster);
    quiet = now == after ? quiet + 1 : 0;
    after = now;
  }
  std::string told;
  for (const auto& [what, count] : after)
    told += what + " " + std::to_string(count - (before.contains(what) ? before.at(what) : 0)) + "\n";
  const int written = sum(after) - sum(before);
  std::cout << kProjects << " projects settled " << took.count() << " ms after the first was applied, with "
            << written << " writes (" << kWritesNeeded << " needed):\n"
            << told;
  EXPECT_GE(written, kWritesNeeded) << "not all was counted";
  EXPECT_LE(written, kWritesNeeded * 13 / 10) << told;

  std::this_thread::sleep_for(20s);
  EXPECT_EQ(writes(*cluster), after) << "a cluster at rest was written to";
}

}  // namespace
}  // namespace muster::test
