// Nodes and GPUs that a gang does not get: kubelets refuse its pods, or others hold its GPUs. GPUs that it
// shares are held for it by holder pods. GPUs that it is to have whole may still be held for those who shared
// them before.
#include <fmt/format.h>

#include <set>

#include "lifecycle/refusals.h"
#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/gpu_metrics/memory_pressure.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"

namespace muster::reconcilers {
namespace {

using ConditionStatus = crds::ConditionStatus;

constexpr const char* kWaitingForGpus = "WaitingForGPUs";  // reason of PodsReady

void remember(JobStep& s, const std::string& node, const std::string& reason, const std::string& text) {
  const bool is_new =
      remember_refusal(s.status.node_refusals, node, reason, s.seen.now, s.status.assignment.admitted_at);
  if (!is_new) return;
  s.wake(s.seen.now + kRefusalMemory);
  s.note(client::EventType::kWarning, "PodRefused", "Place", text);
}

}  // namespace

Holding holding_of(const JobStep& s, std::size_t i) {
  if (!s.seen.holding) return {};
  return s.seen.holding(s.status.assignment.pods[i], i < s.gang.pods.size() ? s.gang.pods[i] : nullptr);
}

std::string refused_at(const JobStep& s, std::size_t i) {
  const auto held = holding_of(s, i);
  return held.refused.empty() ? std::string() : say_not_held(s.status.assignment.pods[i], held);
}

bool are_held(JobStep& s, const std::vector<std::size_t>& places) {
  const auto* ready = crds::find_condition(s.status.conditions, "PodsReady");
  const bool was_told = ready != nullptr && ready->reason == kWaitingForGpus;
  bool all = true;
  std::string why;
  for (const auto i : places) {
    const auto held = holding_of(s, i);
    if (held.ready) continue;
    all = false;
    if (held.again) s.wake(*held.again);
    if (why.empty()) why = held.message;
  }
  if (!all && !s.status.started_at) {
    s.set("PodsReady", ConditionStatus::kFalse, kWaitingForGpus,
          why.empty() ? "its shared GPUs are being reserved" : why);
  } else if (was_told && !s.status.started_at) {
    s.set("PodsReady", ConditionStatus::kFalse, "Starting", "");
  }
  return all;
}

void remember_refusal_of(JobStep& s, const client::Pod& pod) {
  remember(s, pod.node_name, pod.reason, say_refused(pod));
}

void remember_refusal_of(JobStep& s, std::size_t i) {
  const auto held = holding_of(s, i);
  const auto& place = s.status.assignment.pods[i];
  if (!held.refused.empty()) remember(s, place.node, held.refused, say_not_held(place, held));
}

void avoid_nodes_of(JobStep& s, const std::vector<Place>& places) {
  for (const Place& place : places)
    remember_refusal(s.status.node_refusals, place.node, std::string(kMemoryPressure), s.seen.now,
                     s.status.assignment.admitted_at);
}

void forget_old_refusals(JobStep& s) {
  std::set<std::string> needed;
  for (std::size_t i = 0; i < s.gang.pods.size(); ++i) {
    if (is_displaced(s, i)) needed.insert(s.status.assignment.pods[i].node);
  }
  forget_refusals(s.status.node_refusals, s.seen.now, needed);
}

void wake_for_refusals(JobStep& s) {
  for (const auto& r : s.status.node_refusals) {
    if (*r.at + kRefusalMemory > s.seen.now) s.wake(*r.at + kRefusalMemory);
  }
}

}  // namespace muster::reconcilers
