#include "muster/reconcilers/sharing/holder_pod.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "muster/crds/text.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_end.h"

namespace muster::reconcilers {
namespace {

using nlohmann::json;
using State = HolderPod::State;

constexpr std::size_t kMaxDevice = 128;
constexpr std::size_t kMaxWords = 256;  // of what others say

// One device, and not a word that means all or none.
bool is_device(std::string_view text) {
  const bool is_word = text == "all" || text == "none" || text == "void";
  return !text.empty() && text.size() <= kMaxDevice && !is_word && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-_.:/=").contains(c);
  });
}

json container(const char* name, json arguments, const json& resources, const std::string& image) {
  return {{"name", name},
          {"image", image},
          {"args", std::move(arguments)},
          {"resources", resources},
          {"securityContext",
           {{"allowPrivilegeEscalation", false},
            {"readOnlyRootFilesystem", true},
            {"capabilities", {{"drop", {"ALL"}}}}}}};
}

// What its end says.
void describe_end(const client::Pod& pod, HolderPod& r) {
  r.state = is_device(pod.init_message) ? State::kEnded : State::kFailed;
  r.reason = pod.reason.empty() ? "ReservationEnded" : pod.reason;
  r.message = pod.message;
  for (const auto& end : pod.ended) {
    if (end.exit_code == 0 || !r.message.empty()) continue;
    r.message = end.message.empty()
                    ? fmt::format("container {} ended with exit code {}", end.name, end.exit_code)
                    : end.message;
  }
}

}  // namespace

json holder_pod_json(const NodeGpu& gpu, std::string_view gpu_resource, const HolderPodSettings& settings) {
  // Requests equal limits. So when memory is short, the kernel and the kubelet end this pod last of all on
  // the node.
  const json amounts = {{"cpu", "50m"}, {"memory", "64Mi"}, {std::string(gpu_resource), "1"}};
  const json resources = {{"requests", amounts}, {"limits", amounts}};
  json secrets = json::array();
  for (const auto& name : settings.pull_secrets) secrets.push_back({{"name", name}});
  json meta = {
      {"name", holder_pod_name(gpu.node, gpu.index)},
      {"namespace", settings.ns},
      {"labels", {{std::string(kManagedByLabel), kManagedBy}, {std::string(kHolderPodLabel), "true"}}},
      {"annotations", {{std::string(kGpusAnnotation), std::to_string(gpu.index)}}}};
  json spec = {{"nodeName", gpu.node},
               {"restartPolicy", "Never"},
               {"priorityClassName", kHolderPriorityClass},
               {"terminationGracePeriodSeconds", 5},
               {"automountServiceAccountToken", false},
               {"enableServiceLinks", false},
               {"tolerations", {{{"operator", "Exists"}}}},
               {"securityContext",
                {{"runAsNonRoot", true},
                 {"runAsUser", 65532},
                 {"runAsGroup", 65532},
                 {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
               {"initContainers",
                json::array({container("report", {"hold-gpu", "--report"}, resources, settings.image)})},
               {"containers", json::array({container("hold", {"hold-gpu"}, resources, settings.image)})}};
  if (!secrets.empty()) spec["imagePullSecrets"] = std::move(secrets);
  return {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", std::move(meta)}, {"spec", std::move(spec)}};
}

std::optional<NodeGpu> gpu_held_by(const client::Pod& pod) {
  if (client::find_value(pod.labels, kHolderPodLabel) == nullptr || pod.node_name.empty())
    return std::nullopt;
  const auto gpus = gpus_of(pod);
  if (gpus.size() != 1 || pod.meta.name != holder_pod_name(pod.node_name, gpus.front())) return std::nullopt;
  return NodeGpu{pod.node_name, gpus.front()};
}

HolderPod read_holder_pod(const client::Pod* pod, crds::Time now) {
  HolderPod r;
  if (pod == nullptr) return r;
  r.name = pod->meta.name;
  r.uid = pod->meta.uid;
  if (pod->deleting) {
    r.state = State::kLeaving;
    return r;
  }
  if (is_terminal(*pod)) {
    describe_end(*pod, r);
  } else if (pod->phase == client::PodPhase::kRunning) {
    const bool reported = is_device(pod->init_message);
    r.state = reported ? State::kHolds : State::kFailed;
    r.device = reported ? pod->init_message : "";
    r.reason = reported ? "" : "NoDeviceReported";
    if (!reported) r.message = fmt::format("\"{}\" names no device", pod->init_message);
  } else {
    r.state = State::kStarting;
    r.message = pod->waiting_reason;
    if (!pod->waiting_message.empty()) r.message += ": " + pod->waiting_message;
    const auto due = crds::Time{std::chrono::seconds{pod->created_at}} + kReportWithin;
    if (now >= due) {
      r.state = State::kFailed;
      r.reason = pod->waiting_reason.empty() ? "NoDeviceReported" : pod->waiting_reason;
      if (r.message.empty())
        r.message = fmt::format("it has reported nothing in {} s", kReportWithin.count());
    } else {
      r.due = due;
    }
  }
  r.message = crds::cut(r.message, kMaxWords);
  return r;
}

Duty duty(bool assigned, std::size_t sharers, const HolderPod& there) {
  const bool is_there = there.state != State::kAbsent;
  if (there.state == State::kLeaving) return Duty::kNothing;
  if (!is_there) return assigned && sharers == 0 ? Duty::kMake : Duty::kNothing;
  const bool useless = !assigned || there.state == State::kEnded;
  return useless && sharers == 0 ? Duty::kRemove : Duty::kNothing;
}

}  // namespace muster::reconcilers
