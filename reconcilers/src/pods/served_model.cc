#include "muster/reconcilers/pods/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace muster::reconcilers {
namespace {

using crds::Json;

constexpr std::string_view kHub = "hf://", kClaim = "pvc://", kJob = "trainingjob://", kFile = "file://";
constexpr const char* kModelVolume = "served-model";
constexpr const char* kCacheVolume = "served-model-cache";

// "claim/a/b" as "claim" and "/a/b".
std::pair<std::string, std::string> claim_and_path(std::string_view uri) {
  uri.remove_prefix(kClaim.size());
  const auto slash = std::min(uri.find('/'), uri.size());
  return {std::string(uri.substr(0, slash)), std::string(uri.substr(slash))};
}

void add_variable(Json& container, const char* name, std::string value) {
  Json& env = container["env"];
  if (env.is_null()) env = Json::array();
  if (std::ranges::any_of(env, [&](const Json& one) { return one.value("name", "") == name; })) return;
  // In front: a variable can refer to those before it.
  env.insert(env.begin(), Json{{"name", name}, {"value", std::move(value)}});
}

void add_claim(Json& pod, const char* volume, const std::string& claim, std::string_view path,
               bool read_only) {
  Json source = {{"claimName", claim}};
  if (read_only) source["readOnly"] = true;
  pod["volumes"].push_back({{"name", volume}, {"persistentVolumeClaim", std::move(source)}});
  for (const char* list : {"initContainers", "containers"}) {
    if (!pod.contains(list)) continue;
    for (Json& container : pod[list]) {
      Json mount = {{"name", volume}, {"mountPath", std::string(path)}};
      if (read_only) mount["readOnly"] = true;
      container["volumeMounts"].push_back(std::move(mount));
    }
  }
}

// The checkpoint that the job has reported, as something that can be served. "": it cannot.
std::string uri_of_checkpoint(const crds::TrainingJob& job) {
  std::string_view at = job.status.checkpoint.uri;
  for (const std::string_view scheme : {"s3://", "gs://", "hf://"}) {
    if (at.starts_with(scheme)) return std::string(at);
  }
  if (at.starts_with(kFile)) at.remove_prefix(kFile.size());
  if (!job.spec.checkpoint || job.spec.checkpoint->claim_name.empty()) return {};
  std::string_view mounted = job.spec.checkpoint->mount_path;
  while (mounted.ends_with('/')) mounted.remove_suffix(1);
  if (!at.starts_with(mounted)) return {};
  at.remove_prefix(mounted.size());
  while (at.ends_with('/')) at.remove_suffix(1);
  if (!at.empty() && !at.starts_with('/')) return {};
  if (at.find("/../") != std::string_view::npos || at.ends_with("/..")) return {};
  return fmt::format("{}{}{}", kClaim, job.spec.checkpoint->claim_name, at);
}

}  // namespace

std::string model_argument(const std::string& uri) {
  if (uri.starts_with(kHub)) return uri.substr(kHub.size());
  if (uri.starts_with(kClaim)) return std::string(kModelPath) + claim_and_path(uri).second;
  return uri;
}

crds::RawJson with_model(const crds::RawJson& pod_template, const crds::ServedModel& model) {
  if (pod_template.value == nullptr || !pod_template.value->contains("spec")) return pod_template;
  Json changed = *pod_template.value;
  Json& pod = changed["spec"];
  if (model.uri.starts_with(kClaim))
    add_claim(pod, kModelVolume, claim_and_path(model.uri).first, kModelPath, true);
  if (!model.cache_claim.empty()) add_claim(pod, kCacheVolume, model.cache_claim, kModelCachePath, false);
  for (const char* list : {"initContainers", "containers"}) {
    if (!pod.contains(list)) continue;
    for (Json& container : pod[list]) {
      if (!model.cache_claim.empty()) {
        add_variable(container, "HF_HUB_CACHE", std::string(kModelCachePath) + "/hub");
        add_variable(container, "HF_HOME", std::string(kModelCachePath));
      }
      add_variable(container, "MODEL", model_argument(model.uri));
    }
  }
  return {std::make_shared<const Json>(std::move(changed))};
}

LocatedModel locate_model(const crds::InferenceService& service,
                          const std::function<const crds::TrainingJob*(const std::string& name)>& find_job) {
  if (!service.spec.model) return {};
  const std::string& uri = service.spec.model->uri;
  if (!uri.starts_with(kJob)) return {uri, ""};
  std::string name = uri.substr(kJob.size());
  const std::string& before = service.status.model;
  if (const auto slash = name.find('/'); slash != std::string::npos) {
    if (name.substr(0, slash) != service.metadata.ns)
      return {before,
              fmt::format("spec.model.uri: must name a job of namespace {}, whose claims alone its pods "
                          "can mount, names {}",
                          service.metadata.ns, name)};
    name = name.substr(slash + 1);
  }
  const crds::TrainingJob* job = find_job(name);
  if (job == nullptr) return {before, fmt::format("spec.model.uri: there is no TrainingJob {}", name)};
  if (job->status.phase != crds::Phase::kSucceeded)
    return {before, fmt::format("spec.model.uri: TrainingJob {} has not completed", name)};
  if (job->status.checkpoint.uri.empty())
    return {before, fmt::format("spec.model.uri: TrainingJob {} has reported no checkpoint", name)};
  std::string found = uri_of_checkpoint(*job);
  if (found.empty())
    return {before, fmt::format("spec.model.uri: the checkpoint {} of TrainingJob {} is neither in its "
                                "spec.checkpoint.claimName nor s3://, gs:// or hf://",
                                job->status.checkpoint.uri, name)};
  return {std::move(found), ""};
}

}  // namespace muster::reconcilers
