#include "job_step.h"

#include "muster/reconcilers/pods/pod_end.h"

namespace muster::reconcilers {

const JobDecision* JobStep::decision(JobDecision::Kind kind) const {
  const auto* d = seen.decision;
  if (d == nullptr || d->kind != kind) return nullptr;
  const bool resizes = kind == JobDecision::Kind::kGrow || kind == JobDecision::Kind::kShrink;
  if (resizes && d->attempt != status.assignment.attempt) return nullptr;  // indexes may mean others by now
  const bool placed = kind == JobDecision::Kind::kStart || kind == JobDecision::Kind::kReplace ||
                      kind == JobDecision::Kind::kGrow;
  return !placed || d->generation == seen.job.metadata.generation ? d : nullptr;
}

void JobStep::remove(const client::Pod& pod) {
  if (pod.deleting) return;
  const bool is_new = removing.insert(pod.meta.uid).second;
  if (!is_new) return;
  std::optional<std::int64_t> grace;
  if (spec.checkpoint) grace = spec.checkpoint->grace_period.count();  // as it is now, not as it was made
  step.remove.push_back({pod.meta.name, pod.meta.uid, pod.node_name, grace});
}

void JobStep::remove_lost() {
  for (const auto& pod : seen.pods) {
    if (pod->deleting && pod->grace_seconds > 0 && !is_terminal(*pod) && seen.node_lost &&
        seen.node_lost(pod->node_name))
      step.remove.push_back({pod->meta.name, pod->meta.uid, pod->node_name, 0});
  }
}

void JobStep::remove_all() {
  for (const auto& pod : seen.pods) remove(*pod);
}

Lingering JobStep::lingering() const {
  Lingering all;
  for (const auto& pod : seen.pods) {
    if (!is_given_up(*pod)) all.add(*pod);
  }
  return all;
}

Lingering JobStep::stale() const {
  Lingering all;
  for (const auto* pod : gang.strays) {
    if (!is_given_up(*pod)) all.add(*pod);
  }
  return all;
}

bool JobStep::is_given_up(const client::Pod& pod) const {
  return seen.health && pod.deleting && !seen.health(pod.node_name).lost.empty();
}

void JobStep::wake_for(const Lingering& left) {
  if (left.overdue_at() > seen.now) wake(left.overdue_at());
  if (left.count == 0 || !seen.health) return;
  for (const auto& pod : seen.pods) {  // nobody waits for them once their node counts as lost
    const auto again = pod->deleting ? seen.health(pod->node_name).again : std::nullopt;
    if (again) wake(*again);
  }
}

void JobStep::wake(crds::Time at) {
  if (!step.wake_at || at < *step.wake_at) step.wake_at = at;
}

void JobStep::note(client::EventType type, std::string reason, std::string action, std::string text) {
  step.notes.push_back({type, std::move(reason), std::move(action), std::move(text)});
}

void JobStep::set(std::string type, crds::ConditionStatus value, std::string reason, std::string message) {
  crds::set_condition(status.conditions, {std::move(type), value, seen.job.metadata.generation, seen.now,
                                          std::move(reason), std::move(message)});
}

}  // namespace muster::reconcilers
