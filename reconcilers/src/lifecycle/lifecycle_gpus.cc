// What a gang does about GPUs that others hold: reservation pods for those that it shares, or earlier
// sharers' reservations for those that it is to have whole.
#include "lifecycle_texts.h"
#include "machine.h"
#include "refusals.h"

namespace muster::reconcilers {

namespace {

constexpr const char* kWaitingForGpus = "WaitingForGPUs";  // reason of PodsReady

}  // namespace

Holding Machine::holding(std::size_t i) const {
  if (!seen_.holding) return {};
  return seen_.holding(status_.assignment.pods[i], i < gang_.pods.size() ? gang_.pods[i] : nullptr);
}

// Why its node will not give this place its GPUs; "": it may.
std::string Machine::refused_at(std::size_t i) const {
  const auto held = holding(i);
  return held.refused.empty() ? std::string() : say_not_held(status_.assignment.pods[i], held);
}

// Whether the GPUs of all these places are there for their pods; else what is waited for is said. Those of a
// gang that starts are made together.
bool Machine::are_held(const std::vector<std::size_t>& places) {
  const auto* ready = crds::find_condition(status_.conditions, "PodsReady");
  const bool was_told = ready != nullptr && ready->reason == kWaitingForGpus;
  bool all = true;
  std::string why;
  for (const auto i : places) {
    const auto held = holding(i);
    if (held.ready) continue;
    all = false;
    if (held.again) wake(*held.again);
    if (why.empty()) why = held.message;
  }
  if (!all && !status_.started_at) {
    set("PodsReady", ConditionStatus::kFalse, kWaitingForGpus,
        why.empty() ? "its shared GPUs are being reserved" : why);
  } else if (was_told && !status_.started_at) {
    set("PodsReady", ConditionStatus::kFalse, "Starting", "");
  }
  return all;
}

void Machine::remember(const std::string& node, const std::string& reason, const std::string& text) {
  const bool is_new =
      remember_refusal(status_.node_refusals, node, reason, seen_.now, status_.assignment.admitted_at);
  if (!is_new) return;
  wake(seen_.now + kRefusalMemory);
  note(client::EventType::kWarning, "PodRefused", "Place", text);
}
void Machine::remember_refusal_of(const client::Pod& pod) {
  remember(pod.node_name, pod.reason, say_refused(pod));
}
// Of a pod that was not made.
void Machine::remember_refusal_of(std::size_t i) {
  const auto held = holding(i);
  const auto& place = status_.assignment.pods[i];
  if (!held.refused.empty()) remember(place.node, held.refused, say_not_held(place, held));
}

}  // namespace muster::reconcilers
