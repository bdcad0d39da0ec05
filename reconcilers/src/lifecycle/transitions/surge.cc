// A replica of a service moves without being missed (RULES.md 5.12): it is made before it is broken.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/pod_end.h"

namespace muster::reconcilers {
namespace {

using ConditionStatus = crds::ConditionStatus;

bool serves_now(const JobStep& s) {
  return s.seen.serves && s.status.started_at && std::ranges::all_of(s.gang.pods, [](const client::Pod* pod) {
           return pod != nullptr && !pod->deleting && !is_terminal(*pod);
         });
}

// Why it does not start there; "": it may yet.
std::string why_not_there(JobStep& s) {
  const auto* evict = s.decision(JobDecision::Kind::kEvict);
  if (evict != nullptr && evict->reason != "Drained") return evict->message;
  if (const auto* failed = failed_program(s)) return say_failed(*failed);
  if (auto lost = lost_pod(s); !lost.empty()) return lost;
  find_lost(s);
  for (std::size_t i = 0; i < s.gang.pods.size(); ++i) {
    if (is_displaced(s, i))
      return fmt::format("node {} does not take its pod", s.status.assignment.pods[i].node);
  }
  if (s.seen.now >= start_due(s)) return say_start_timed_out(s.gang, s.spec.start_timeout);
  return {};
}

}  // namespace

bool surge_to(JobStep& s, const JobDecision& to) {
  auto& a = s.status.assignment;
  const bool is_wanted =
      to.generation == s.seen.job.metadata.generation && !s.seen.invalid && !s.seen.blocked;
  if (!to.surges || !is_wanted || a.replaces.attempt != 0 || !serves_now(s)) return false;
  count_run(s);
  a.replaces = {a.attempt, std::move(a.pods)};
  a.attempt = ++s.status.attempt;
  a.pool = to.pool;
  a.admitted_at = s.seen.now;
  a.pods.clear();
  for (const Place& p : to.places) a.pods.push_back({p.role, p.index, p.node, p.gpus, 0});
  a.succeeded.clear();
  a.resized_at.reset();
  a.generation = s.seen.job.metadata.generation;
  a.made_from = made_from(s.spec).text();
  s.status.retry_at.reset();
  s.status.started_at.reset();
  s.status.ready_replicas = 0;
  decide_resume(s);
  s.set("PodsReady", ConditionStatus::kFalse, "Moving",
        fmt::format("attempt {} serves until this one is ready; {}", a.replaces.attempt, to.message));
  s.note(client::EventType::kNormal, to.reason, "Move",
         fmt::format("{}; attempt {} serves until attempt {} is ready", to.message, a.replaces.attempt,
                     a.attempt));
  s.gang = match(a, s.seen.pods);
  s.lost.assign(a.pods.size(), {});
  std::vector<std::size_t> all(a.pods.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (are_held(s, all)) s.step.create = std::move(all);
  s.wake(start_due(s));
  return true;
}

void end_surge(JobStep& s) {
  s.status.assignment.replaces = {};
  for (const auto* pod : s.gang.replaced) s.remove(*pod);
  s.gang.replaced.clear();
}

bool moves_in_vain(JobStep& s) {
  auto& a = s.status.assignment;
  if (a.replaces.attempt == 0) return false;
  if (s.gang.replaced.size() < a.replaces.pods.size()) return end_surge(s), false;
  const auto why = why_not_there(s);
  if (why.empty()) return false;
  const auto in_vain = a.attempt;
  a.attempt = a.replaces.attempt;
  a.pods = std::move(a.replaces.pods);
  a.replaces = {};
  a.moved_in_vain = true;
  a.admitted_at = s.seen.now;  // it is not moved again at once
  s.status.started_at = s.seen.now;
  s.note(
      client::EventType::kWarning, "MoveFailed", "Move",
      fmt::format("attempt {} did not start elsewhere: {}; attempt {} serves on", in_vain, why, a.attempt));
  match_pods(s);
  s.status.ready_replicas = static_cast<std::int32_t>(count_ready(s.gang));
  s.set("PodsReady", ConditionStatus::kTrue, "PodsReady",
        fmt::format("all {} pods are ready", s.gang.pods.size()));
  s.step.serves_on = true;
  s.wake(s.seen.now);
  return true;
}

}  // namespace muster::reconcilers
