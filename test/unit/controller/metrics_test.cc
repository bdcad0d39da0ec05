// The names that dashboards and alerts made for controller-runtime look for, and that the text is the
// exposition format.
#include "process/metrics.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "process/sampled_family.h"

namespace muster::controller {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsSupersetOf;

std::set<std::string> names_in(const std::string& text) {
  std::set<std::string> names;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# TYPE ")) names.insert(line.substr(7, line.find(' ', 7) - 7));
  }
  return names;
}

TEST(MetricsText, HasTheNamesOfControllerRuntimeAndPrometheus) {
  Metrics metrics;
  metrics.reconciled("trainingjob", "success", milliseconds{3});
  metrics.reconciled("trainingjob", "error", milliseconds{3});
  metrics.panicked("trainingjob");
  metrics.active_workers("trainingjob", 2);
  metrics.queue_depth("trainingjob", 7);
  metrics.queue_added("trainingjob");
  metrics.queue_retried("trainingjob");
  metrics.request("GET", "pods", 200, milliseconds{12});
  metrics.leader("muster-controller", true);
  metrics.sample_process();
  const std::string text = metrics.text();
  const std::set<std::string> expected = {"controller_runtime_reconcile_total",
                                          "controller_runtime_reconcile_errors_total",
                                          "controller_runtime_reconcile_panics_total",
                                          "controller_runtime_reconcile_time_seconds",
                                          "controller_runtime_active_workers",
                                          "workqueue_depth",
                                          "workqueue_adds_total",
                                          "workqueue_retries_total",
                                          "rest_client_requests_total",
                                          "rest_client_request_duration_seconds",
                                          "leader_election_master_status",
                                          "process_resident_memory_bytes",
                                          "process_cpu_seconds_total",
                                          "process_open_fds"};
  EXPECT_THAT(names_in(text), IsSupersetOf(expected));
  EXPECT_THAT(
      text, HasSubstr("controller_runtime_reconcile_total{controller=\"trainingjob\",result=\"success\"} 1"));
  EXPECT_THAT(text, HasSubstr("controller_runtime_reconcile_errors_total{controller=\"trainingjob\"} 1"));
  EXPECT_THAT(text,
              HasSubstr("controller_runtime_reconcile_time_seconds_count{controller=\"trainingjob\"} 2"));
  EXPECT_THAT(text, HasSubstr("workqueue_depth{name=\"trainingjob\"} 7"));
  EXPECT_THAT(text, HasSubstr("leader_election_master_status{name=\"muster-controller\"} 1"));
}

TEST(MetricsText, AWatchHasNoDurationAndARequestWithoutAnswerIsCounted) {
  Metrics metrics;
  metrics.request("WATCH", "pods", 200, milliseconds{300'000});
  metrics.request("POST", "pods", 0, milliseconds{30'000});
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr("rest_client_request_duration_seconds_count{method=\"POST\"} 1"));
  EXPECT_THAT(text, testing::Not(HasSubstr("rest_client_request_duration_seconds_count{method=\"WATCH\"}")));
  EXPECT_THAT(text, testing::ContainsRegex("rest_client_requests_total.*code=\"0\""));
}

TEST(MetricsText, APlanIsTimedAndCountedWhereItWasCutOff) {
  Metrics metrics;
  EXPECT_THAT(metrics.text(), HasSubstr("muster_plans_cut_off_total 0"));
  metrics.planned(milliseconds{3}, false);
  metrics.planned(milliseconds{4000}, true);
  EXPECT_THAT(metrics.text(), HasSubstr("muster_plan_duration_seconds_count 2"));
  EXPECT_THAT(metrics.text(), HasSubstr("muster_plan_duration_seconds_bucket{le=\"2.5\"} 1"));
  EXPECT_THAT(metrics.text(), HasSubstr("muster_plan_duration_seconds_bucket{le=\"5\"} 2"));
  EXPECT_THAT(metrics.text(), HasSubstr("muster_plans_cut_off_total 1"));
}

TEST(MetricsText, WhatIsSampledStandsForWhatWasSampledBefore) {
  Metrics metrics;
  const auto sample = [&](const char* node) {
    auto family = sampled_gauge("muster_node_usable", "1 where new work may come.", {"node"});
    family.add({node}, 1);
    std::vector<prometheus::MetricFamily> families;
    family.move_to(families);
    metrics.sampled(std::move(families));
  };
  sample("a");
  EXPECT_THAT(metrics.text(), HasSubstr("muster_node_usable{node=\"a\"} 1"));
  sample("b");
  EXPECT_THAT(metrics.text(), HasSubstr("muster_node_usable{node=\"b\"} 1"));
  EXPECT_THAT(metrics.text(), testing::Not(HasSubstr("node=\"a\"")));
}

TEST(MetricsText, RunningTotalsNeverGoBack) {
  Metrics metrics;
  metrics.decisions("start", 5);
  metrics.decisions("start", 3);
  EXPECT_THAT(metrics.text(), HasSubstr("muster_decisions_total{type=\"start\"} 5"));
  metrics.decisions("start", 6);
  EXPECT_THAT(metrics.text(), HasSubstr("muster_decisions_total{type=\"start\"} 6"));
}

}  // namespace
}  // namespace muster::controller
