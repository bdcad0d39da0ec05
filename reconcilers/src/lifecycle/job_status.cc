#include "muster/reconcilers/lifecycle/job_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/gpu_share.h"

namespace muster::reconcilers {
namespace {

using crds::ConditionStatus;

crds::Phase phase_of(const crds::TrainingJobSpec& spec, const crds::TrainingJobStatus& status, bool leaving,
                     bool resizing) {
  if (crds::is_true(status.conditions, "Complete")) return crds::Phase::kSucceeded;
  if (crds::is_true(status.conditions, "Failed")) return crds::Phase::kFailed;
  if (leaving) return crds::Phase::kCheckpointing;
  if (spec.suspend) return crds::Phase::kSuspended;
  if (status.assignment.attempt == 0) return crds::Phase::kQueued;
  if (!status.started_at) return crds::Phase::kStarting;
  return resizing ? crds::Phase::kResizing : crds::Phase::kRunning;
}

crds::TrainingJobStatus without_counters(crds::TrainingJobStatus s) {
  s.ready_replicas = 0;
  s.succeeded_replicas = 0;
  s.assignment.succeeded.clear();
  s.pods.clear();
  s.checkpoint = {};
  s.disruption = {};
  s.queue.position = 0;
  s.queue.project_position = 0;
  s.queue.estimated_start.reset();
  s.queue.estimated_start_from.reset();
  // The part about who goes last is no mere counter: it changes seldom, and would not be true any more when a
  // deferred write comes.
  s.queue.message = std::string(last_to_go_in(s.queue.message));
  s.queue.blocking.clear();
  // The message of Admitted=False repeats the queue's.
  for (auto& c : s.conditions) {
    if (c.type == "Admitted" && c.status != ConditionStatus::kTrue) c.message.clear();
  }
  return s;
}

}  // namespace

crds::MilliGpu cost_of(const crds::PodAssignment& place, const PlaceCost& cost) {
  return cost ? cost(place) : crds::MilliGpu{static_cast<std::int64_t>(place.gpus.size()) * 1000};
}

void begin_with_the_object(crds::TrainingJobStatus& status, const crds::ObjectMeta& object) {
  if (!object.creation_timestamp || is_finished(status)) return;
  auto& a = status.assignment;
  for (auto* began : {&status.started_at, &a.admitted_at, &a.resized_at})
    if (*began) *began = std::max(**began, *object.creation_timestamp);
}

bool is_finished(const crds::TrainingJobStatus& status) {
  return crds::is_true(status.conditions, "Complete") || crds::is_true(status.conditions, "Failed");
}

bool may_be_idle(const crds::TrainingJob& job) {
  const auto& status = job.status;
  return status.assignment.attempt != 0 && status.started_at && !is_finished(status);
}

bool ends_when_idle(const crds::TrainingJob& job) {
  return job.spec.idle && job.spec.idle->timeout && may_be_idle(job);
}

bool differs_in_counters_only(const crds::TrainingJobStatus& a, const crds::TrainingJobStatus& b) {
  return without_counters(a) == without_counters(b);
}

void start_conditions(crds::TrainingJobStatus& status, std::int64_t generation, crds::Time now) {
  static constexpr std::array<std::string_view, 9> kTypes = {"Accepted", "Admitted",  "PodsReady",
                                                             "Evicted",  "Suspended", "Complete",
                                                             "Failed",   "Stalled",   "GracePeriodTooShort"};
  for (const auto type : kTypes) {
    if (crds::find_condition(status.conditions, type) != nullptr) continue;
    crds::set_condition(status.conditions,
                        {std::string(type), ConditionStatus::kUnknown, generation, now, "Pending", ""});
  }
}

void describe(const crds::TrainingJobSpec& spec, crds::TrainingJobStatus& status, bool leaving, bool resizing,
              const PlaceCost& cost) {
  status.phase = phase_of(spec, status, leaving, resizing);
  status.desired_replicas = wished_size(spec);
  status.replicas = static_cast<std::int32_t>(status.assignment.pods.size());
  if (status.assignment.attempt == 0) status.ready_replicas = 0;
  if (!is_finished(status))
    status.succeeded_replicas = static_cast<std::int32_t>(status.assignment.succeeded.size());
  const auto there = status.ready_replicas + status.succeeded_replicas;
  const auto least = crds::replicas_of(spec), most = crds::most_replicas_of(spec);
  status.pods =
      least == most ? fmt::format("{}/{}", there, most) : fmt::format("{}/{}-{}", there, least, most);
  std::int64_t gpus = 0;
  for (const auto& p : status.assignment.pods) gpus += cost_of(p, cost).value;
  status.allocated = {};
  if (status.assignment.attempt != 0) status.allocated.gpu = crds::MilliGpu{gpus};
}

std::optional<crds::Time> starts_since(const crds::TrainingJobStatus& status) {
  const auto* admitted = crds::find_condition(status.conditions, "Admitted");
  const auto* ready = crds::find_condition(status.conditions, "PodsReady");
  if (status.assignment.attempt == 0 || status.started_at || admitted == nullptr || ready == nullptr)
    return std::nullopt;
  return std::max(admitted->last_transition_time, ready->last_transition_time);
}

std::int32_t serving_attempt(const crds::Assignment& a) {
  return a.replaces.attempt != 0 ? a.replaces.attempt : a.attempt;
}

std::vector<std::string> gpus_shared_by(const crds::TrainingJob& job) {
  const auto& a = job.status.assignment;
  if (a.attempt == 0 || !has_shares(job.spec) || job.metadata.deletion_timestamp || is_finished(job.status) ||
      !is_of_this_spec(job, a))
    return {};
  std::set<NodeGpu> gpus;
  for (const auto* places : {&a.pods, &a.replaces.pods}) {
    for (const auto& place : *places) {
      if (!shares_gpus(job.spec, place)) continue;
      for (const auto gpu : place.gpus) gpus.insert({place.node, gpu});
    }
  }
  std::vector<std::string> keys;
  for (const auto& gpu : gpus) keys.push_back(key_of(gpu));
  return keys;
}

}  // namespace muster::reconcilers
