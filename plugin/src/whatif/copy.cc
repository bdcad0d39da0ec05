#include "whatif/copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "muster/reconcilers/placement/node_topology.h"
#include "muster/reconcilers/pods/names.h"
#include "output/text.h"

namespace muster::plugin {
namespace {

using crds::Json;

constexpr std::string_view kSimulate = "simulate.muster.dev/";

std::string text_at(const Json& object, const char* pointer) {
  const Json::json_pointer at(pointer);
  return object.contains(at) && object.at(at).is_string() ? object.at(at).get<std::string>() : "";
}

std::optional<crds::Time> time_at(const Json& object, const char* pointer) {
  const auto time = crds::parse_time(text_at(object, pointer));
  return time ? std::optional(*time) : std::nullopt;
}

bool has_label(const Json& object, std::string_view label) {
  const Json::json_pointer labels("/metadata/labels");
  return object.contains(labels) && object.at(labels).contains(std::string(label));
}

// Name, namespace, labels and annotations; what somebody wrote for another simulation does not count here.
Json meta_of_copy(const Json& object) {
  Json meta = Json::object();
  if (!object.contains("metadata")) return meta;
  for (const char* field : {"name", "namespace", "labels", "annotations"}) {
    if (object["metadata"].contains(field)) meta[field] = object["metadata"][field];
  }
  if (meta.contains("annotations")) {
    Json kept = Json::object();
    for (const auto& [key, value] : meta["annotations"].items()) {
      if (!key.starts_with(kSimulate)) kept[key] = value;
    }
    meta["annotations"] = std::move(kept);
  }
  return meta;
}

std::string seconds(crds::Time now, crds::Time then) {
  return std::to_string(std::max<std::int64_t>((now - then).count(), 0)) + "s";
}

// What `maxRuntime` leaves it, when earlier attempts have run.
void shorten_runtime(Json& spec, const Json& job) {
  const std::int64_t before = job.value(Json::json_pointer("/status/runSeconds"), std::int64_t{0});
  const auto whole = crds::parse_duration(spec.value("maxRuntime", ""));
  if (before <= 0 || !whole) return;
  spec["maxRuntime"] = crds::to_string(std::max(*whole - crds::Duration(before), crds::Duration(1)));
}

Json keep(const Json& object, std::initializer_list<const char*> fields) {
  Json kept = Json::object();
  for (const char* field : fields) {
    if (object.contains(field)) kept[field] = object[field];
  }
  return kept;
}

struct NeededKind {
  client::Resource resource;
  const char* api_version;
  const char* kind;
};

// As many of them as may be read; what may not be is told in `refused`.
void copy_needed(Reader& reader, std::vector<Json>& objects, std::vector<std::string>& refused) {
  const std::array<NeededKind, 4> kinds = {{
      {client::resources::kNodes, "v1", "Node"},
      {resource_of<crds::NodePool>(), crds::kApiVersion.data(), "NodePool"},
      {resource_of<crds::Queue>(), crds::kApiVersion.data(), "Queue"},
      {resource_of<crds::Project>(), crds::kApiVersion.data(), "Project"},
  }};
  for (const auto& kind : kinds) {
    auto list = reader.list_json(kind.resource, {});
    if (!list) {
      refused.push_back(said(list.error()));
      continue;
    }
    for (auto& object : *list)
      objects.push_back(copy_of_other(std::move(object), kind.api_version, kind.kind));
  }
}

// Of all namespaces where that is allowed, else of `ns`. `what_follows`: what it means that the others are
// not known.
std::expected<std::vector<Json>, std::string> list_widely(Reader& reader, const client::Resource& resource,
                                                          const std::string& ns, const char* what_follows,
                                                          std::vector<std::string>& unknown) {
  auto all = reader.list_json(resource, {});
  if (all) return std::move(*all);
  if (all.error().code != client::ErrorCode::kForbidden) return std::unexpected(said(all.error()));
  auto own = reader.list_json(resource, ns);
  if (own) {
    unknown.push_back(
        fmt::format("You may not list {} outside of namespace {}: {}", resource.plural, ns, what_follows));
    return std::move(*own);
  }
  if (own.error().code != client::ErrorCode::kForbidden) return std::unexpected(said(own.error()));
  unknown.push_back(fmt::format("You may not list {}: {}", resource.plural, what_follows));
  return std::vector<Json>{};
}

}  // namespace

Json copy_of_job(Json job, crds::Time now) {
  const std::string phase = text_at(job, "/status/phase");
  if (phase == "Succeeded" || phase == "Failed") return nullptr;
  Json copy = {{"apiVersion", crds::kApiVersion}, {"kind", crds::TrainingJob::kKind}};
  copy["metadata"] = meta_of_copy(job);
  copy["spec"] = job.value("spec", Json::object());
  Json& notes = copy["metadata"]["annotations"];
  if (!notes.is_object()) notes = Json::object();
  if (const auto made = time_at(job, "/metadata/creationTimestamp"))
    notes[std::string(kSimulate) + "age"] = seconds(now, *made);
  // Its indexes are copied too, as what they are: jobs. It goes on from where it is.
  if (job.contains(Json::json_pointer("/status/array"))) copy["status"] = keep(job["status"], {"array"});
  // Who was admitted once waits for no other job; who was not goes on from what it has seen.
  const Json::json_pointer met("/status/metDependencies");
  if (job.value(Json::json_pointer("/status/attempt"), 0) != 0) copy["spec"].erase("dependsOn");
  if (job.contains(met)) copy["status"]["metDependencies"] = job.at(met);
  const Json::json_pointer assignment("/status/assignment");
  if (!job.contains(assignment) || !job.at(assignment).contains("pods")) return copy;
  copy["status"] = keep(job["status"], {"assignment", "effective"});
  shorten_runtime(copy["spec"], job);
  auto since = time_at(job, "/status/startedAt");
  if (!since) since = time_at(job, "/status/assignment/admittedAt");
  if (since) notes[std::string(kSimulate) + "running-for"] = seconds(now, *since);
  return copy;
}

Json copy_of_pod(const Json& pod) {
  const std::string phase = text_at(pod, "/status/phase");
  if (text_at(pod, "/spec/nodeName").empty() || phase == "Succeeded" || phase == "Failed") return nullptr;
  if (has_label(pod, reconcilers::kJobLabel) || has_label(pod, reconcilers::kHolderPodLabel)) return nullptr;
  Json copy = {{"apiVersion", "v1"}, {"kind", "Pod"}};
  copy["metadata"] = meta_of_copy(pod);
  copy["spec"] = keep(pod["spec"], {"nodeName", "overhead", "resources"});
  for (const char* list : {"containers", "initContainers"}) {
    if (!pod["spec"].contains(list)) continue;
    for (const Json& container : pod["spec"][list])
      copy["spec"][list].push_back(keep(container, {"name", "resources", "restartPolicy"}));
  }
  return copy;
}

Json copy_of_other(Json object, const std::string& api_version, const std::string& kind) {
  Json copy = keep(object, {"spec", "value", "globalDefault", "zones", "attributes", "topologyPolicies"});
  copy["apiVersion"] = api_version;
  copy["kind"] = kind;
  copy["metadata"] = meta_of_copy(object);
  if (kind == crds::Project::kKind && object.contains("status"))
    copy["status"] = keep(object["status"], {"runTimes"});  // estimates rest on it
  if (kind == "Node" && object.contains("status"))
    copy["status"] = keep(object["status"], {"capacity", "allocatable", "conditions", "addresses"});
  return copy;
}

namespace {

// Of which a cluster may know nothing.
void copy_topologies(Reader& reader, ClusterCopy& copy) {
  auto topologies = reader.list_json(reconcilers::kNodeTopologies, {});
  if (!topologies && topologies.error().code != client::ErrorCode::kNotFound)
    copy.unknown.emplace_back(
        "You may not list noderesourcetopologies: what asks for gpus.numaAligned finds no node.");
  for (auto& one : topologies ? *topologies : std::vector<Json>{})
    copy.objects.push_back(
        copy_of_other(std::move(one), "topology.node.k8s.io/v1alpha2", "NodeResourceTopology"));
}

}  // namespace

std::expected<ClusterCopy, std::string> copy_cluster(Reader& reader, const std::string& ns) {
  ClusterCopy copy;
  std::vector<std::string> refused;
  copy.objects.push_back({{"apiVersion", "simulate.muster.dev/v1"},
                          {"kind", "Calendar"},
                          {"begin", crds::to_string(reader.now())}});
  copy_needed(reader, copy.objects, refused);
  if (!refused.empty()) {
    std::string text = "whatif cannot do without these:";
    for (const auto& one : refused) text += "\n  " + one;
    return std::unexpected(text + "\n" + std::string(kAskForViewer) + ", and to let you list nodes.");
  }
  copy_topologies(reader, copy);
  auto classes = reader.list_json(client::resources::kPriorityClasses, {});
  if (!classes)
    copy.unknown.emplace_back("You may not list priorityclasses: only those that Muster ships are known.");
  for (auto& one : classes ? *classes : std::vector<Json>{}) {
    if (!text_at(one, "/metadata/name").starts_with("system-"))
      copy.objects.push_back(copy_of_other(std::move(one), "scheduling.k8s.io/v1", "PriorityClass"));
  }
  auto jobs = list_widely(reader, resource_of<crds::TrainingJob>(), ns,
                          "what others hold or wait for counts as free, so the answer may be too good.",
                          copy.unknown);
  if (!jobs) return std::unexpected(jobs.error());
  for (auto& job : *jobs) {
    if (Json one = copy_of_job(std::move(job), reader.now()); !one.is_null())
      copy.objects.push_back(std::move(one));
  }
  const auto pods = list_widely(reader, client::resources::kPods, ns,
                                "what pods that are not Muster's hold counts as free.", copy.unknown);
  if (!pods) return std::unexpected(pods.error());
  for (const auto& pod : *pods) {
    if (Json one = copy_of_pod(pod); !one.is_null()) copy.objects.push_back(std::move(one));
  }
  return copy;
}

}  // namespace muster::plugin
