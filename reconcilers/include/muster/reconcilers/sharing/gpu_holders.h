// Keeps a holder pod for every GPU that somebody has a share of, and tells jobs whether the GPUs of
// their places are held for them. What must be there follows from assignments and sharers' pods alone
// (holder_pod.h), so a process that begins finds it again; what is kept here only saves looking.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"
#include "muster/reconcilers/pods/pod_builder.h"
#include "muster/reconcilers/sharing/holder_pod.h"

namespace muster::reconcilers {

class GpuHolders {
 public:
  struct Options {
    HolderPodSettings pods;
    std::string own_pod;         // the image is that of this pod in `pods.ns`, where `pods.image` is empty …
    std::string fallback_image;  // … and this one where there is no such pod
  };
  // `look_again` is called when holding() may have another answer for this job now.
  GpuHolders(ReconcilerContext& context, Options options,
             std::function<void(const client::Key& job)> look_again);

  // Level-based and idempotent; `gpu`: key_of().
  client::Task<Outcome> reconcile(client::Key gpu);

  // The newest state of a holder pod, or the last one of a pod that is gone.
  void note(const client::Pod& pod, bool is_gone);
  bool is_own(const client::Pod& pod) const;    // a holder pod
  bool any() const { return !there_.empty(); }  // some GPU is held

  // The request for this pod of a job is about to be sent; its outcome is known. Between the two the pod may
  // come to be, and nothing is done about the holder pods of those GPUs that it has a share of.
  void expect(const client::Pod& pod);
  void settle(const client::Pod& pod);

  // About one place of the job; `shares`: it has a part of each of its GPUs, else all. O(GPUs).
  Holding holding(const client::Key& job, const crds::PodAssignment& place, bool shares,
                  const client::Pod* pod);
  // nullopt: not all are held.
  std::optional<HeldDevices> devices(const crds::PodAssignment& place) const;
  client::Key pod_key(const NodeGpu& gpu) const;  // of its holder pod

 private:
  client::Ptr<client::Pod> pod_of(const NodeGpu& gpu) const;
  // As read_holder_pod() reads it. A pod whose device one of a lower index has reported too counts as failed,
  // and one that we are deleting as leaving.
  HolderPod look(const NodeGpu& gpu) const;
  client::Task<Outcome> make(const client::Key& key, const NodeGpu& gpu);
  client::Task<Outcome> remove(const HolderPod& there);
  client::Task<bool> find_image();
  void tell(const client::Key& gpu);

  ReconcilerContext& context_;
  Options options_;
  std::function<void(const client::Key&)> look_again_;
  std::set<NodeGpu> there_;                                 // holder pods that exist, or may
  std::map<client::Key, int> expected_;                     // GPU: pods on their way that have a share of it
  std::set<std::string> leaving_;                           // uids that are being deleted
  std::map<client::Key, std::string> problems_;             // why a GPU's pod was not made
  std::map<client::Key, std::set<client::Key>> followers_;  // GPU: jobs to be told when it changes
};

}  // namespace muster::reconcilers
