#include "live/sample_pods.h"

#include "muster/reconcilers/pods/pod_builder.h"

namespace muster::bench {

using nlohmann::json;

json sample_job(const std::string& name, const std::string& ns, int pods, const json& annotations) {
  const json resources = {{"requests", {{"cpu", "1"}, {"memory", "1Gi"}}}};
  const json container = {{"name", "main"}, {"image", "registry.example/train:1"}, {"resources", resources}};
  json pod = {{"spec", {{"containers", {container}}}}};
  if (!annotations.empty()) pod["metadata"]["annotations"] = annotations;
  const json role = {{"name", "worker"}, {"replicas", pods}, {"gpus", {{"count", 1}}}, {"template", pod}};
  return {{"apiVersion", "muster.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata", {{"name", name}, {"namespace", ns}}},
          {"spec", {{"roles", {role}}}}};
}

std::string bare_pod(const crds::TrainingJob& job, int index, const std::vector<std::string>& nodes,
                     std::size_t n) {
  crds::PodAssignment place;
  place.role = "worker";
  place.index = index;
  place.node = nodes[n % nodes.size()];
  place.gpus = {static_cast<std::int32_t>(n / nodes.size() % 8)};
  json pod = json::parse(reconcilers::PodBuilder(job, {.resource = "nvidia.com/gpu"}).pod(place, 1));
  pod["metadata"].erase("ownerReferences");
  return pod.dump();
}

}  // namespace muster::bench
