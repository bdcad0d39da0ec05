#include "sharing/input.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "replay/input.h"

namespace muster::bench {
namespace {

using nlohmann::json;

json job_object(const Day& day, const DayJob& job, Sharing policy) {
  const auto seconds = [](std::int64_t count) { return std::to_string(count) + "s"; };
  const std::string prefix = "simulate.muster.dev/";
  const std::int64_t saves_in = job.saves_when_asked ? kSaveSeconds : kDayGraceSeconds + 1;
  json notes = {{prefix + "at", seconds(job.arrives)},
                {prefix + "runs-for", seconds(job.runs)},
                {prefix + "saves-in", seconds(saves_in)},
                {prefix + "starts-in", seconds(kStartSeconds)}};
  if (job.resizing == Resizing::kInPlace) notes[prefix + "resizes-in"] = seconds(kResizeSeconds);
  json role = {
      {"name", "worker"},
      {"gpus", {{"count", job.gpus}}},
      {"template", {{"spec", {{"containers", json::array({{{"name", "main"}, {"image", "image"}}})}}}}}};
  json spec = {{"checkpoint",
                {{"interval", seconds(kCheckpointSeconds)}, {"gracePeriod", seconds(kDayGraceSeconds)}}}};
  if (job.is_interactive) spec["preemptible"] = false;
  if (policy != Sharing::kFifo) spec["priorityClassName"] = job.priority_class;
  if (job.resizing == Resizing::kNever) {
    role["replicas"] = job.pods;
  } else {
    role["minReplicas"] = job.least_pods;
    role["maxReplicas"] = job.pods;
    spec["elastic"] = {{"resize", job.resizing == Resizing::kInPlace ? "InPlace" : "Restart"}};
  }
  spec["roles"] = json::array({role});
  return {{"apiVersion", kMusterVersion},
          {"kind", "TrainingJob"},
          {"metadata",
           {{"name", job.name}, {"namespace", home_of(day, job, policy)}, {"annotations", std::move(notes)}}},
          {"spec", std::move(spec)}};
}

json priority_class(const DayClass& of) {
  return {{"apiVersion", "scheduling.k8s.io/v1"},
          {"kind", "PriorityClass"},
          {"metadata", {{"name", of.name}}},
          {"value", of.value}};
}

}  // namespace

std::string_view to_string(Sharing policy) {
  switch (policy) {
    case Sharing::kMuster:
      return "muster";
    case Sharing::kFreeOfCharge:
      return "muster, maxOverhead 100";
    case Sharing::kPatient:
      return "muster, preempt.patience 30m";
    case Sharing::kStaticQuotas:
      return "static quotas";
    case Sharing::kFifo:
      return "first in, first out";
  }
  return "";
}

const std::string& home_of(const Day& day, const DayJob& job, Sharing policy) {
  static const auto& kEverybody = *new std::string("everybody");
  return policy == Sharing::kFifo ? kEverybody : day.projects[job.project].name;
}

std::string simulation_input(const Day& day, Sharing policy) {
  std::ostringstream out;
  const auto put = [&](const json& object) { out << object << "\n---\n"; };
  for (const TraceNode& n : day.nodes) put(node_object(n));
  for (const DayClass& c : {kLowClass, kHighClass}) put(priority_class(c));
  const json everything = {{"gpu", day.gpus()}};
  json cluster = {{"quota", everything}};
  if (policy == Sharing::kFreeOfCharge) cluster["disruption"] = {{"maxOverhead", 100}};
  if (policy == Sharing::kPatient) cluster["preempt"] = {{"patience", "30m"}};
  put(muster_object("Queue", "cluster", std::move(cluster)));
  if (policy == Sharing::kFifo) {
    put(muster_object("Project", "everybody", {{"queue", "cluster"}, {"quota", everything}}));
  } else {
    for (const DayProject& p : day.projects) {
      const json quota = {{"gpu", p.quota}};
      json spec = {{"queue", "cluster"}, {"quota", quota}};
      if (policy == Sharing::kStaticQuotas) spec["limit"] = quota;
      put(muster_object("Project", p.name, std::move(spec)));
    }
  }
  for (const DayJob& job : day.jobs) put(job_object(day, job, policy));
  return out.str();
}

}  // namespace muster::bench
