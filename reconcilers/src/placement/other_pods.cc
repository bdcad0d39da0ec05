#include "muster/reconcilers/placement/other_pods.h"

#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/pod_end.h"

namespace muster::reconcilers {
namespace pl = placement;

bool OtherPods::count_as_gpus(std::set<std::string> resources) {
  if (resources == gpu_resources_) return false;
  gpu_resources_ = std::move(resources);
  for (const auto& [key, other] : charged_) {
    if (other.pod) cluster_.upsert_other_pod(as_other(*other.pod, other.project, other.may_share));
  }
  return true;
}

void OtherPods::charge(const client::Ptr<client::Pod>& pod, const std::string& project, bool may_share) {
  const bool has_gpus = !pod->extended.empty();
  charge(*pod, as_other(*pod, project, may_share), has_gpus ? Charged{pod, project, may_share} : Charged());
}

void OtherPods::charge_holder(const client::Pod& pod) {
  auto other = other_pod(pod, "", {});  // no resource is a GPU of its own
  other.slices.clear();
  other.named.clear();
  charge(pod, other, {});
}

void OtherPods::charge(const client::Pod& pod, const pl::OtherPod& as, Charged charged) {
  if (pod.node_name.empty() || is_terminal(pod)) return give_back(pod.meta.key());
  cluster_.upsert_other_pod(as);
  charged_[pod.meta.key()] = std::move(charged);
  changed_();
}

void OtherPods::give_back(const std::string& pod) {
  if (charged_.erase(pod) == 0) return;
  cluster_.remove_other_pod(pod);
  changed_();
}

pl::OtherPod OtherPods::as_other(const client::Pod& pod, const std::string& project, bool may_share) const {
  return other_pod(pod, project, gpu_resources_, may_share);
}

}  // namespace muster::reconcilers
