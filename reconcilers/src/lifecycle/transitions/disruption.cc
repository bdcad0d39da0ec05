// status.disruption: what the job has run, what disturbances have cost it, and what is known of the next one.
// It changes in the writes that change what it counts, so a crash counts nothing twice and loses nothing.
#include <algorithm>
#include <limits>
#include <string>

#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/checkpoint.h"

namespace muster::reconcilers {
namespace {

// Numbers of others (a request for CPUs, a status) may be absurd: sums and products stop at the largest.
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
std::int64_t add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMost : sum;
}
std::int64_t multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : product;
}

// Of its assignment, in thousandths of a GPU; of a job without GPUs, of a CPU.
std::int64_t size_of(const JobStep& s) {
  std::int64_t size = 0;
  for (const auto& place : s.status.assignment.pods) {
    const auto amount = s.seen.cpus ? s.seen.cpus(place).value : cost_of(place, s.seen.charge).value;
    size = add(size, std::max<std::int64_t>(amount, 0));
  }
  return size;
}

std::int64_t seconds_since(const JobStep& s, crds::Time begin) {
  return std::max<std::int64_t>((s.seen.now - begin).count(), 0);
}

// Its pods had to go before those of this attempt could come, in the same places.
bool began_in_its_places(const JobStep& s) {
  const auto* admitted = crds::find_condition(s.status.conditions, "Admitted");
  return admitted != nullptr && admitted->last_transition_time != s.status.assignment.admitted_at;
}

void lose(JobStep& s, std::int64_t seconds, bool is_owed, const std::string& cause) {
  if (seconds <= 0) return;
  auto& lost = is_owed ? s.status.disruption.lost_owed : s.status.disruption.lost_optional;
  lost = add(lost, seconds);
  s.step.lost.push_back({seconds, is_owed, !s.seen.cpus, cause});
}

}  // namespace

void count_run(JobStep& s) {
  const auto& a = s.status.assignment;
  if (a.attempt == 0 || !a.admitted_at) return;
  const auto since = std::max(*a.admitted_at, a.resized_at.value_or(*a.admitted_at));
  auto& ran = s.status.disruption.ran;
  ran = add(ran, multiply(size_of(s), seconds_since(s, since)) / 1000);
}

void count_loss(JobStep& s, const JobDecision& decision) {
  const bool is_fault = decision.kind == JobDecision::Kind::kEvict && decision.reason == "NodeFailed";
  if (is_fault && decision.cost_seconds <= 0) return count_fault(s, "NodeFailed");
  lose(s, decision.cost_seconds, decision.owed,
       decision.kind == JobDecision::Kind::kGrow ? "Resized" : decision.reason);
}

void count_fault(JobStep& s, const char* cause) {
  if (!s.status.started_at) return;
  auto begin = *s.status.started_at;
  if (s.status.checkpoint.saved_at) begin = std::max(begin, *s.status.checkpoint.saved_at);
  auto lost = seconds_since(s, begin);
  const auto interval = s.spec.checkpoint ? s.spec.checkpoint->interval : std::nullopt;
  if (interval) lost = std::min<std::int64_t>(lost, interval->count());
  if (s.seen.serves) lost = 0;
  lost = add(lost, std::max<std::int64_t>(s.status.disruption.start_seconds.value_or(0), 0));
  const auto work = multiply(size_of(s), lost);
  lose(s, work / 1000 + (work % 1000 != 0 ? 1 : 0), true, cause);
}

void ask_to_save(JobStep& s) {
  if (s.status.started_at && !s.seen.serves) s.status.disruption.saves_when_asked = false;
}

void note_saves(JobStep& s) {
  const auto& a = s.status.assignment;
  const auto told = a.attempt == 0 ? s.status.attempt : a.attempt - 1;
  const auto members = a.attempt == 0 ? crds::replicas_of(s.spec) : static_cast<std::int32_t>(a.pods.size());
  for (const GangReport& report : s.seen.reports) {
    if (report.attempt == told && saved_when_told(s.status.checkpoint, report, members))
      s.status.disruption.saves_when_asked = true;
  }
}

void note_start(JobStep& s) {
  auto begin = s.status.assignment.admitted_at.value_or(s.seen.now);
  if (s.seen.serves) begin = std::max(begin, s.status.retry_at.value_or(begin));
  if (began_in_its_places(s)) {
    std::int64_t first = kMost;
    for (const auto* pod : s.gang.pods) {
      if (pod != nullptr) first = std::min(first, pod->created_at);
    }
    if (first != kMost) begin = std::max(begin, crds::Time{std::chrono::seconds{first}});
  }
  s.status.disruption.start_seconds = seconds_since(s, begin);
}

void note_resize(JobStep& s) {
  if (s.status.assignment.resized_at)
    s.status.disruption.resize_seconds = seconds_since(s, *s.status.assignment.resized_at);
}

}  // namespace muster::reconcilers
