#include "process/metrics.h"

#include <dirent.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <utility>

namespace muster::controller {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

// controller-runtime's buckets for reconcile time, seconds.
const Histogram::BucketBoundaries kReconcileBuckets = {0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25,
                                                       0.3,   0.35, 0.4,   0.45, 0.5, 0.6,  0.7, 0.8,
                                                       0.9,   1,    2.5,   5,    10,  60};
const Histogram::BucketBoundaries kPlanBuckets = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                  0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};

template <class F>
auto& family(F&& builder, prometheus::Registry& registry, const char* name, const char* help) {
  return builder.Name(name).Help(help).Register(registry);
}

// A counter kept elsewhere as a running total.
void set_total(Counter& counter, double total) {
  if (const double behind = total - counter.Value(); behind > 0) counter.Increment(behind);
}

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  long size = 0, resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double open_fds() {
  int n = 0;
  if (DIR* dir = opendir("/proc/self/fd")) {
    while (readdir(dir) != nullptr) ++n;
    closedir(dir);
  }
  return n;
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  std::vector<prometheus::MetricFamily> sampled;
  Family<Counter>& reconcile_total =
      family(prometheus::BuildCounter(), registry, "controller_runtime_reconcile_total",
             "Reconciliations per controller and result.");
  Family<Counter>& reconcile_errors =
      family(prometheus::BuildCounter(), registry, "controller_runtime_reconcile_errors_total",
             "Reconciliations per controller that ended in an error.");
  Family<Counter>& panics =
      family(prometheus::BuildCounter(), registry, "controller_runtime_reconcile_panics_total",
             "Exceptions that code threw while it looked at one object, per controller.");
  Family<Histogram>& reconcile_time =
      family(prometheus::BuildHistogram(), registry, "controller_runtime_reconcile_time_seconds",
             "Length of a reconciliation per controller.");
  Family<Gauge>& active = family(prometheus::BuildGauge(), registry, "controller_runtime_active_workers",
                                 "Reconciliations now going on per controller.");
  Family<Gauge>& depth =
      family(prometheus::BuildGauge(), registry, "workqueue_depth", "Keys that wait in the work queue.");
  Family<Counter>& adds =
      family(prometheus::BuildCounter(), registry, "workqueue_adds_total",
             "Times that a change asked for a key to be looked at, also where the key waited already.");
  Family<Counter>& retries = family(prometheus::BuildCounter(), registry, "workqueue_retries_total",
                                    "Keys queued again after an error.");
  Family<Counter>& requests =
      family(prometheus::BuildCounter(), registry, "rest_client_requests_total",
             "Requests to the API server by method, resource and HTTP status (0: none).");
  Family<Histogram>& request_time =
      family(prometheus::BuildHistogram(), registry, "rest_client_request_duration_seconds",
             "Time from sending a request to its answer, by method.");
  Family<Counter>& watch_events = family(prometheus::BuildCounter(), registry, "muster_watch_events_total",
                                         "Watch events received per resource.");
  Family<Counter>& watch_restarted =
      family(prometheus::BuildCounter(), registry, "muster_watches_total", "Watches opened per resource.");
  Family<Counter>& watch_failed =
      family(prometheus::BuildCounter(), registry, "muster_watch_errors_total",
             "Lists and watches that failed and were tried again after a pause, per resource.");
  Family<Gauge>& cached = family(prometheus::BuildGauge(), registry, "muster_cached_objects",
                                 "Objects in the cache per resource.");
  Family<Counter>& undecodable = family(prometheus::BuildCounter(), registry, "muster_decode_errors_total",
                                        "Objects that could not be decoded, per resource.");
  Family<Gauge>& master = family(prometheus::BuildGauge(), registry, "leader_election_master_status",
                                 "1 while this process leads, by lease.");
  Family<Histogram>& plan_time = family(prometheus::BuildHistogram(), registry,
                                        "muster_plan_duration_seconds", "Time of one placement plan.");
  Counter& plans_cut_off =
      family(prometheus::BuildCounter(), registry, "muster_plans_cut_off_total",
             "Placement plans that reached their bound on work or rounds, so that some of the "
             "work waited for the next plan.")
          .Add({});
  Family<Counter>& decision =
      family(prometheus::BuildCounter(), registry, "muster_decisions_total", "Placement decisions by type.");
  Family<Counter>& pods = family(prometheus::BuildCounter(), registry, "muster_pod_writes_total",
                                 "Pods created and deleted, by verb.");
  Family<Gauge>& job_phase =
      family(prometheus::BuildGauge(), registry, "muster_jobs", "TrainingJobs by phase.");
  Family<Counter>& endpoint =
      family(prometheus::BuildCounter(), registry, "muster_endpoint_reads_total",
             "Metrics endpoints asked, of nodes (gpus) and of inference servers (replicas), by result.");
  Family<Counter>& dropped = family(prometheus::BuildCounter(), registry, "muster_events_dropped_total",
                                    "Events not sent because the API server could not keep up.");
  Gauge& memory = family(prometheus::BuildGauge(), registry, "process_resident_memory_bytes",
                         "Resident memory size in bytes.")
                      .Add({});
  Counter& cpu = family(prometheus::BuildCounter(), registry, "process_cpu_seconds_total",
                        "Total user and system CPU time spent in seconds.")
                     .Add({});
  Gauge& fds =
      family(prometheus::BuildGauge(), registry, "process_open_fds", "Number of open file descriptors.")
          .Add({});
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::reconciled(std::string_view controller, std::string_view result,
                         std::chrono::microseconds took) {
  const std::string name(controller);
  impl_->reconcile_total.Add({{"controller", name}, {"result", std::string(result)}}).Increment();
  if (result == "error") impl_->reconcile_errors.Add({{"controller", name}}).Increment();
  impl_->reconcile_time.Add({{"controller", name}}, kReconcileBuckets)
      .Observe(static_cast<double>(took.count()) / 1e6);
}
void Metrics::panicked(std::string_view controller) {
  impl_->panics.Add({{"controller", std::string(controller)}}).Increment();
}
void Metrics::active_workers(std::string_view controller, int n) {
  impl_->active.Add({{"controller", std::string(controller)}}).Set(n);
}
void Metrics::queue_depth(std::string_view queue, std::size_t depth) {
  impl_->depth.Add({{"name", std::string(queue)}}).Set(static_cast<double>(depth));
}
void Metrics::queue_added(std::string_view queue) {
  impl_->adds.Add({{"name", std::string(queue)}}).Increment();
}
void Metrics::queue_retried(std::string_view queue) {
  impl_->retries.Add({{"name", std::string(queue)}}).Increment();
}
void Metrics::request(std::string_view verb, std::string_view resource, int status,
                      std::chrono::milliseconds took) {
  impl_->requests
      .Add({{"method", std::string(verb)},
            {"resource", std::string(resource)},
            {"code", std::to_string(status)}})
      .Increment();
  if (verb == "WATCH") return;
  impl_->request_time.Add({{"method", std::string(verb)}}, kReconcileBuckets)
      .Observe(static_cast<double>(took.count()) / 1e3);
}
void Metrics::watch_event_total(std::string_view resource, double total) {
  set_total(impl_->watch_events.Add({{"resource", std::string(resource)}}), total);
}
void Metrics::watch_restarts(std::string_view resource, double total) {
  set_total(impl_->watch_restarted.Add({{"resource", std::string(resource)}}), total);
}
void Metrics::watch_errors(std::string_view resource, double total) {
  set_total(impl_->watch_failed.Add({{"resource", std::string(resource)}}), total);
}
void Metrics::cached_objects(std::string_view resource, std::size_t n) {
  impl_->cached.Add({{"resource", std::string(resource)}}).Set(static_cast<double>(n));
}
void Metrics::decode_errors(std::string_view resource, double total) {
  set_total(impl_->undecodable.Add({{"resource", std::string(resource)}}), total);
}
void Metrics::leader(std::string_view lease, bool is_leader) {
  impl_->master.Add({{"name", std::string(lease)}}).Set(is_leader ? 1 : 0);
}
void Metrics::planned(std::chrono::microseconds took, bool is_cut_off) {
  if (is_cut_off) impl_->plans_cut_off.Increment();
  impl_->plan_time.Add({}, kPlanBuckets).Observe(static_cast<double>(took.count()) / 1e6);
}
void Metrics::decisions(std::string_view type, double total) {
  set_total(impl_->decision.Add({{"type", std::string(type)}}), total);
}
void Metrics::pods_created(double count) {
  set_total(impl_->pods.Add({{"verb", "create"}}), count);
}
void Metrics::pods_deleted(double count) {
  set_total(impl_->pods.Add({{"verb", "delete"}}), count);
}
void Metrics::jobs(std::string_view phase, double n) {
  impl_->job_phase.Add({{"phase", std::string(phase)}}).Set(n);
}
void Metrics::endpoint_reads(std::string_view of, double read, double failed) {
  set_total(impl_->endpoint.Add({{"of", std::string(of)}, {"result", "success"}}), read);
  set_total(impl_->endpoint.Add({{"of", std::string(of)}, {"result", "error"}}), failed);
}
void Metrics::events_dropped(double total) {
  set_total(impl_->dropped.Add({}), total);
}

void Metrics::sample_process() {
  impl_->memory.Set(resident_bytes());
  impl_->fds.Set(open_fds());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  set_total(impl_->cpu, seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

void Metrics::sampled(std::vector<prometheus::MetricFamily> families) {
  impl_->sampled = std::move(families);
}

std::string Metrics::text() const {
  const prometheus::TextSerializer serializer;
  return serializer.Serialize(impl_->registry.Collect()) + serializer.Serialize(impl_->sampled);
}

}  // namespace muster::controller
