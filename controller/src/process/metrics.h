// What the process counts, in prometheus-cpp's types and, where controller-runtime has a name for it, under
// that name.
#pragma once

#include <prometheus/metric_family.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::controller {

class Metrics {
 public:
  Metrics();
  ~Metrics();

  // One reconcile: `result` is success, requeue_after or error.
  void reconciled(std::string_view controller, std::string_view result, std::chrono::microseconds took);
  // Code threw an exception while it looked at one object. controller-runtime's name for it: a panic.
  void panicked(std::string_view controller);
  void active_workers(std::string_view controller, int n);
  void queue_depth(std::string_view queue, std::size_t depth);
  void queue_added(std::string_view queue);
  void queue_retried(std::string_view queue);
  void request(std::string_view verb, std::string_view resource, int status, std::chrono::milliseconds took);
  void watch_event_total(std::string_view resource, double total);
  void watch_restarts(std::string_view resource, double total);
  void watch_errors(std::string_view resource, double total);
  void cached_objects(std::string_view resource, std::size_t n);
  void decode_errors(std::string_view resource, double total);
  void leader(std::string_view lease, bool is_leader);
  // One plan. `is_cut_off`: it reached its bound on work or on rounds, so what is left waits for the next
  // one.
  void planned(std::chrono::microseconds took, bool is_cut_off);
  void decisions(std::string_view type, double count);
  void pods_created(double count);
  void pods_deleted(double count);
  void jobs(std::string_view phase, double n);
  // Metrics endpoints asked, of "gpus" or "replicas".
  void endpoint_reads(std::string_view of, double read, double failed);
  void events_dropped(double total);
  // Process-wide: process_resident_memory_bytes, process_cpu_seconds_total, process_open_fds
  // (Prometheus' names).
  void sample_process();
  // Metrics that are made anew for each scrape (sharing_metrics.h, job_counts.h). They stand for those of the
  // last one.
  void sampled(std::vector<prometheus::MetricFamily> families);

  std::string text() const;  // the exposition format

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::controller
