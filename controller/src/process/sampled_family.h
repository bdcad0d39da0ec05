// A metric with its series as they are at one scrape. What is gone since the last one is simply not in it.
#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::controller {

class SampledFamily {
 public:
  using Values = std::initializer_list<std::string_view>;  // of the labels, in their order

  SampledFamily(prometheus::MetricType type, std::string name, std::string help,
                std::vector<std::string> labels)
      : labels_(std::move(labels)) {
    family_.name = std::move(name);
    family_.help = std::move(help);
    family_.type = type;
  }

  void add(Values values, double value) {
    prometheus::ClientMetric metric;
    metric.gauge.value = metric.counter.value = value;
    add(values, std::move(metric));
  }
  void add(Values values, prometheus::ClientMetric metric) {
    metric.label.reserve(labels_.size());
    for (std::size_t i = 0; const std::string_view value : values)
      metric.label.push_back({labels_[i++], std::string(value)});
    family_.metric.push_back(std::move(metric));
  }
  void move_to(std::vector<prometheus::MetricFamily>& families) { families.push_back(std::move(family_)); }

 private:
  std::vector<std::string> labels_;
  prometheus::MetricFamily family_;
};

inline SampledFamily sampled_gauge(std::string name, std::string help, std::vector<std::string> labels) {
  return {prometheus::MetricType::Gauge, std::move(name), std::move(help), std::move(labels)};
}

}  // namespace muster::controller
