#include "muster/reconcilers/arrays/array_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "muster/crds/text.h"
#include "muster/reconcilers/arrays/array_objects.h"
#include "muster/reconcilers/lifecycle/job_status.h"

namespace muster::reconcilers {
namespace {

using crds::ConditionStatus;

constexpr std::size_t kMaxSaid = 2048;

class Writer {
 public:
  Writer(const crds::TrainingJob& array, const ArrayPlan& plan,
         const std::vector<const crds::TrainingJob*>& jobs, crds::Time now)
      : array_(array), plan_(plan), now_(now), status_(array.status) {
    status_.observed_generation = array.metadata.generation;
    for (const auto* job : jobs) {
      const auto index = index_in(array, *job);
      if (!index || plan.record.has(*index) || is_finished(job->status)) continue;
      open_.push_back({job, *index});
    }
  }

  crds::TrainingJobStatus write(const ArrayRefusal& refused) {
    for (const char* type : {"Accepted", "Admitted", "Suspended", "Complete", "Failed", "Stalled"}) {
      if (crds::find_condition(status_.conditions, type) == nullptr)
        set(type, ConditionStatus::kUnknown, "Pending", "");
    }
    if (plan_.reopened) {
      set("Failed", ConditionStatus::kFalse, "Retried", "");
      status_.finished_at.reset();
    }
    count();
    if (is_finished(status_) || plan_.end) {
      ended();
    } else {
      accepted(refused);
      waiting(refused);
      admitted();
    }
    status_.phase = phase();
    return std::move(status_);
  }

 private:
  struct Open {
    const crds::TrainingJob* job;
    std::int32_t index;
  };

  void count() {
    const auto& spec = array_.spec;
    const std::int32_t count = spec.array->count;
    const auto& record = plan_.record;
    if (!status_.array) status_.array.emplace();
    auto& s = *status_.array;
    IndexSet running(count);
    std::int64_t there = 0;
    crds::MilliGpu gpus{0};
    const bool has_ended = is_finished(status_) || plan_.end;
    for (const auto& [job, index] : open_) {
      const auto& status = job->status;
      there += status.ready_replicas + status.succeeded_replicas;
      if (status.assignment.attempt != 0) running.insert(index);
      if (status.allocated.gpu) gpus += *status.allocated.gpu;
    }
    s.succeeded = record.succeeded.size();
    s.failed = record.failed.size();
    s.running = has_ended ? 0 : running.size();
    s.waiting = has_ended ? 0 : static_cast<std::int32_t>(open_.size()) - s.running;
    const std::int32_t rest = count - s.succeeded - s.failed - s.running - s.waiting;
    s.pending = has_ended ? 0 : rest;
    s.stopped = has_ended ? rest : 0;
    s.succeeded_indexes = record.succeeded.to_text();
    s.failed_indexes = record.failed.to_text();
    s.running_indexes = has_ended ? "" : running.to_text();
    s.checkpoints = has_ended ? std::vector<crds::IndexCheckpoint>() : checkpoints();
    s.held_indexes = record.held.to_text();
    s.retry_indexes = record.again.to_text();
    s.retried = record.retried;
    s.result_index = record.result;
    status_.result = record.said;
    const std::int64_t of_one = crds::replicas_of(spec);
    if (has_ended) there = 0;
    status_.pods = fmt::format("{}/{}", there + s.succeeded * of_one, count * of_one);
    status_.allocated = {};
    if (s.running > 0) status_.allocated.gpu = gpus;
  }

  // Of those that run; the first by index.
  std::vector<crds::IndexCheckpoint> checkpoints() const {
    std::vector<crds::IndexCheckpoint> all;
    for (const auto& [job, index] : open_) {
      const auto& saved = job->status.checkpoint;
      if (job->status.assignment.attempt != 0 && saved.step)
        all.push_back({index, *saved.step, saved.saved_at});
    }
    std::ranges::sort(all, {}, &crds::IndexCheckpoint::index);
    all.resize(std::min(all.size(), crds::kMaxIndexCheckpoints));
    return all;
  }

  void ended() {
    status_.queue = {};
    set("Admitted", ConditionStatus::kFalse, "Finished", "");
    if (!plan_.end) return;
    const bool is_complete = plan_.end->kind == ArrayEnd::Kind::kComplete;
    const std::string message = crds::cut(plan_.end->message, kMaxSaid);
    status_.finished_at = now_;
    set(is_complete ? "Complete" : "Failed", ConditionStatus::kTrue, plan_.end->reason, message);
    if (!is_complete) set("Stalled", ConditionStatus::kTrue, plan_.end->reason, message);
  }

  // What is wrong with the job of one index is most often wrong with all of them.
  void accepted(ArrayRefusal refused) {
    if (refused.only_waits) refused = {};
    for (const auto& [job, index] : open_) {
      const auto* c = crds::find_condition(job->status.conditions, "Accepted");
      if (!refused.reason.empty() || c == nullptr || c->status != ConditionStatus::kFalse) continue;
      refused = {c->reason, job->metadata.name + ": " + c->message, true};
    }
    if (refused.reason.empty()) {
      set("Accepted", ConditionStatus::kTrue, "Valid", "");
      return set("Stalled", ConditionStatus::kFalse, "Valid", "");
    }
    const std::string message = crds::cut(refused.message, kMaxSaid);
    set("Accepted", ConditionStatus::kFalse, refused.reason, message);
    set("Stalled", refused.is_for_good ? ConditionStatus::kTrue : ConditionStatus::kFalse, refused.reason,
        refused.is_for_good ? message : "");
  }

  void waiting(const ArrayRefusal& refused) {
    status_.queue = {};
    const bool is_suspended = array_.spec.suspend;
    set("Suspended", is_suspended ? ConditionStatus::kTrue : ConditionStatus::kFalse,
        is_suspended ? "SuspendedByUser" : "NotSuspended",
        is_suspended ? "spec.suspend is true; set it to false to queue again" : "");
    if (!refused.reason.empty()) {
      status_.queue.reason = refused.reason;
      status_.queue.message = crds::cut(refused.message, kMaxSaid);
      return;
    }
    const crds::TrainingJob* first = nullptr;
    std::int32_t waiting = 0;
    for (const auto& [job, index] : open_) {
      const auto& queue = job->status.queue;
      if (job->status.assignment.attempt != 0 || queue.reason.empty()) continue;
      ++waiting;
      const bool is_ahead =
          first == nullptr || std::pair(queue.position == 0, queue.position) <
                                  std::pair(first->status.queue.position == 0, first->status.queue.position);
      if (is_ahead) first = job;
    }
    if (first == nullptr || is_suspended) return;
    status_.queue = first->status.queue;
    status_.queue.message = crds::cut(fmt::format("{} of {} indexes wait, the first of them {}: {}", waiting,
                                                  open_.size(), first->metadata.name, status_.queue.message),
                                      kMaxSaid);
  }

  void admitted() {
    const auto& s = *status_.array;
    if (s.running > 0)
      return set("Admitted", ConditionStatus::kTrue, "Admitted", fmt::format("{} indexes run", s.running));
    const std::string reason = status_.queue.reason.empty() ? "Queued" : status_.queue.reason;
    set("Admitted", ConditionStatus::kFalse, array_.spec.suspend ? "Suspended" : reason, "");
  }

  crds::Phase phase() const {
    if (crds::is_true(status_.conditions, "Complete")) return crds::Phase::kSucceeded;
    if (crds::is_true(status_.conditions, "Failed")) return crds::Phase::kFailed;
    const bool saves = std::ranges::any_of(
        open_, [](const Open& open) { return open.job->status.phase == crds::Phase::kCheckpointing; });
    if (array_.spec.suspend)
      return status_.array->running > 0 || saves ? crds::Phase::kCheckpointing : crds::Phase::kSuspended;
    return status_.array->running > 0 ? crds::Phase::kRunning : crds::Phase::kQueued;
  }

  void set(std::string type, ConditionStatus value, std::string reason, std::string message) {
    crds::set_condition(status_.conditions, {std::move(type), value, array_.metadata.generation, now_,
                                             std::move(reason), std::move(message)});
  }

  const crds::TrainingJob& array_;
  const ArrayPlan& plan_;
  crds::Time now_;
  crds::TrainingJobStatus status_;
  std::vector<Open> open_;  // indexes that have a job and have not ended
};

crds::TrainingJobStatus without_counters(crds::TrainingJobStatus s) {
  s.pods.clear();
  s.allocated = {};
  s.queue = {};
  for (auto& c : s.conditions) {
    if (c.type != "Admitted") continue;
    c.message.clear();
    if (c.status != ConditionStatus::kTrue) c.reason.clear();
  }
  if (!s.array) return s;
  s.array->pending = s.array->waiting = s.array->running = 0;
  s.array->running_indexes.clear();
  s.array->checkpoints.clear();
  return s;
}

// Where few run at once, often none does for a moment: between the end of an index and the start of the next.
crds::TrainingJobStatus without_record(crds::TrainingJobStatus s) {
  if (!s.array) return s;
  const bool runs = s.phase == crds::Phase::kRunning || s.phase == crds::Phase::kQueued;
  if (runs) s.phase.reset();
  if (runs) std::erase_if(s.conditions, [](const auto& c) { return c.type == "Admitted"; });
  s.array->succeeded = s.array->failed = 0;
  s.array->succeeded_indexes.clear();
  s.array->failed_indexes.clear();
  s.array->retry_indexes.clear();
  return s;
}

}  // namespace

crds::TrainingJobStatus array_status(const crds::TrainingJob& array, const ArrayPlan& plan,
                                     const std::vector<const crds::TrainingJob*>& jobs,
                                     const ArrayRefusal& refused, crds::Time now) {
  return Writer(array, plan, jobs, now).write(refused);
}

ArrayRefusal refusal_of(const DependencyVerdict& verdict) {
  return {verdict.reason, verdict.message, verdict.is_circle, !verdict.is_circle};
}

ArrayNews compare(const crds::TrainingJobStatus& before, const crds::TrainingJobStatus& after) {
  if (before == after) return ArrayNews::kNone;
  const auto a = without_counters(before), b = without_counters(after);
  if (a == b) return ArrayNews::kCounters;
  return without_record(a) == without_record(b) ? ArrayNews::kRecord : ArrayNews::kUrgent;
}

}  // namespace muster::reconcilers
