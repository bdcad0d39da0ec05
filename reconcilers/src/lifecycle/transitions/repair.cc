// What keeps a gang whole: places and pods that are lost.
#include <fmt/format.h>

#include <algorithm>

#include "lifecycle/refusals.h"
#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/pods/pod_end.h"

namespace muster::reconcilers {

void find_lost(JobStep& s) {
  const auto& places = s.status.assignment.pods;
  s.lost.assign(places.size(), {});
  if (!s.seen.health) return;
  const bool is_failing = program_fault(s.gang) != nullptr;
  NodeHealth health;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (s.gang.succeeded[i]) continue;
    if (i == 0 || places[i].node != places[i - 1].node) health = s.seen.health(places[i].node);
    s.lost[i] = health.lost;
    // A program that fails while a node is away fails because of it.
    if (s.lost[i].empty() && is_failing && !health.ready)
      s.lost[i] = fmt::format("node {} is not Ready", places[i].node);
    for (const auto gpu : health.bad_gpus) {
      if (s.lost[i].empty() && std::ranges::find(places[i].gpus, gpu) != places[i].gpus.end())
        s.lost[i] = fmt::format("GPU {} of node {} is unhealthy", gpu, places[i].node);
    }
    for (const auto gpu : places[i].gpus) {
      if (s.lost[i].empty() && health.failing_gpus.contains(gpu))
        s.lost[i] = fmt::format("GPU {} of node {} has double-bit errors", gpu, places[i].node);
    }
    if (s.lost[i].empty() && health.again) s.wake(*health.again);
  }
}

std::string why_lost(const JobStep& s) {
  const auto first = std::ranges::find_if(s.lost, [](const std::string& why) { return !why.empty(); });
  return first == s.lost.end() ? std::string() : *first;
}

bool loses_ground(JobStep& s) {
  if (why_lost(s).empty() || (!s.status.started_at && program_fault(s.gang) == nullptr)) return false;
  for (std::size_t i = 0; i < s.gang.pods.size(); ++i) {
    if (is_displaced(s, i)) s.step.displaced.push_back(i);
  }
  if (!s.status.started_at)
    s.wake(s.status.assignment.admitted_at.value_or(s.seen.now) + s.spec.start_timeout);
  return true;
}

void reform(JobStep& s, const JobDecision& replace) {
  const auto why = why_lost(s);
  count_fault(s, "NodeFailed", why.empty() ? "places were lost" : why);
  add_run_time(s);
  replace_pods(s, replace);
  renumber_places(s);
  begin_attempt(s,
                fmt::format("{}; {} of {} pods have other places", why.empty() ? "places were lost" : why,
                            replace.places.size(), s.status.assignment.pods.size()),
                "Reformed", "Reform");
}

std::string lost_at(const JobStep& s, std::size_t i) {
  const auto* pod = s.gang.pods[i];
  const auto& place = s.status.assignment.pods[i];
  if (s.gang.succeeded[i] || (!s.status.started_at && is_displaced(s, i))) return {};
  if (pod == nullptr && s.status.started_at && !place.joining) return say_gone(place);
  if (pod == nullptr) return s.status.started_at ? refused_at(s, i) : std::string();
  // Its program may have failed for it already (exit code 143): no fault of its own.
  if (pod->deleting) return say_deleted(*pod);
  if (!is_terminal(*pod)) {
    if (auto lost = holding_of(s, i).lost; !lost.empty()) return lost;
  }
  // A refusal once the gang ran whole is a kubelet that started anew and did not take its pod back.
  const bool ended_by_node = pod->phase == client::PodPhase::kFailed &&
                             (is_cluster_fault(*pod) || (s.status.started_at && is_refusal(*pod)));
  return ended_by_node ? say_ended_by_node(*pod) : std::string();
}

bool has_displaced(JobStep& s, const std::vector<std::size_t>& gone) {
  find_lost(s);
  for (std::size_t i = 0; i < s.gang.pods.size(); ++i) {
    if (is_displaced(s, i) && !std::ranges::binary_search(gone, i)) return true;
  }
  return false;
}

std::string unusable_node(const JobStep& s, const std::vector<std::size_t>& gone) {
  const auto& places = s.status.assignment.pods;
  for (std::size_t i = 0; s.seen.node_usable && i < places.size(); ++i) {
    if (!std::ranges::binary_search(gone, i) && !s.seen.node_usable(places[i].node)) return places[i].node;
  }
  return "";
}

std::string lost_pod(const JobStep& s) {
  for (std::size_t i = 0; i < s.gang.pods.size(); ++i) {
    if (auto why = lost_at(s, i); !why.empty()) return why;
  }
  return {};
}

bool is_displaced(const JobStep& s, std::size_t i) {
  const auto* pod = s.gang.pods[i];
  if (s.gang.succeeded[i]) return false;
  if (!s.lost[i].empty()) return true;
  if (pod != nullptr) return pod->phase == client::PodPhase::kFailed && is_refusal(*pod);
  return !s.status.started_at && (!holding_of(s, i).refused.empty() ||
                                  has_refused(s.status.node_refusals, s.status.assignment.pods[i].node,
                                              s.status.assignment.admitted_at));
}

void replace_pods(JobStep& s, const JobDecision& replace) {
  for (const Place& p : replace.places) {
    for (auto& mine : s.status.assignment.pods) {
      if (mine.role != p.role || mine.index != p.index) continue;
      mine.node = p.node;
      mine.gpus = p.gpus;
      ++mine.tries;
    }
  }
}

}  // namespace muster::reconcilers
