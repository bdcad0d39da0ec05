#include "muster/reconcilers/pods/elastic.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

std::string print_of(const Json& json) {
  return hash_of(json.dump(-1, ' ', false, Json::error_handler_t::replace), 16);
}

Json part_of(const Json& object, std::initializer_list<const char*> names) {
  Json part = Json::object();
  for (const char* name : names) {
    if (const Json* value = find(&object, name)) part[name] = *value;
  }
  return part;
}

// What of a template placement looks at.
Json needs_of(const Json& pod_template) {
  Json needs = Json::object();
  if (const Json* labels = find(&pod_template, "metadata", "labels")) needs["labels"] = *labels;
  const Json* spec = find(&pod_template, "spec");
  if (spec == nullptr) return needs;
  needs["spec"] = part_of(
      *spec, {"nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "volumes", "overhead"});
  for (const char* list : {"initContainers", "containers"}) {
    const Json* containers = find(spec, list);
    if (containers == nullptr || !containers->is_array()) continue;
    for (const Json& container : *containers)
      needs[list].push_back(part_of(container, {"resources", "restartPolicy"}));
  }
  return needs;
}

Json gpus_of(const crds::Gpus& gpus) {
  Json models = Json::array();
  for (const auto& model : gpus.models) models.push_back(model);
  Json all = {crds::devices_of(gpus), std::move(models)};
  if (auto share = share_text(gpus); !share.empty()) all.push_back(std::move(share));
  return all;
}

bool smaller(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return a * std::max<std::int64_t>(1, d) < c * std::max<std::int64_t>(1, b);
}

}  // namespace

std::vector<std::int32_t> most_by_role(const crds::TrainingJobSpec& spec) {
  const auto& roles = spec.roles;
  std::vector<std::int32_t> most;
  most.reserve(roles.size());
  if (!spec.elastic || !spec.elastic->replicas) {
    for (const auto& role : roles) most.push_back(crds::most_replicas(role));
    return most;
  }
  for (const auto& role : roles) most.push_back(crds::least_replicas(role));
  std::int32_t left = *spec.elastic->replicas - crds::replicas_of(spec);
  if (!spec.topology.groups.empty()) left -= left % spec.topology.groups.front().size;  // whole ones
  while (left > 0) {
    std::size_t best = roles.size();
    for (std::size_t r = 0; r < roles.size(); ++r) {
      if (most[r] >= crds::most_replicas(roles[r]) || !roles[r].colocate_with.empty()) continue;
      if (best == roles.size() ||
          smaller(most[r], crds::least_replicas(roles[r]), most[best], crds::least_replicas(roles[best])))
        best = r;
    }
    if (best == roles.size()) break;
    ++most[best];
    --left;
    for (std::size_t r = 0; r < roles.size() && left > 0; ++r) {
      const bool beside = roles[r].colocate_with == roles[best].name;
      if (!beside || most[r] >= most[best] || most[r] >= crds::most_replicas(roles[r])) continue;
      ++most[r];
      --left;
    }
  }
  return most;
}

std::int32_t wished_size(const crds::TrainingJobSpec& spec) {
  std::int32_t sum = 0;
  for (const auto n : most_by_role(spec)) sum += n;
  return sum;
}

std::int32_t size_of(const crds::TrainingJob& job, const crds::Role& role) {
  const auto& pods = job.status.assignment.pods;
  if (!crds::is_elastic(role) || pods.empty()) return crds::least_replicas(role);
  return static_cast<std::int32_t>(
      std::ranges::count_if(pods, [&](const crds::PodAssignment& p) { return p.role == role.name; }));
}

std::int32_t first_rank(const crds::TrainingJob& job, std::string_view role) {
  const bool stays = crds::resizes_in_place(job.spec);
  std::int32_t rank = 0;
  for (const auto& r : job.spec.roles) {
    if (r.name == role) break;
    rank += stays ? crds::most_replicas(r) : size_of(job, r);
  }
  return rank;
}

MadeFrom made_from(const crds::TrainingJobSpec& spec) {
  Json places = Json::array();
  Json pods = Json::array();
  for (const auto& role : spec.roles) {
    const Json* pod_template = role.pod_template.value.get();
    const Json gpus = role.gpus ? gpus_of(*role.gpus) : Json();
    places.push_back({role.name, gpus, pod_template == nullptr ? Json() : needs_of(*pod_template)});
    pods.push_back(pod_template == nullptr ? Json() : *pod_template);
    if (!role.gpus) continue;
    // What its pods are told of the GPUs that they share.
    if (role.gpus->memory_limit) pods.push_back({crds::to_string(*role.gpus->memory_limit)});
    if (role.gpus->on_memory_pressure) pods.push_back({crds::to_string(*role.gpus->on_memory_pressure)});
  }
  pods.push_back(crds::to_string(spec.framework));
  if (spec.checkpoint && !spec.checkpoint->claim_name.empty()) {
    places.push_back({spec.checkpoint->claim_name});
    pods.push_back({spec.checkpoint->claim_name, spec.checkpoint->mount_path});
  }
  return {print_of(places), print_of(pods)};
}

bool is_of_this_spec(const crds::TrainingJob& job, const crds::Assignment& a) {
  return a.generation == job.metadata.generation || a.made_from.empty() ||
         a.made_from.starts_with(made_from(job.spec).places + "-");
}

}  // namespace muster::reconcilers
