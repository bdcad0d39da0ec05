#include "replay/input.h"

#include <nlohmann/json.hpp>
#include <sstream>

namespace muster::bench {
namespace {

using nlohmann::json;

std::string seconds(std::int64_t count) {
  return std::to_string(count) + "s";
}
std::string milli(std::int64_t count) {
  return std::to_string(count) + "m";
}

json job_object(const ReplayJob& job, const std::string& project, bool states_max_runtime) {
  const TracePod& pod = job.pod;
  const json container = {
      {"name", "main"},
      {"image", "image"},
      {"resources",
       {{"requests", {{"cpu", milli(pod.cpu_milli)}, {"memory", std::to_string(pod.memory_mib) + "Mi"}}}}}};
  json role = {{"name", "worker"}, {"template", {{"spec", {{"containers", json::array({container})}}}}}};
  if (pod.gpus > 0) {
    role["gpus"] = pod.gpus == 1 && pod.gpu_milli < 1000 ? json{{"fraction", milli(pod.gpu_milli)}}
                                                         : json{{"count", pod.gpus}};
    if (!pod.models.empty()) role["gpus"]["models"] = pod.models;
  }
  json spec = {
      {"preemptible", job.preemptible},
      {"checkpoint", {{"interval", seconds(kSavesEverySeconds)}, {"gracePeriod", seconds(kGraceSeconds)}}},
      {"roles", json::array({role})}};
  if (states_max_runtime) spec["maxRuntime"] = seconds(2 * job.runs);
  return {{"apiVersion", kMusterVersion},
          {"kind", "TrainingJob"},
          {"metadata",
           {{"name", job.name},
            {"namespace", project},
            {"annotations",
             {{"simulate.muster.dev/at", seconds(job.arrives)},
              {"simulate.muster.dev/runs-for", seconds(job.runs)},
              {"simulate.muster.dev/saves-in", seconds(kGraceSeconds + 1)}}}}},
          {"spec", std::move(spec)}};
}

}  // namespace

std::string_view to_string(Policy policy) {
  switch (policy) {
    case Policy::kBorrowing:
      return "muster";
    case Policy::kStaticQuotas:
      return "static quotas";
    case Policy::kFifo:
      return "first in, first out";
  }
  return "";
}

json node_object(const TraceNode& n) {
  return {{"apiVersion", "v1"},
          {"kind", "Node"},
          {"metadata", {{"name", n.name}, {"labels", {{"nvidia.com/gpu.product", n.model}}}}},
          {"status",
           {{"capacity",
             {{"cpu", milli(n.cpu_milli)},
              {"memory", std::to_string(n.memory_mib) + "Mi"},
              {"pods", "10000"},  // the trace limits no number of pods
              {"nvidia.com/gpu", std::to_string(n.gpus)}}}}}};
}

json muster_object(const char* kind, const std::string& name, json spec) {
  return {{"apiVersion", kMusterVersion},
          {"kind", kind},
          {"metadata", {{"name", name}}},
          {"spec", std::move(spec)}};
}

std::string simulation_input(const std::vector<TraceNode>& nodes, const std::vector<ReplayProject>& projects,
                             const ReplayWorkload& workload, Policy policy, std::int64_t lending) {
  std::ostringstream out;
  const auto put = [&](const json& object) { out << object << "\n---\n"; };
  for (const TraceNode& n : nodes) put(node_object(n));
  const json everything = {{"gpu", milli(gpu_milli(nodes))}};
  const bool lends = lending > 0 && policy == Policy::kBorrowing;
  json cluster = {{"quota", everything}};
  if (lends) cluster["lending"] = {{"nonPreemptible", {{"maxRuntime", seconds(lending)}}}};
  put(muster_object("Queue", "cluster", std::move(cluster)));
  if (policy == Policy::kFifo) {
    put(muster_object("Project", "everybody", {{"queue", "cluster"}, {"quota", everything}}));
  } else {
    for (std::size_t i = 0; i < projects.size(); ++i) {
      const json quota = {{"gpu", milli(projects[i].quota_milli)}};
      json spec = {{"queue", "cluster"}, {"quota", quota}, {"weight", 2 - static_cast<int>(i % 2)}};
      if (policy == Policy::kStaticQuotas) spec["limit"] = quota;
      put(muster_object("Project", projects[i].name, spec));
    }
  }
  for (const ReplayJob& job : workload.jobs)
    put(job_object(job, policy == Policy::kFifo ? "everybody" : projects[job.project].name, lends));
  return out.str();
}

}  // namespace muster::bench
