// The measuring rods: what reports, counts and audits say of known input.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "live/api_writes.h"
#include "live/audit.h"
#include "process.h"
#include "report.h"

namespace muster::bench {
namespace {

using nlohmann::json;

TEST(Report, JsonHasNameValueUnitAndGoalOfEachRow) {
  Report report("e2e");
  report.add("ratio", 1.25, "ratio", at_most(1.3));
  report.add("time", 12.3456789, "s");
  report.add("none", std::numeric_limits<double>::quiet_NaN(), "s");
  const json expected = json::parse(R"({"bench":"e2e","rows":[
    {"name":"ratio","value":1.25,"unit":"ratio","goal":"<= 1.3"},
    {"name":"time","value":12.346,"unit":"s","goal":null},
    {"name":"none","value":null,"unit":"s","goal":null}]})");
  EXPECT_EQ(json::parse(report.json()), expected);
}

TEST(Report, TableSaysWhichGoalsAreMissed) {
  Report report("x");
  report.add("low enough", 3, "1/pod", at_most(3));
  report.add("too high", 3.5, "1/pod", at_most(3));
  report.add("too few", 9, "1/s", at_least(10));
  report.add("no goal", 1, "s");
  EXPECT_EQ(report.table(),
            "name        value  unit   goal\n"
            "low enough      3  1/pod  <= 3   ok\n"
            "too high    3.500  1/pod  <= 3   missed\n"
            "too few         9  1/s    >= 10  missed\n"
            "no goal         1  s\n");
}

// Programs read it: with --json it holds one object and nothing else.
TEST(Report, StandardOutputIsTheReportsAlone) {
  const auto before = spdlog::default_logger();
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  log_to_standard_error();
  spdlog::warn("what a library has to say");
  progress("half done");
  Report("x").print(/*as_json=*/true);
  const std::string out = testing::internal::GetCapturedStdout();
  const std::string log = testing::internal::GetCapturedStderr();
  spdlog::set_default_logger(before);
  EXPECT_EQ(out, R"({"bench":"x","rows":[]})"
                 "\n");
  EXPECT_NE(log.find("what a library has to say"), std::string::npos);
}

TEST(Percentile, IsTheNearestRank) {
  EXPECT_EQ(percentile({5, 1, 4, 2, 3}, 50), 3);
  EXPECT_EQ(percentile({5, 1, 4, 2, 3}, 99), 5);
  EXPECT_EQ(percentile({7}, 1), 7);
  EXPECT_TRUE(std::isnan(percentile({}, 50)));
}

TEST(Process, OwnFiguresGrowWithWork) {
  const std::map<std::string, pid_t> us = {{"us", getpid()}};
  const auto before = take_cpu(us);
  // By the processor's time, not the clock's: on a busy machine little of 300 ms may be ours.
  const double until = thread_cpu_seconds() + 0.1;
  volatile unsigned spin = 0;
  while (thread_cpu_seconds() < until) spin = spin + 1;
  const auto use = take_cpu(us) - before;
  EXPECT_GT(use.by_name.at("us"), 0.02);
  EXPECT_LT(use.by_name.at("us"), 5);
  EXPECT_GT(resident_memory(getpid()), 1 << 20);
  EXPECT_GE(peak_memory(getpid()), resident_memory(getpid()));
  EXPECT_EQ(cpu_seconds(0), 0);
  EXPECT_EQ(peak_memory(0), 0);
}

constexpr const char* kMetrics = R"(# HELP apiserver_request_total x
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 4000
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="status",verb="PATCH",version="v1"} 1.2e+06
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 17
apiserver_request_total{code="201",component="apiserver",dry_run="All",group="",resource="services",scope="resource",subresource="",verb="POST",version="v1"} 5
apiserver_request_total{code="201",component="apiserver",dry_run="",group="authorization.k8s.io",resource="subjectaccessreviews",scope="resource",subresource="",verb="POST",version="v1"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="",group="muster.dev",resource="trainingjobs",scope="resource",subresource="status",verb="APPLY",version="v1alpha1"} 300
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 40
apiserver_request_total{code="201",component="apiserver",dry_run="",group="events.k8s.io",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 7
apiserver_request_terminations_total{code="201",group="",resource="pods",verb="POST"} 9
)";

TEST(ApiWrites, AreCountedByKindAndWriter) {
  const auto counts = parse_writes(kMetrics);
  EXPECT_EQ(counts.size(), 5U);
  EXPECT_EQ(counts.at({"", "pods", "", "POST"}), 4002);
  EXPECT_EQ(counts.at({"", "pods", "status", "PATCH"}), 1'200'000);
  EXPECT_EQ(total(counts, Writer::kCounted), 4002 + 300 + 7);
  EXPECT_EQ(total(counts, Writer::kSimulatedNodes), 1'200'000);
  EXPECT_EQ(total(counts, Writer::kLeases), 40);
  EXPECT_EQ((WriteKind{"muster.dev", "trainingjobs", "status", "APPLY"}.text()),
            "muster.dev trainingjobs/status APPLY");
}

TEST(ApiWrites, DifferenceLeavesOutWhatDidNotChange) {
  const WriteCounts before = {{{"", "pods", "", "POST"}, 10}, {{"", "nodes", "", "POST"}, 5}};
  const WriteCounts after = {
      {{"", "pods", "", "POST"}, 14}, {{"", "nodes", "", "POST"}, 5}, {{"", "services", "", "POST"}, 1}};
  const WriteCounts expected = {{{"", "pods", "", "POST"}, 4}, {{"", "services", "", "POST"}, 1}};
  EXPECT_EQ(difference(after, before), expected);
}

AuditPod pod_on(const std::string& name, const std::string& node, const std::string& gpu) {
  return {name, "job-0", "1", node, "Running", 1, {gpu}};
}

struct Audit : testing::Test {
  Expected expected{2, 2, {{"node-0", 2}, {"node-1", 1}}};
  std::vector<AuditPod> pods = {pod_on("a", "node-0", "0"), pod_on("b", "node-0", "1")};

  std::string verdict() const {
    std::string text;
    for (const auto& problem : audit(pods, expected)) text += problem + "; ";
    return text;
  }
};

TEST_F(Audit, PassesWhatIsRight) {
  EXPECT_EQ(verdict(), "");
}

TEST_F(Audit, FindsAGpuGivenTwice) {
  pods[1].held = {"0"};
  EXPECT_EQ(verdict(), "GPU 0 of node-0 is given to a and b; ");
}

TEST_F(Audit, FindsAGangThatIsNotWhole) {
  pods.pop_back();
  EXPECT_EQ(verdict(), "there are 1 pods, not 2; job job-0 has 1 pods, not 2; ");
}

TEST_F(Audit, FindsPodsOfTwoAttempts) {
  pods[1].attempt = "2";
  EXPECT_EQ(verdict(), "job job-0 has pods of 2 attempts; ");
}

TEST_F(Audit, FindsAPodThatDoesNotRun) {
  pods[1].phase = "Pending";
  EXPECT_EQ(verdict(), "pod b is Pending, not Running; ");
}

TEST_F(Audit, FindsANodeAboveItsGpus) {
  pods[0].node = pods[1].node = "node-1";
  EXPECT_EQ(verdict(),
            "pod b was given GPU '1', which node-1 has not; node-1 has 1 GPUs, and 2 are given out; ");
}

TEST_F(Audit, FindsADeviceThatWasNotGiven) {
  pods[1].held.clear();
  EXPECT_EQ(verdict(), "pod b asks for 1 GPUs and was given 0; ");
}

TEST_F(Audit, FindsAnUnknownNode) {
  pods[1].node = "node-9";
  EXPECT_EQ(verdict(), "pod b is on node 'node-9', which does not exist; ");
}

TEST(AuditPod, IsReadFromTheObject) {
  const auto pod = audit_pod(
      json::parse(R"({"metadata":{"name":"p","labels":{"muster.dev/job":"j","muster.dev/attempt":"1"},
    "annotations":{"muster.dev/gpus":"2,5"}},"spec":{"nodeName":"n","containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":"2"}}}]},
    "status":{"phase":"Running"}})"));
  EXPECT_EQ(pod.name, "p");
  EXPECT_EQ(pod.job, "j");
  EXPECT_EQ(pod.node, "n");
  EXPECT_EQ(pod.gpus, 2);
  EXPECT_EQ(pod.held, (std::vector<std::string>{"2", "5"}));
}

}  // namespace
}  // namespace muster::bench
