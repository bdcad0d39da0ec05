// Pods that are charged to placement beside the assignments of jobs: those of others, those of jobs that are
// gone, and those of earlier attempts.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "muster/client/informer.h"
#include "muster/client/pod.h"
#include "muster/placement/cluster.h"

namespace muster::reconcilers {

class OtherPods {
 public:
  // `changed` is called when there is news for plan(). Both outlive this.
  OtherPods(placement::Cluster& cluster, std::function<void()> changed)
      : cluster_(cluster), changed_(std::move(changed)) {}

  // The extended resources that count as GPUs: what any pool names. False: they were these already. What the
  // charged pods hold of GPUs is counted anew.
  bool count_as_gpus(std::set<std::string> resources);
  const std::set<std::string>& gpu_resources() const { return gpu_resources_; }

  // Charges what the pod holds to `project` ("": to nobody), until give_back(). A pod that has ended or is on
  // no node holds nothing. `may_share`: a pod of a job has of each GPU the share that its annotation says.
  // Without it, every pod has whole GPUs.
  void charge(const client::Ptr<client::Pod>& pod, const std::string& project, bool may_share);
  // A pod that holds a GPU for those who share it: what it holds of GPUs is theirs.
  void charge_holder(const client::Pod& pod);
  // `pod`: its key. Nothing happens where nothing is charged.
  void give_back(const std::string& pod);

  placement::OtherPod as_other(const client::Pod& pod, const std::string& project, bool may_share) const;

 private:
  // `pod` where what it holds of GPUs depends on the pools, else nullptr.
  struct Charged {
    client::Ptr<client::Pod> pod;
    std::string project;
    bool may_share = true;
  };
  void charge(const client::Pod& pod, const placement::OtherPod& as, Charged charged);

  placement::Cluster& cluster_;
  std::function<void()> changed_;
  std::set<std::string> gpu_resources_;
  std::map<std::string, Charged> charged_;  // by key
};

}  // namespace muster::reconcilers
