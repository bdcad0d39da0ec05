#include "muster/reconcilers/arrays/array_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace muster::reconcilers {
namespace {

using State = IndexJob::State;

class Planner {
 public:
  Planner(const crds::JobArray& array, bool suspended, std::optional<ArrayEnd::Kind> ended,
          const ArrayRecord& before, const std::vector<IndexJob>& jobs)
      : array_(array), suspended_(suspended), has_ended_(ended.has_value()), jobs_(jobs), plan_(array.count) {
    plan_.record = before;
    is_retried_ = is_retry_due(array, before.retried, ended);
  }

  ArrayPlan run() {
    meet_new_jobs();
    if (!has_ended_) take_in();
    if (is_retried_ && (has_ended_ || plan_.record.again.empty())) retry();
    if (!has_ended_) judge();
    if (has_ended_ || plan_.end) {
      plan_.record.held = IndexSet(array_.count);
      remove_all();
    } else {
      remove_recorded();
      keep_parallelism();
    }
    return std::move(plan_);
  }

 private:
  // Their old jobs are gone.
  void meet_new_jobs() {
    for (const IndexJob& job : jobs_) {
      if (job.retry == plan_.record.retried) plan_.record.again.erase(job.index);
    }
  }

  // The job of an index that is to be run again, from before.
  bool is_old(const IndexJob& job) const { return plan_.record.again.contains(job.index); }

  void retry() {
    auto& record = plan_.record;
    plan_.retries = record.failed.size();
    for (std::int32_t i = 0; i < array_.count; ++i) {
      if (record.failed.contains(i)) record.again.insert(i);
    }
    record.failed = IndexSet(array_.count);
    record.retried = *array_.retry_failed;
    plan_.reopened = has_ended_ && !record.again.empty();
    has_ended_ = has_ended_ && !plan_.reopened;
  }

  // Ends that are news.
  void take_in() {
    std::vector<const IndexJob*> ended;
    for (const IndexJob& job : jobs_) {
      if (job.has_ended() && !plan_.record.has(job.index) && !is_old(job)) ended.push_back(&job);
    }
    std::ranges::sort(ended, {}, [](const IndexJob* job) { return std::tuple(job->ended, job->index); });
    for (const IndexJob* job : ended) {
      auto& record = plan_.record;
      (job->state == State::kSucceeded ? record.succeeded : record.failed).insert(job->index);
      if (!job->result.empty() && !record.result) {
        record.result = job->index;
        record.said = job->result;
      }
      plan_.news.push_back(job->index);
    }
  }

  void end(ArrayEnd::Kind kind, std::string reason, std::string message) {
    plan_.end = ArrayEnd{kind, std::move(reason), std::move(message)};
  }

  void judge() {
    const auto& record = plan_.record;
    const std::int32_t succeeded = record.succeeded.size(), failed = record.failed.size();
    const bool all_ended = succeeded + failed == array_.count;
    const auto said = fmt::format("{} of {} indexes have succeeded", succeeded, array_.count);
    if (is_success()) {
      if (array_.success.policy == crds::ArraySuccess::kResult)
        return end(ArrayEnd::Kind::kComplete, "ResultFound",
                   fmt::format("index {} has a result: {}", *record.result, record.said));
      return end(ArrayEnd::Kind::kComplete, all_ended ? "Completed" : "EnoughSucceeded", said);
    }
    const auto which = fmt::format("{} {} failed", record.failed.to_text(), failed == 1 ? "has" : "have");
    if (array_.failures == crds::ArrayFailures::kStop && failed > 0)
      return end(ArrayEnd::Kind::kFailed, "IndexFailed", "index " + which + "; spec.array.failures is Stop");
    if (array_.max_failures && failed > *array_.max_failures) {
      return end(ArrayEnd::Kind::kFailed, "MaxFailuresExceeded",
                 fmt::format("indexes {}, more than spec.array.maxFailures {}", which, *array_.max_failures));
    }
    if (!all_ended) return;
    if (failed > 0) return end(ArrayEnd::Kind::kFailed, "IndexesFailed", said + "; indexes " + which);
    end(ArrayEnd::Kind::kFailed, "NoResult", said + ", and none of them has said a result");
  }

  bool is_success() const {
    switch (array_.success.policy) {
      case crds::ArraySuccess::kAll:
        return plan_.record.succeeded.size() == array_.count;
      case crds::ArraySuccess::kAny:
        return !plan_.record.succeeded.empty();
      case crds::ArraySuccess::kAtLeast:
        return plan_.record.succeeded.size() >= array_.success.count.value_or(array_.count);
      case crds::ArraySuccess::kResult:
        return plan_.record.result.has_value();
    }
    return false;
  }

  void remove_recorded() {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const bool goes = plan_.record.has(jobs_[i].index) && jobs_[i].state != State::kFailed;
      if (goes || is_old(jobs_[i])) remove(i);
    }
    remove_failed();
  }

  // Those that failed later than so many others.
  void remove_failed() {
    std::vector<std::size_t> failed;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const bool counts = plan_.record.failed.contains(jobs_[i].index);
      if (jobs_[i].state != State::kFailed || jobs_[i].leaves) continue;
      if (is_old(jobs_[i])) continue;  // it goes already
      if (counts) {
        failed.push_back(i);
      } else if (plan_.record.has(jobs_[i].index) || has_ended_ || plan_.end) {
        remove(i);
      }
    }
    std::ranges::sort(failed, {}, [&](std::size_t i) { return std::tuple(jobs_[i].ended, jobs_[i].index); });
    for (std::size_t i = kMaxFailedKept; i < failed.size(); ++i) remove(failed[i]);
  }

  void remove_all() {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].state != State::kFailed || is_old(jobs_[i])) remove(i);
    }
    remove_failed();
  }

  void remove(std::size_t i) {
    if (!jobs_[i].leaves) plan_.remove.push_back(i);
  }

  // Who is to go on, and who is not; then who begins.
  void keep_parallelism() {
    std::vector<std::size_t> go_on, held;
    std::int32_t room = crds::parallelism_of(array_);
    IndexSet has_job(array_.count);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      has_job.insert(jobs_[i].index);
      if (jobs_[i].has_ended() || plan_.record.has(jobs_[i].index)) continue;
      if (jobs_[i].leaves || is_old(jobs_[i])) {
        --room;  // its pods may be there yet
      } else {
        (plan_.record.held.contains(jobs_[i].index) ? held : go_on).push_back(i);
      }
    }
    plan_.record.held = IndexSet(array_.count);
    // Who gives way first stands first.
    std::ranges::sort(go_on, {}, [&](std::size_t i) { return std::tuple(jobs_[i].state, -jobs_[i].index); });
    std::ranges::sort(held, {}, [&](std::size_t i) { return jobs_[i].index; });
    const auto keep = static_cast<std::size_t>(std::max(0, room));
    for (std::size_t i = 0; i + keep < go_on.size(); ++i) {
      const IndexJob& job = jobs_[go_on[i]];
      if (job.state == State::kNew) {
        remove(go_on[i]);
      } else {
        plan_.record.held.insert(job.index);
      }
    }
    std::size_t free = keep - std::min(keep, go_on.size());
    for (const std::size_t i : held) {
      if (free > 0) {
        --free;
      } else {
        plan_.record.held.insert(jobs_[i].index);
      }
    }
    if (suspended_) return;
    for (std::int32_t i = 0; i < array_.count && free > 0; ++i) {
      if (plan_.record.has(i) || has_job.contains(i)) continue;
      plan_.create.push_back(i);
      --free;
    }
  }

  const crds::JobArray& array_;
  bool suspended_;
  bool has_ended_, is_retried_ = false;
  const std::vector<IndexJob>& jobs_;
  ArrayPlan plan_;
};

}  // namespace

ArrayPlan plan_array(const crds::JobArray& array, bool suspended, std::optional<ArrayEnd::Kind> ended,
                     const ArrayRecord& before, const std::vector<IndexJob>& jobs) {
  return Planner(array, suspended, ended, before, jobs).run();
}

bool is_retry_due(const crds::JobArray& array, std::int32_t retried, std::optional<ArrayEnd::Kind> ended) {
  return array.retry_failed.value_or(0) > retried && ended != ArrayEnd::Kind::kComplete;
}

}  // namespace muster::reconcilers
