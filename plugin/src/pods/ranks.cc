#include "pods/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::plugin {
namespace {

using crds::Json;

std::string label_of(const Json& pod, std::string_view label) {
  const auto at = Json::json_pointer("/metadata/labels");
  if (!pod.contains(at) || !pod.at(at).is_object()) return {};
  return pod.at(at).value(std::string(label), "");
}

std::int32_t number_of(const std::string& text) {
  std::int32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Where the role stands in the spec. A service may have none in its spec, and one role then.
std::ptrdiff_t place_of(const Workload& workload, const std::string& role) {
  if (const auto* job = std::get_if<crds::TrainingJob>(&workload))
    return std::ranges::find(job->spec.roles, role, &crds::Role::name) - job->spec.roles.begin();
  const auto& roles = std::get<crds::InferenceService>(workload).spec.roles;
  return std::ranges::find(roles, role, &crds::ServiceRole::name) - roles.begin();
}

// nullopt: nothing but the order of the pods tells. A job that has ended has no places any more.
std::optional<std::int32_t> told_rank(const Workload& workload, const std::string& role, std::int32_t index) {
  const auto* job = std::get_if<crds::TrainingJob>(&workload);
  if (job == nullptr) return std::nullopt;
  if (!crds::resizes_in_place(job->spec) && job->status.assignment.pods.empty()) return std::nullopt;
  return reconcilers::first_rank(*job, role) + index;
}

RankedPod read_pod(const Json& pod) {
  RankedPod result;
  result.name = pod.value(Json::json_pointer("/metadata/name"), "");
  result.container = pod.value(Json::json_pointer("/spec/containers/0/name"), "");
  const std::string phase = pod.value(Json::json_pointer("/status/phase"), "");
  result.has_started = phase != "Pending" && !phase.empty();
  return result;
}

}  // namespace

std::string selector_of(const Workload& workload) {
  const bool is_job = std::holds_alternative<crds::TrainingJob>(workload);
  return std::string(is_job ? reconcilers::kJobLabel : reconcilers::kServiceLabel) + "=" +
         reconcilers::job_label(meta_of(workload).name);
}

std::vector<RankedPod> ranked(const Workload& workload, const std::vector<Json>& pods) {
  std::map<std::string, std::int32_t> latest;  // attempt of each job: a service has several
  for (const Json& pod : pods) {
    auto& attempt = latest[label_of(pod, reconcilers::kJobLabel)];
    attempt = std::max(attempt, number_of(label_of(pod, reconcilers::kAttemptLabel)));
  }
  using Order = std::tuple<std::string, std::ptrdiff_t, std::int32_t, std::string>;
  std::map<Order, RankedPod> in_order;
  for (const Json& pod : pods) {
    const std::string job = label_of(pod, reconcilers::kJobLabel);
    if (number_of(label_of(pod, reconcilers::kAttemptLabel)) != latest[job]) continue;
    const std::string role = label_of(pod, reconcilers::kRoleLabel);
    if (role.empty()) continue;  // it holds a GPU for those who share it
    RankedPod one = read_pod(pod);
    const std::int32_t index = number_of(label_of(pod, reconcilers::kIndexLabel));
    one.rank = told_rank(workload, role, index).value_or(-1);
    const Order order{job, place_of(workload, role), index, one.name};
    in_order[order] = std::move(one);
  }
  std::vector<RankedPod> result;
  for (auto& [order, pod] : in_order) {
    if (pod.rank < 0) pod.rank = static_cast<std::int32_t>(result.size());
    result.push_back(std::move(pod));
  }
  return result;
}

std::string say_no_rank(const std::string& who, const std::vector<RankedPod>& pods, std::int32_t rank) {
  std::string ranges;
  for (std::size_t i = 0; i < pods.size();) {
    std::size_t last = i;
    while (last + 1 < pods.size() && pods[last + 1].rank <= pods[last].rank + 1) ++last;
    ranges += fmt::format("{}{}", ranges.empty() ? "" : ", ", pods[i].rank);
    if (pods[last].rank != pods[i].rank) ranges += fmt::format(" to {}", pods[last].rank);
    i = last + 1;
  }
  return fmt::format("{} has no rank {}: its ranks are {}", who, rank, ranges);
}

client::Result<std::vector<RankedPod>> pods_of(Reader& reader, const Workload& workload) {
  const auto pods = reader.list_json(client::resources::kPods, meta_of(workload).ns, selector_of(workload));
  if (!pods) return std::unexpected(pods.error());
  return ranked(workload, *pods);
}

}  // namespace muster::plugin
