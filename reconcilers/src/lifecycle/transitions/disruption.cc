// status.disruption and status.disruptions: what the job has run, what disturbances have cost it, what is
// known of the next one, and a line for each of the latest. They change in the writes that change what it
// counts, so a crash counts nothing twice and loses nothing.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lifecycle/transitions/transitions.h"
#include "muster/common/saturating.h"
#include "muster/reconcilers/gpu_metrics/memory_pressure.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/pods/checkpoint.h"

namespace muster::reconcilers {
namespace {

// Numbers of others (a request for CPUs, a status) may be absurd.
using common::saturating_add;
using common::saturating_multiply;
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
// What a line keeps of the message that was an event and a condition as well.
constexpr std::size_t kMostOfMessage = 512;

// Of its assignment, in thousandths of a GPU; of a job without GPUs, of a CPU.
std::int64_t size_of(const JobStep& s) {
  std::int64_t size = 0;
  for (const auto& place : s.status.assignment.pods) {
    const auto amount = s.seen.cpus ? s.seen.cpus(place).value : cost_of(place, s.seen.charge).value;
    size = saturating_add(size, std::max<std::int64_t>(amount, 0));
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

// For so long it had done at that instant what nobody has saved, in seconds.
std::int64_t seconds_unsaved(const JobStep& s, crds::Time at) {
  if (!s.status.started_at || s.seen.serves) return 0;
  auto begin = *s.status.started_at;
  if (s.status.checkpoint.saved_at) begin = std::max(begin, *s.status.checkpoint.saved_at);
  const auto unsaved = std::max<std::int64_t>((at - begin).count(), 0);
  const auto interval = s.spec.checkpoint ? s.spec.checkpoint->interval : std::nullopt;
  return interval ? std::min<std::int64_t>(unsaved, interval->count()) : unsaved;
}

// As placement has it: until it has shown whether it does, what it states counts.
bool saves_when_asked(const JobStep& s) {
  const bool has_saved = s.status.checkpoint.step || s.status.checkpoint.saved_at;
  return s.status.disruption.saves_when_asked.value_or(s.spec.checkpoint || has_saved);
}

std::int64_t work_unsaved(const JobStep& s) {
  return saturating_multiply(size_of(s), seconds_unsaved(s, s.seen.now)) / 1000;
}

// GPU-seconds of work that the decision throws away.
std::int64_t work_thrown_away(const JobStep& s, const JobDecision& decision) {
  using Kind = JobDecision::Kind;
  const bool is_resize = decision.kind == Kind::kGrow || decision.kind == Kind::kShrink;
  const bool goes_on = decision.surges || (is_resize && crds::resizes_in_place(s.spec));
  if (goes_on || saves_when_asked(s)) return 0;
  return work_unsaved(s);
}

// Another start, and the work that it throws away.
std::int64_t cost_of_restart(const JobStep& s, std::int64_t work) {
  const auto start = std::max<std::int64_t>(s.status.disruption.start_seconds.value_or(0), 0);
  return saturating_add(saturating_multiply(size_of(s), start) / 1000, work);
}

struct Lost {
  std::int64_t seconds = 0;       // in all, times GPUs
  std::int64_t work_seconds = 0;  // of it: work
};

void lose(JobStep& s, Lost what, bool is_owed, const std::string& cause) {
  if (what.seconds <= 0) return;
  auto& lost = is_owed ? s.status.disruption.lost_owed : s.status.disruption.lost_optional;
  lost = saturating_add(lost, what.seconds);
  s.step.lost.push_back(
      {what.seconds, std::min(what.work_seconds, what.seconds), is_owed, !s.seen.cpus, cause});
}

// What it gives: all places of the assignment that are not among `kept`.
crds::MilliGpu given(const JobStep& s, const std::vector<Place>& kept) {
  crds::MilliGpu sum;
  for (const auto& place : s.status.assignment.pods) {
    const bool stays = std::ranges::any_of(
        kept, [&](const Place& k) { return k.role == place.role && k.index == place.index; });
    if (!stays) sum += cost_of(place, s.seen.charge);
  }
  return sum;
}

void tell(JobStep& s, crds::Disruption line) {
  line.at = s.seen.now;
  line.message = cut(line.message, kMostOfMessage);
  auto& lines = s.status.disruptions;
  lines.insert(lines.begin(), std::move(line));
  if (lines.size() > crds::kMostDisruptions) lines.resize(crds::kMostDisruptions);
}

}  // namespace

void count_run(JobStep& s) {
  const auto& a = s.status.assignment;
  if (a.attempt == 0 || !a.admitted_at) return;
  const auto since = std::max(*a.admitted_at, a.resized_at.value_or(*a.admitted_at));
  auto& ran = s.status.disruption.ran;
  ran = saturating_add(ran, saturating_multiply(size_of(s), seconds_since(s, since)) / 1000);
}

void count_loss(JobStep& s, const JobDecision& decision) {
  const bool is_fault = decision.kind == JobDecision::Kind::kEvict && decision.reason == "NodeFailed";
  if (is_fault && decision.cost_seconds <= 0) return count_fault(s, "NodeFailed", decision.message);
  const bool leaves = decision.kind == JobDecision::Kind::kEvict || decision.kind == JobDecision::Kind::kMove;
  s.is_to_save = leaves && !is_fault && !decision.surges && !s.seen.serves && saves_when_asked(s);
  const bool grows = decision.kind == JobDecision::Kind::kGrow;
  const auto work = work_thrown_away(s, decision);
  // Placement has weighed what it decides; this it has not decided.
  const auto cost = decision.reason == kMemoryPressure ? cost_of_restart(s, work) : decision.cost_seconds;
  lose(s, {cost, work}, decision.owed, grows ? "Resized" : decision.reason);
  if (grows) return;  // for its own good
  const bool shrinks = decision.kind == JobDecision::Kind::kShrink;
  tell(s, {.reason = decision.reason,
           .message = decision.message,
           .gave = given(s, shrinks ? decision.places : std::vector<Place>()),
           .cost = std::max<std::int64_t>(cost, 0),
           .owed = decision.owed});
}

void count_fault(JobStep& s, const char* cause, const std::string& message) {
  if (!s.status.started_at) return;
  const auto unsaved = seconds_unsaved(s, s.seen.now);
  const auto start = std::max<std::int64_t>(s.status.disruption.start_seconds.value_or(0), 0);
  const auto size = size_of(s);
  const auto milli = saturating_multiply(size, saturating_add(unsaved, start));
  const auto cost = milli / 1000 + (milli % 1000 != 0 ? 1 : 0);
  lose(s, {cost, saturating_multiply(size, unsaved) / 1000}, true, cause);
  tell(s, {.reason = cause, .message = message, .gave = given(s, {}), .cost = cost, .owed = true});
}

void count_program_fault(JobStep& s) {
  if (const auto work = work_unsaved(s); work > 0)
    s.step.lost.push_back({0, work, true, !s.seen.cpus, "ProgramFault"});
}

void end_eviction(JobStep& s) {
  if (s.status.assignment.attempt != 0 || !s.status.started_at || s.lingering().count > 0) return;
  note_saves(s);
  auto& lines = s.status.disruptions;
  const auto* evicted = crds::find_condition(s.status.conditions, "Evicted");
  const bool has_line =
      evicted != nullptr && !lines.empty() && lines.front().at == evicted->last_transition_time;
  if (has_line && s.status.disruption.saves_when_asked == false) {
    auto& line = lines.front();
    const auto work = saturating_multiply(line.gave.value, seconds_unsaved(s, line.at)) / 1000;
    lose(s, {work, work}, line.owed, line.reason);
    line.cost = saturating_add(line.cost, work);
  }
  s.status.started_at.reset();
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
