#include "process/job_counts.h"

#include <algorithm>
#include <optional>

#include "muster/client/object.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "process/sampled_family.h"

namespace muster::controller {
namespace {

using prometheus::Histogram;
using prometheus::MetricType;

constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
const Histogram::BucketBoundaries kWaitBuckets = {
    1,     5,         15,        kMinute,   5 * kMinute, 15 * kMinute, 30 * kMinute,
    kHour, 2 * kHour, 4 * kHour, 8 * kHour, kDay,        3 * kDay,     7 * kDay};
const Histogram::BucketBoundaries kRunBuckets = {kMinute,    5 * kMinute, 15 * kMinute, kHour,   4 * kHour,
                                                 12 * kHour, kDay,        3 * kDay,     7 * kDay};
// Of an estimate that was too early the error is negative.
const Histogram::BucketBoundaries kErrorBuckets = {-kDay,    -4 * kHour, -kHour,  -15 * kMinute, -5 * kMinute,
                                                   -kMinute, 0,          kMinute, 5 * kMinute,   15 * kMinute,
                                                   kHour,    4 * kHour,  kDay};

double seconds_between(crds::Time from, crds::Time to) {
  return static_cast<double>((to - from).count());
}

// What the note says was done to the job; "": nothing that disturbs it.
std::string_view disruption_of(const reconcilers::Note& note, const crds::TrainingJobStatus& after) {
  if (note.action == "Evict") return after.nominated.pods.empty() ? "evict" : "move";
  if (note.action == "Move" && note.reason != "MoveFailed") return "move";
  if (note.action == "Shrink") return "shrink";
  if (note.action == "Restart") return "restart";
  if (note.action == "Reform") return "reform";
  if (note.action == "Replace") return "replace";
  return {};
}

}  // namespace

JobCounts::OfProject::OfProject() : waits(kWaitBuckets), estimate_errors(kErrorBuckets) {
  for (const char* result : {"Succeeded", "Failed"}) runs.try_emplace(result, kRunBuckets);
}

void JobCounts::count(const std::string& project, const crds::TrainingJob& before,
                      const reconcilers::Step& step) {
  if (project.empty()) return;
  OfProject& counts = projects_[project];
  const crds::TrainingJobStatus& after = step.status;
  const std::string key = client::make_key(before.metadata.ns, before.metadata.name);
  if (before.status.assignment.attempt == 0 && after.assignment.attempt != 0)
    count_start(counts, key, before, after);
  if (after.queue.estimated_start) estimates_[key] = *after.queue.estimated_start;
  if (!reconcilers::is_finished(before.status) && reconcilers::is_finished(after)) {
    const char* result = crds::is_true(after.conditions, "Complete") ? "Succeeded" : "Failed";
    counts.runs.at(result).Observe(static_cast<double>(after.run_seconds));
    estimates_.erase(key);
  }
  for (const auto& note : step.notes) {
    if (const auto action = disruption_of(note, after); !action.empty())
      ++counts.disruptions[{action, note.reason}];
  }
  for (const auto& loss : step.lost) {
    if (!loss.is_of_gpus) continue;
    if (loss.seconds > 0)
      counts.lost_gpu_seconds[{loss.cause, loss.is_owed}] += static_cast<double>(loss.seconds);
    if (loss.work_seconds > 0) counts.lost_work[loss.cause] += static_cast<double>(loss.work_seconds);
  }
}

void JobCounts::count_start(OfProject& counts, const std::string& key, const crds::TrainingJob& before,
                            const crds::TrainingJobStatus& after) {
  const auto start = after.assignment.admitted_at;
  std::optional<crds::Time> estimate = before.status.queue.estimated_start;
  if (const auto said = estimates_.find(key); said != estimates_.end()) {
    estimate = said->second;
    estimates_.erase(said);
  }
  if (!start) return;
  if (before.status.attempt == 0 && before.metadata.creation_timestamp)
    counts.waits.Observe(std::max(0.0, seconds_between(*before.metadata.creation_timestamp, *start)));
  if (estimate) counts.estimate_errors.Observe(seconds_between(*start, *estimate));
}

void JobCounts::match(const reconcilers::Caches& caches) {
  const auto& projects = caches.projects.store();
  std::erase_if(projects_, [&](const auto& entry) { return projects.find(entry.first) == nullptr; });
  for (const auto& [name, project] : projects.all()) projects_[name];
  const auto& jobs = caches.jobs.store();
  std::erase_if(estimates_, [&](const auto& entry) { return jobs.find(entry.first) == nullptr; });
}

void JobCounts::append_to(std::vector<prometheus::MetricFamily>& families) const {
  SampledFamily waits(MetricType::Histogram, "muster_job_admission_wait_seconds",
                      "From a job's submission to its first admission.", {"project"});
  SampledFamily runs(MetricType::Histogram, "muster_job_run_seconds",
                     "How long finished jobs ran, in all their attempts.", {"project", "result"});
  SampledFamily errors(MetricType::Histogram, "muster_job_start_estimate_error_seconds",
                       "The estimated start as last said, minus the real one.", {"project"});
  SampledFamily disruptions(MetricType::Counter, "muster_job_disruptions_total",
                            "What was done to jobs that held GPUs, and why.", {"project", "action", "cause"});
  SampledFamily lost(MetricType::Counter, "muster_disruption_gpu_seconds_total",
                     "GPU-seconds that disturbances have cost jobs, by cause and whether they were owed to "
                     "somebody.",
                     {"project", "cause", "owed"});
  SampledFamily work(MetricType::Counter, "muster_lost_work_gpu_seconds_total",
                     "Of the GPU-seconds of running work, what was thrown away, by cause.",
                     {"project", "cause"});
  for (const auto& [project, counts] : projects_) {
    waits.add({project}, counts.waits.Collect());
    errors.add({project}, counts.estimate_errors.Collect());
    for (const auto& [result, histogram] : counts.runs) runs.add({project, result}, histogram.Collect());
    for (const auto& [what, n] : counts.disruptions) disruptions.add({project, what.first, what.second}, n);
    for (const auto& [what, seconds] : counts.lost_gpu_seconds)
      lost.add({project, what.first, what.second ? "true" : "false"}, seconds);
    for (const auto& [cause, seconds] : counts.lost_work) work.add({project, cause}, seconds);
  }
  for (SampledFamily* family : {&waits, &runs, &errors, &disruptions, &lost, &work})
    family->move_to(families);
}

}  // namespace muster::controller
