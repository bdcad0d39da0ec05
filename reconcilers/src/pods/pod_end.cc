#include "muster/reconcilers/pods/pod_end.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace muster::reconcilers {
namespace {

bool one_of(std::string_view reason, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), reason) != list.end();
}

// Kubelet's own words when it rejects a pod at admission (pkg/kubelet/lifecycle; the last for a node
// under pressure).
bool says_refused(const client::Pod& pod) {
  return pod.reason.starts_with("OutOf") ||
         one_of(pod.reason,
                {"UnexpectedAdmissionError", "NodeAffinity", "NodeAffinityMismatch", "TopologyAffinityError",
                 "Allocate failed", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch",
                 "NodeSelectorMismatching", "Taints", "TaintToleration", "NodeName", "NodePorts",
                 "UnmatchedNodeSelector", "AppArmor"}) ||
         (pod.reason == "Evicted" && pod.message.starts_with("The node had condition"));
}

}  // namespace

bool is_terminal(const client::Pod& pod) {
  return pod.phase == client::PodPhase::kSucceeded || pod.phase == client::PodPhase::kFailed;
}

bool is_refusal(const client::Pod& pod) {
  return pod.ended.empty() && says_refused(pod);
}

bool is_cluster_fault(const client::Pod& pod) {
  if (pod.disrupted) return true;
  // A pod that ran and is then turned away: its kubelet started anew and did not take it back.
  if (!pod.ended.empty() && says_refused(pod)) return true;
  return !is_refusal(pod) &&
         one_of(pod.reason, {"Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting",
                             "PreemptionByScheduler", "TerminationByKubelet", "DeletionByTaintManager",
                             "DeletionByPodGC"});
}

bool is_program_fault(const client::Pod& pod) {
  return pod.phase == client::PodPhase::kFailed && !is_refusal(pod) && !is_cluster_fault(pod);
}

}  // namespace muster::reconcilers
