#include "muster/reconcilers/services/serving_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::reconcilers {
namespace {

using crds::CanaryMetric;
using crds::MilliLoad;
using crds::ServingMetric;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr client::WallTime kWall{seconds{1'800'000'000}};

MilliLoad load(double n) {
  return MilliLoad{static_cast<std::int64_t>(n * 1000)};
}

template <class Metric>
std::expected<MetricLoad, std::string> reading(const Metric& metric, std::string_view text) {
  const MetricSource source = source_of(metric);
  const auto samples =
      client::parse_exposition(text, [&](std::string_view name) { return is_name_of(source, name); });
  EXPECT_TRUE(samples);
  return reading_of(source, *samples, kWall);
}
std::expected<MilliLoad, std::string> read(ServingMetric metric, std::string_view text) {
  const auto said =
      reading(crds::ScalingMetric{.metric = metric, .name = {}, .labels = {}, .target = {}}, text);
  if (!said) return std::unexpected(said.error());
  return said->load;
}

TEST(LoadOf, KnowsWhatServersCallIt) {
  struct Case {
    const char* text;
    double waiting, running, cache;
  };
  const Case cases[] = {
      {"vllm:num_requests_waiting{engine=\"0\"} 3.0\nvllm:num_requests_waiting{engine=\"1\"} 4.0\n"
       "vllm:num_requests_running{engine=\"0\"} 12.0\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n"
       "vllm:kv_cache_usage_perc{engine=\"1\"} 0.9\nvllm:gpu_cache_usage_perc{engine=\"0\"} 0.1\n",
       7, 12, 0.7},
      {"vllm:num_requests_waiting 0\nvllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 0.25\n", 0, 1,
       0.25},
      {"sglang:num_queue_reqs{model_name=\"m\",priority=\"\"} 5\nsglang:num_queue_reqs{priority=\"1\"} 5\n"
       "sglang:num_running_reqs{model_name=\"m\"} 2\nsglang:token_usage{model_name=\"m\"} 0.28\n",
       5, 2, 0.28},
      {"trtllm_num_requests_waiting 6\ntrtllm_num_requests_running 8\ntrtllm_kv_cache_utilization 0.62\n", 6,
       8, 0.62},
      {"nv_inference_pending_request_count{model=\"a\"} 99\n"
       "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"waiting\",version=\"1\"} 4\n"
       "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"scheduled\",version=\"1\"} 2\n"
       "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"max\",version=\"1\"} 512\n"
       "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\",version=\"1\"} 0.5\n"
       "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\",version=\"1\"} 6239\n",
       4, 2, 0.5}};
  for (const Case& c : cases) {
    EXPECT_EQ(read(ServingMetric::kRequestsWaiting, c.text), load(c.waiting)) << c.text;
    EXPECT_EQ(read(ServingMetric::kRequestsRunning, c.text), load(c.running)) << c.text;
    EXPECT_EQ(read(ServingMetric::kKVCacheUtilization, c.text), load(c.cache)) << c.text;
  }
  EXPECT_EQ(read(ServingMetric::kRequestsWaiting, "nv_inference_pending_request_count{model=\"a\"} 3\n"),
            load(3));
}

TEST(LoadOf, RefusesWhatIsNoAmountOrOldOrNotThere) {
  const auto refusal = [](std::string_view text) {
    const auto said = read(ServingMetric::kRequestsWaiting, text);
    return said ? "taken" : said.error();
  };
  EXPECT_THAT(refusal(""), HasSubstr("none of vllm:num_requests_waiting, sglang"));
  EXPECT_THAT(refusal("vllm:num_requests_waiting NaN\n"), HasSubstr("is nan"));
  EXPECT_THAT(refusal("vllm:num_requests_waiting -1\n"), HasSubstr("is -1"));
  EXPECT_THAT(refusal("vllm:num_requests_waiting +Inf\n"), HasSubstr("is inf"));
  EXPECT_THAT(refusal("vllm:num_requests_waiting 1e300\n"), HasSubstr("is 1e+300"));
  EXPECT_THAT(refusal("nv_trt_llm_request_metrics{request_type=\"max\"} 1\n"), HasSubstr("none of"));
  EXPECT_THAT(refusal("vllm:num_requests_waiting 1 1799999930000\n"), HasSubstr("older than 60 s"));
  EXPECT_EQ(refusal("vllm:num_requests_waiting 1 1799999950000\n"), "taken");
}

TEST(LoadOf, AnyMetricByNameAndLabels) {
  crds::ScalingMetric metric;
  metric.name = "cache_entries";
  const char* text = "cache_entries{tier=\"hot\",m=\"a\"} 3\ncache_entries{tier=\"cold\"} 40\nother 5\n";
  EXPECT_EQ(reading(metric, text)->load, load(43));
  metric.labels = {{"tier", "hot"}};
  EXPECT_EQ(reading(metric, text)->load, load(3));
  metric.labels["m"] = "b";
  EXPECT_THAT(reading(metric, text).error(), HasSubstr("no cache_entries that has the labels"));
  EXPECT_THAT(reading(metric, "cache_entries -1\n").error(), HasSubstr("no cache_entries"));
  metric.labels.clear();
  EXPECT_THAT(reading(metric, "cache_entries -1\n").error(), HasSubstr("cache_entries is -1"));
}

TEST(LoadOf, TimeToFirstTokenIsASumOverRequests) {
  const crds::ScalingMetric metric{
      .metric = ServingMetric::kTimeToFirstToken, .name = {}, .labels = {}, .target = {}};
  for (const char* of : {"vllm:", "sglang:", "trtllm_"}) {
    const std::string name = std::string(of) + "time_to_first_token_seconds";
    const std::string text = name + "_bucket{le=\"0.1\"} 1\n" + name + "_sum{engine=\"0\"} 1.5\n" + name +
                             "_sum{engine=\"1\"} 2\n" + name + "_count{engine=\"0\"} 3\n" + name +
                             "_count{engine=\"1\"} 4\n";
    EXPECT_EQ(reading(metric, text), (MetricLoad{load(3.5), load(7)})) << name;
  }
  EXPECT_THAT(reading(metric, "up 1\n").error(), HasSubstr("none of vllm:time_to_first_token_seconds_count"));
}

TEST(LoadOf, ErrorsAreAnswersWithAFaultOfTheServer) {
  const crds::CanaryCheck check{.metric = CanaryMetric::kErrorRate, .name = {}, .labels = {}, .max = {}};
  EXPECT_EQ(reading(check,
                    "http_requests_total{handler=\"/v1\",status=\"2xx\"} 90\n"
                    "http_requests_total{handler=\"/v1\",status=\"4xx\"} 5\n"
                    "http_requests_total{handler=\"/v1\",status=\"5xx\"} 4\n"
                    "http_requests_total{handler=\"/v2\",status=\"503\"} 1\n"),
            (MetricLoad{load(5), load(100)}));
  EXPECT_EQ(reading(check, "nv_inference_request_success 9\nnv_inference_request_failure 1\n"),
            (MetricLoad{load(1), load(10)}));
  EXPECT_EQ(reading(check, ""), MetricLoad{}) << "it has answered nobody yet";
}

TEST(LoadOf, WhatCameSinceAndAServerThatBeganAnew) {
  EXPECT_EQ(since({load(3), load(7)}, {load(4), load(9)}), (MetricLoad{load(1), load(2)}));
  EXPECT_EQ(since({load(3), load(7)}, {load(0.5), load(1)}), (MetricLoad{load(0.5), load(1)}));
}

}  // namespace
}  // namespace muster::reconcilers
