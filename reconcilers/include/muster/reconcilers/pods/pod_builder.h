// The pods of a gang, and the Service and ConfigMap beside them, as JSON text.
//
// A pod is the role's template with this added or set:
//   metadata   namespace, name, Muster's labels and the GPU annotation beside the template's own, the job
//              as controller. The job's labels are not copied: tracking labels of GitOps tools must not
//              reach children
//   spec       nodeName, hostname, subdomain, restartPolicy Never, serviceAccountName (kJobAccount, where
//              the template names none), priorityClassName (of the job, where it states one),
//              terminationGracePeriodSeconds (checkpoint.gracePeriod, where the job states a checkpoint)
//              dnsPolicy ClusterFirstWithHostNet (under hostNetwork, in place of ClusterFirst or none)
//   GPUs       requests and limits of the first container: whole ones, or slices. Shares ask for nothing:
//              their devices are in the environment of every container (gpu_share.h), whatever the
//              template says there
//   env        rendezvous.h, before the template's own, in every container and init container; a name
//              that the template has too is left to the template
//   volumes    the hosts files at /etc/muster, read-only, and the checkpoint claim, in every container
//              and init container that has nothing mounted at that path
// Everything else of the template stays as it is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// How a pool gives out its GPUs.
struct GpuMeans {
  std::string resource;  // spec.gpuResource
  bool mps = false;      // shares are clients of its MPS servers
};

// The devices of a pod with shares, in the order of its place: their ids, and the uids of the pods that hold
// them. Of characters that need no escaping in JSON.
struct HeldDevices {
  std::string ids, holders;     // separated by commas
  std::string memory_limits{};  // of a fraction under MPS: memory_limits() in gpu_share.h
};

// Prepares each role's template once; a pod then is a concatenation. The job may go after construction.
class PodBuilder {
 public:
  PodBuilder(const crds::TrainingJob& job, const GpuMeans& gpus);
  ~PodBuilder();
  PodBuilder(PodBuilder&&) noexcept;
  PodBuilder& operator=(PodBuilder&&) noexcept;

  // A pod of the attempt job.status.assignment.attempt. `place.role` must be a role of the job, or it is a
  // bug. `held`: of roles with shares. O(size of the text).
  std::string pod(const crds::PodAssignment& place, const HeldDevices& held = {}) const;
  // The same for any attempt.
  std::string pod(const crds::PodAssignment& place, std::int32_t attempt, const HeldDevices& held = {}) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

// Headless, with unready addresses published: gives every pod its DNS name before it is ready.
std::string service_json(const crds::TrainingJob& job);
// The files of rendezvous.h.
std::string hosts_config_map_json(const crds::TrainingJob& job);

}  // namespace muster::reconcilers
