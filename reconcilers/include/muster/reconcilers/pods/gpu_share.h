// Shares of GPUs as pods carry them: which GPUs a job or a pod has a part of, and how the pod is told. Pure
// functions. Slices (MIG) are resources of the node like whole GPUs: nobody has to hold them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/pod.h"
#include "muster/crds/training_job.h"
#include "muster/placement/job.h"
#include "muster/reconcilers/pods/rendezvous.h"

namespace muster::reconcilers {

// What NVIDIA's container runtime reads; its device plugin sets it to the UUIDs of the GPUs it gives out.
inline constexpr std::string_view kVisibleDevices = "NVIDIA_VISIBLE_DEVICES";

// The resources of slices that are cut, by profile: "nvidia.com/mig-1g.10gb".
inline constexpr std::string_view kMigPrefix = "nvidia.com/mig-";

// One GPU of a node, as Muster counts them. The kubelet has its own order: which one it is says its
// holder pod.
struct NodeGpu {
  std::string node;
  std::int32_t index = 0;

  auto operator<=>(const NodeGpu&) const = default;
};
std::string key_of(const NodeGpu& gpu);  // "node-1/3"
std::optional<NodeGpu> gpu_of_key(std::string_view key);

// A part of a GPU that others may have other parts of: `fraction` and `memory`.
bool is_shared(const crds::Gpus& gpus);
bool has_shares(const crds::TrainingJobSpec& spec);  // any role's are
bool shares_gpus(const crds::TrainingJobSpec& spec,
                 const crds::PodAssignment& place);  // those of its role are

// The extended resource that the first container asks for: the pool's `gpu_resource`, or a slice that goes
// with it ("nvidia.com/mig-1g.10gb"). "": a share, which asks for none.
std::string resource_of(const crds::Gpus& gpus, std::string_view gpu_resource);

// The text of kShareAnnotation: "fraction=500m", "memory=13135Mi", "memory=1Gi,overcommit",
// "mig=1g.10gb,count=2"; "" for whole GPUs. read_share() is the way back: a text that cannot be read means
// whole GPUs. `count` is of slices.
std::string share_text(const crds::Gpus& gpus);
struct ShareRead {
  placement::GpuShare share;
  std::int32_t count = 0;
};
ShareRead read_share(std::string_view text);

// kShareAnnotation of a pod that a job owns. nullptr for any other pod: people may write the annotation on
// pods of their own.
const std::string* share_of(const client::Pod& pod);

// The devices that kGpusAnnotation names; empty: none, or it cannot be read.
std::vector<std::int32_t> gpus_of(const client::Pod& pod);

// Keys of the GPUs that a pod has a share of, until it has ended.
std::vector<std::string> gpus_shared_by(const client::Pod& pod);

// What a pod with shares is told, in every container. `devices`: their ids, comma-separated, or what a
// renderer wants to stand in their place. Under MPS also what the pod may use of each; `limits`: of their
// memory, for a fraction, where that is known.
std::vector<EnvVar> share_environment(const crds::Gpus& gpus, std::string devices, bool mps,
                                      std::string limits = {});
// What MPS is told for a fraction of GPUs with so much memory: "0=40960M,1=40960M". "": nothing.
std::string memory_limits(const crds::Gpus& gpus, crds::Bytes gpu_memory);

}  // namespace muster::reconcilers
