// Holder pods: each holds one GPU of its node through the device plugin for those who share it, and
// reports which one it got. Its init container writes the id that the plugin gave it to its termination log
// and ends; the kubelet gives the same GPU to the main container, which holds it until the pod is deleted. So
// the id comes with the pods that are watched anyway, and the pod needs no way to the API server. Pure
// functions. docs/decisions/0042
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/pod.h"
#include "muster/crds/time.h"
#include "muster/reconcilers/pods/gpu_share.h"

namespace muster::reconcilers {

// A holder pod that has not reported so long after it was made has failed.
inline constexpr std::chrono::seconds kReportWithin{120};
// The PriorityClass of manifests/base. It is so high that a kubelet evicts those who share a GPU before the
// pod that holds it.
inline constexpr std::string_view kHolderPriorityClass = "gpu-reservation";

struct HolderPodSettings {
  std::string ns = "muster-system";
  std::string image;                      // of Muster
  std::vector<std::string> pull_secrets;  // in `ns`
};

nlohmann::json holder_pod_json(const NodeGpu& gpu, std::string_view gpu_resource,
                               const HolderPodSettings& settings);

// The GPU that the pod was made to hold; nullopt: it is no holder pod.
std::optional<NodeGpu> gpu_held_by(const client::Pod& pod);

struct HolderPod {
  enum class State : std::uint8_t {
    kAbsent,
    kStarting,  // holds perhaps, and has not reported; `message`: what keeps it, where the kubelet says so
    kHolds,     // `device`
    kFailed,    // will not hold: `reason`, one word, and `message`
    kEnded,     // has held, and does not any more; the same
    kLeaving,   // was deleted, and may hold still
  };
  State state = State::kAbsent;
  std::string name, uid;
  std::string device;  // its id, as the plugin gave it
  std::string reason, message;
  std::optional<crds::Time> due{};  // of kStarting: when it fails

  bool operator==(const HolderPod&) const = default;
};
// nullptr: there is none.
HolderPod read_holder_pod(const client::Pod* pod, crds::Time now);

// What is to be done about a GPU's holder pod.
enum class Duty : std::uint8_t { kNothing, kMake, kRemove };
// `assigned`: an assignment gives somebody a share of the GPU. `sharers`: how many pods have a share and have
// not ended. When nobody has a share any more, the holder pod goes. One that has ended is made anew when all
// sharers have gone, and not before: the new one could hold another GPU than theirs.
Duty duty(bool assigned, std::size_t sharers, const HolderPod& there);

}  // namespace muster::reconcilers
