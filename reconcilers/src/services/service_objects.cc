#include "muster/reconcilers/services/service_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/crds/codec.h"
#include "muster/crds/training_job.h"
#include "muster/reconcilers/common/owner.h"
#include "muster/reconcilers/pods/checkpoint.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_identity.h"
#include "muster/reconcilers/pods/role_groups.h"
#include "muster/reconcilers/pods/served_model.h"
#include "muster/reconcilers/usage/job_use.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

constexpr const char* kServerRole = "server";

// The pod leaves its Service when it is told to go, and everybody hears of that a little later. Until SIGTERM
// comes, it serves whoever has not heard. What a container says of its own end counts.
void serve_on(Json& pod, std::int64_t seconds) {
  for (Json& container : pod["containers"]) {
    if (!container["lifecycle"].contains("preStop"))
      container["lifecycle"]["preStop"]["sleep"]["seconds"] = seconds;
  }
  pod["terminationGracePeriodSeconds"] =
      pod.value("terminationGracePeriodSeconds", kDefaultGraceSeconds) + seconds;
}

// Of what a program dies it says last, and most say it only in their log: in the status it is why a replica
// does not start. What a container says of itself counts.
void keep_last_words(Json& pod) {
  for (const char* list : {"initContainers", "containers"}) {
    if (!pod.contains(list)) continue;
    for (Json& container : pod[list]) {
      if (!container.contains("terminationMessagePolicy"))
        container["terminationMessagePolicy"] = "FallbackToLogsOnError";
    }
  }
}

// The template as its replicas' schema has it: Muster starts again what ends, whole groups at a time, not the
// kubelet.
crds::RawJson template_of_replica(const crds::RawJson& pod_template,
                                  const std::optional<std::int32_t>& drain_seconds) {
  if (pod_template.value == nullptr) return pod_template;
  Json changed = *pod_template.value;
  if (changed.contains("spec") && changed["spec"].is_object()) {
    changed["spec"].erase("restartPolicy");
    keep_last_words(changed["spec"]);
    if (drain_seconds) serve_on(changed["spec"], *drain_seconds);
  }
  return {std::make_shared<const Json>(std::move(changed))};
}

crds::RawJson template_of_replica(const crds::RawJson& pod_template, const crds::InferenceServiceSpec& spec) {
  const crds::RawJson plain = template_of_replica(pod_template, spec.drain_seconds);
  return spec.model ? with_model(plain, *spec.model) : plain;
}

// What a replica has of each role; without roles it is one.
std::vector<crds::Role> roles_of_replica(const crds::InferenceServiceSpec& spec) {
  std::vector<crds::Role> all;
  for (const crds::ServiceRole& of_service : spec.roles) {
    crds::Role& role = all.emplace_back();
    role.name = of_service.name;
    role.replicas = crds::pods_of(of_service);
    role.gpus = of_service.gpus;
    role.topology = of_service.topology;
    role.pod_template = template_of_replica(of_service.pod_template, spec);
  }
  if (!all.empty()) return all;
  crds::Role& server = all.emplace_back();
  server.name = kServerRole;
  server.replicas = spec.group_size;
  server.gpus = spec.gpus;
  server.pod_template = template_of_replica(spec.pod_template, spec);
  return all;
}

Json metadata_of(const crds::InferenceService& service, std::string name = "") {
  return {{"name", name.empty() ? service.metadata.name : std::move(name)},
          {"namespace", service.metadata.ns},
          {"labels", {{std::string(kServiceLabel), service.metadata.name}}},
          {"ownerReferences", owner_references(service)}};
}

}  // namespace

void take_over_the_rest(crds::InferenceServiceSpec& to, const crds::InferenceServiceSpec& from) {
  to.replicas = from.replicas;
  to.autoscaling = from.autoscaling;
  to.port = from.port;
  to.rollout = from.rollout;
  to.start_timeout = from.start_timeout;
}

std::string revision_of(const crds::InferenceService& service) {
  crds::InferenceServiceSpec none;
  none.replicas = none.port = 0;  // not the defaults: the names that services have were made so
  crds::InferenceService of;
  of.spec = service.spec;
  take_over_the_rest(of.spec, none);
  return revision_of(crds::to_json(of)["spec"].dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json replica_json(const crds::InferenceService& service, std::string_view revision, std::int32_t ordinal,
                  std::string_view priority_class, bool is_guaranteed) {
  const auto& wanted = service.spec;
  crds::TrainingJob job;
  job.metadata.name = replica_name(service.metadata.name, revision, ordinal);
  job.metadata.ns = service.metadata.ns;
  job.metadata.labels = {{std::string(kServiceLabel), service.metadata.name},
                         {std::string(kRevisionLabel), std::string(revision)}};
  const std::string user_label(kUserLabel);
  if (const auto user = service.metadata.labels.find(user_label); user != service.metadata.labels.end())
    job.metadata.labels[user_label] = user->second;
  job.spec.preemptible = !is_guaranteed;
  job.spec.priority_class_name = priority_class;
  job.spec.topology = wanted.topology;
  job.spec.pools = wanted.pools;
  job.spec.start_timeout = crds::start_timeout_of(wanted);
  job.spec.roles = roles_of_replica(wanted);
  note_groups(job, wanted);
  Json object = crds::to_json(job);
  object["metadata"]["ownerReferences"] = owner_references(service);
  object.erase("status");
  return object;
}

std::string in_terms_of_service(std::string_view text, const crds::InferenceServiceSpec& spec) {
  for (const std::string_view subject : {"TrainingJob.muster.dev \"", "trainingjobs.muster.dev \""}) {
    if (!text.starts_with(subject)) continue;
    for (const std::string_view verdict : {"\" is invalid: ", "\" is forbidden: "}) {
      const auto end = text.find('"', subject.size());
      if (end != std::string_view::npos && text.substr(end).starts_with(verdict))
        text.remove_prefix(end + verdict.size());
    }
  }
  if (!spec.roles.empty()) return std::string(text);
  // As replica_json() fills them.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kFields = {
      {{"spec.roles[0].replicas", "spec.groupSize"},
       {"spec.roles[0].gpus", "spec.gpus"},
       {"spec.roles[0].template", "spec.template"},
       {"spec.roles: ask for", "spec.groupSize: asks for"}}};
  std::string said(text);
  for (const auto& [of_replica, of_service] : kFields) {
    for (auto at = said.find(of_replica); at != std::string::npos;
         at = said.find(of_replica, at + of_service.size()))
      said.replace(at, of_replica.size(), of_service);
  }
  return said;
}

std::string pod_selector(const crds::InferenceService& service) {
  return fmt::format("{}={}", kServiceLabel, service.metadata.name);
}

std::string url_of(const crds::InferenceService& service) {
  return fmt::format("http://{}.{}.svc:{}", service.metadata.name, service.metadata.ns, service.spec.port);
}

Json endpoint_json(const crds::InferenceService& service) {
  const bool has_roles = !service.spec.roles.empty();
  const Json selector = {{std::string(kServiceLabel), service.metadata.name},
                         {std::string(has_roles ? kTrafficLabel : kIndexLabel), has_roles ? "true" : "0"}};
  const Json port = {
      {"name", "http"}, {"port", service.spec.port}, {"targetPort", service.spec.port}, {"protocol", "TCP"}};
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", metadata_of(service)},
          {"spec", {{"selector", selector}, {"ports", Json::array({port})}}}};
}

std::string role_service_name(std::string_view service, std::string_view role) {
  return fmt::format("{}-{}", service, role);
}

Json role_endpoint_json(const crds::InferenceService& service, std::string_view role) {
  const Json selector = {{std::string(kServiceLabel), service.metadata.name},
                         {std::string(kRoleLabel), std::string(role)},
                         {std::string(kWorkerLabel), "0"}};
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", metadata_of(service, role_service_name(service.metadata.name, role))},
          {"spec", {{"clusterIP", "None"}, {"selector", selector}}}};
}

bool takes_requests(const crds::InferenceServiceSpec& spec, const client::Pod& pod) {
  if (spec.roles.empty()) {
    const auto id = identity_of(pod);
    return id && id->index == 0;
  }
  const std::string* traffic = client::find_value(pod.labels, kTrafficLabel);
  return traffic != nullptr && *traffic == "true";
}

Json disruption_budget_json(const crds::InferenceService& service, bool cannot_move) {
  const auto& spec = service.spec;
  // In pods, not in groups: a budget cannot count groups, and as many pods as a group has may be one of each.
  const std::int64_t pods = std::int64_t{crds::size_of(service)} * crds::pods_of_replica(spec);
  const bool is_kept = crds::size_of(service) == 1 && spec.rollout.max_unavailable == 0 && !cannot_move;
  const std::int64_t may_go = is_kept ? 0 : std::max(1, spec.rollout.max_unavailable);
  const std::int64_t kept = std::max<std::int64_t>(0, pods - may_go);
  const Json labels = {{std::string(kServiceLabel), service.metadata.name}};
  return {{"apiVersion", "policy/v1"},
          {"kind", "PodDisruptionBudget"},
          {"metadata", metadata_of(service)},
          {"spec",
           {{"minAvailable", kept},
            {"selector", {{"matchLabels", labels}}},
            // One that is not ready serves nobody, and must not keep a node from being drained.
            {"unhealthyPodEvictionPolicy", "AlwaysAllow"}}}};
}

}  // namespace muster::reconcilers
