#include "muster/ui/what_helps.h"

#include <algorithm>
#include <array>
#include <utility>

namespace muster::ui {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 24> kHelps = {{
    {"InsufficientCapacity", "to wait, a smaller gang, or more nodes"},
    {"Fragmented", "to wait, or smaller pods"},
    {"Reserved", "to wait, or a maxRuntime by which it ends before what is named begins"},
    {"TopologyUnsatisfiable",
     "to wait, a coarser level, topology.preferred in place of required, or a smaller gang"},
    {"NoMatchingNodes",
     "another pool, other gpus.models, tolerations or requests, or the claim that is missing"},
    {"NoDefaultPool", "to name a pool, or one NodePool with default: true"},
    {"LimitReached", "that other jobs of yours end, or a higher limit"},
    {"QuotaExceeded", "to wait, preemptible: true, or more quota"},
    {"FairShareReached", "to wait, or a larger quota or weight"},
    {"QueueHeld", "admission: Open on the Queue that is named"},
    {"ProjectNotFound", "a Project that claims the namespace, in a Queue that exists"},
    {"WaitingForVictims", "to wait: its place is kept for it"},
    {"NamespaceNotReady", "to look at the condition NamespaceReady of the Project"},
    {"DependencyNotComplete", "to wait until the job that is named has ended"},
    {"DependencyNotFound", "to make the job that is named, or to take it out of spec.dependsOn"},
    {"DependencyFailed", "to make the job that is named anew, or to take it out of spec.dependsOn"},
    {"DependencyCycle", "to take one of the jobs that are named out of the spec.dependsOn of another"},
    {"ParametersNotFound", "to make the ConfigMap that is named, with its key"},
    {"ParametersInvalid", "to correct the lines of the ConfigMap that is named"},
    {"ParametersLost", "to delete the array and make another"},
    {"BackingOff", "to look at its events and at the reasons of its pods"},
    {"PolicyViolation", "to change it, or another policy of the Project"},
    {"InvalidSpec", "to correct it and apply it again"},
    {"Suspended", "spec.suspend: false"},
}};

}  // namespace

std::string_view what_helps(std::string_view reason) {
  const auto* found = std::ranges::find(kHelps, reason, &decltype(kHelps)::value_type::first);
  return found == kHelps.end() ? std::string_view() : found->second;
}

}  // namespace muster::ui
