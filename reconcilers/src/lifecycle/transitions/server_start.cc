// A server that starts, and does not come up: when it is tried again, when it gives its GPUs back, and what
// is said of it meanwhile.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/lifecycle/start_problem.h"

namespace muster::reconcilers {
namespace {

using ConditionStatus = crds::ConditionStatus;
using std::chrono::minutes;
using std::chrono::seconds;

// A server that ends is started again at once; then after this long, doubling up to the maximum. One that ran
// for twice the maximum is taken for well again. The delays are kubelet's.
constexpr seconds kFirstCrashDelay{10};
constexpr seconds kMaxCrashDelay = minutes{5};

// When a server that has just ended may start again.
void delay_restart(JobStep& s) {
  auto& recent = s.status.restarts.recent;
  if (s.status.started_at && s.seen.now - *s.status.started_at >= 2 * kMaxCrashDelay) recent.clear();
  const auto doublings = std::min<std::size_t>(recent.size(), 6);
  recent.push_back(s.seen.now);
  if (recent.size() > 8) recent.erase(recent.begin());
  if (doublings == 0) return s.status.retry_at.reset();
  s.status.retry_at = s.seen.now + std::min(kMaxCrashDelay, kFirstCrashDelay * (1 << (doublings - 1)));
}

std::optional<StartProblem> problem_of_gang(const JobStep& s) {
  for (const auto* pod : s.gang.pods) {
    if (pod == nullptr) continue;
    if (auto problem = problem_of_waiting(*pod)) return problem;
  }
  return std::nullopt;
}

void give_up(JobStep& s, const StartProblem& problem) {
  const std::string reason(problem.reason);
  const std::string text = fmt::format("startTimeout {} is used up; {}: {}",
                                       crds::to_string(s.spec.start_timeout), reason, problem.message);
  back_off(s, "StartTimeout", text);
  s.set("PodsReady", ConditionStatus::kFalse, reason, text);  // it is what is wrong, also while it waits
}

}  // namespace

crds::Time start_due(const JobStep& s) {
  const auto begins = s.status.assignment.admitted_at.value_or(s.seen.now);
  if (!s.seen.serves) return begins + s.spec.start_timeout;
  const auto since = starts_since(s.status);
  const auto& recent = s.status.restarts.recent;
  if (since && !recent.empty() && recent.back() > *since) return *since + s.spec.start_timeout;
  return std::max(begins, s.status.retry_at.value_or(begins)) + s.spec.start_timeout;
}

void restart_server(JobStep& s, const client::Pod& failed) {
  const bool has_served = s.status.started_at.has_value();
  delay_restart(s);
  if (has_served) return start_again(s, say_failed(failed));
  const StartProblem problem = problem_of_end(failed);
  // If its next try would come too late, nobody else has to wait for the GPUs until then.
  const auto next = std::max(s.seen.now, s.status.retry_at.value_or(s.seen.now));
  if (next >= start_due(s)) return give_up(s, problem);
  start_again(s, problem.message);
  if (s.status.assignment.attempt != 0)
    s.set("PodsReady", ConditionStatus::kFalse, std::string(problem.reason), problem.message);
}

void say_start_problem(JobStep& s) {
  if (!s.seen.serves || s.status.started_at || s.status.assignment.replaces.attempt != 0) return;
  const auto* said = crds::find_condition(s.status.conditions, "PodsReady");
  if (said == nullptr) return;
  if (const auto problem = problem_of_gang(s)) {
    // Kubelet says one thing in two ways, in turns. The first has more in it.
    const auto pod = problem->message.substr(0, problem->message.find(':'));
    if (said->reason != problem->reason || !said->message.starts_with(pod))
      s.set("PodsReady", ConditionStatus::kFalse, std::string(problem->reason), problem->message);
  } else if (said->reason == kImageNotPulled || said->reason == kContainerNotCreated) {
    s.set("PodsReady", ConditionStatus::kFalse, "Starting", "");
  }
}

bool server_is_late(JobStep& s) {
  if (!s.seen.serves) return false;
  if (const auto problem = problem_of_gang(s)) return give_up(s, *problem), true;
  const auto* said = crds::find_condition(s.status.conditions, "PodsReady");
  if (said == nullptr || !is_start_problem(said->reason)) return false;
  const std::string reason = said->reason, message = said->message;
  return give_up(s, {reason, message}), true;
}

}  // namespace muster::reconcilers
