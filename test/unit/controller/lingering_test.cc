// Pods that are told to go hold their GPUs until they have ended, whatever has become of their job: it is
// finished, suspended, invalid, edited, deleted or made anew. Nobody is started in their place before that.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::IsEmpty;

constexpr int kPodsOfAJob = 8;

// How a job `ends` comes to an end while its pods still run.
struct Way {
  const char* name;
  json spec;                                   // of the job
  std::function<void(VirtualCluster&)> begin;  // makes it end
};

std::vector<std::string> keys_of_pods(VirtualCluster& cluster, const std::string& job) {
  std::vector<std::string> keys;
  for (const auto& pod : cluster.pods_of(job)) keys.push_back("team/" + pod["metadata"]["name"].get<std::string>());
  return keys;
}

std::vector<Way> ways() {
  const json spare = json::object();
  return {
      {"MaxRuntime", {{"maxRuntime", "60s"}},
       [](VirtualCluster& c) {
         c.world.run_until([&] { return c.phase("ends") == "Failed"; }, minutes{2});
       }},
      {"CompletionFirst", {{"completion", {{"policy", "First"}}}},
       [](VirtualCluster& c) {
         c.server.set_status(kPods, keys_of_pods(c, "ends")[0], {{"phase", "Succeeded"}});
       }},
      {"Suspended", spare, [](VirtualCluster& c) { c.edit_job("ends", {{"suspend", true}}); }},
      {"EditedForOtherPlaces", spare,
       [](VirtualCluster& c) {
         json roles = c.job("ends")["spec"]["roles"];
         roles[0]["gpus"]["count"] = 2;
         roles[0]["replicas"] = 2;
         c.edit_job("ends", {{"roles", roles}});
       }},
      {"InvalidAndLost", spare,
       [](VirtualCluster& c) {
         c.edit_job("ends", {{"priorityClassName", "no-such-class"}});
         c.world.run_for(seconds{1});
         c.server.remove_pod(keys_of_pods(c, "ends")[0]);
       }},
      {"Deleted", spare,
       [](VirtualCluster& c) {
         c.delete_job("ends");
         c.world.run_for(c.dice.between(Duration{0}, Duration{200}));
         c.collect();
       }},
      {"MadeAnew", spare,
       [](VirtualCluster& c) {
         c.delete_job("ends");
         c.add_job("ends", 1, 1, {{"suspend", true}});
         c.world.run_for(c.dice.between(Duration{0}, Duration{200}));
         c.collect();
       }},
  };
}

class Lingering : public testing::Test {
 protected:
  Lingering() { spdlog::set_level(spdlog::level::off); }

  static bool runs(VirtualCluster& cluster, const std::string& name) {
    return cluster.phase(name) == "Running";
  }
  // One node of eight GPUs, which the job `ends` has. Its pods take two seconds to end.
  static void set_up(VirtualCluster& cluster, const json& spec = json::object()) {
    cluster.set_up(1, 16);
    cluster.pods_end([](const json&) { return LastWords{.takes = seconds{2}}; });
    cluster.add_job("ends", kPodsOfAJob, 1, spec);
  }
  // Each pod's deletion takes its own time to arrive, so that plans are made between them.
  static void delay_deletions(VirtualCluster& cluster) {
    cluster.faults = [&cluster](const HttpRequest& request) {
      if (request.method != Method::kDelete) return Fault{};
      return Fault{.delay = cluster.dice.between(Duration{0}, Duration{500})};
    };
  }
};

TEST_F(Lingering, WhoeverWaitsStartsOnlyWhenTheLastPodHasEnded) {
  for (const Way& way : ways()) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE(std::string(way.name) + ", seed " + std::to_string(seed));
      VirtualCluster cluster(seed);
      set_up(cluster, way.spec);
      delay_deletions(cluster);
      auto& op = cluster.start();
      ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "ends"); }, minutes{1}));
      cluster.add_job("next", 4, 2);
      cluster.world.run_for(seconds{10});
      way.begin(cluster);
      EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{2}))
          << cluster.job("next").dump(1);
      EXPECT_THAT(cluster.complaints, IsEmpty());
      EXPECT_TRUE(cluster.stop(op));
      if (HasFailure()) break;
    }
  }
}

}  // namespace
}  // namespace muster::test
