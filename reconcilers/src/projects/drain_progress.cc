#include "projects/drain_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "muster/crds/quantity.h"
#include "muster/reconcilers/pods/pod_end.h"

namespace muster::reconcilers {
namespace {

// Placement lets go at the instant of a schedule; the status may first be looked at a while later.
constexpr std::chrono::seconds kSeenLate{60};

bool has_pods(const Caches& caches, const Object<crds::TrainingJob>& job) {
  return std::ranges::any_of(caches.pods.store().by_index(kByOwner, job.meta.uid),
                             [](const auto& pod) { return !is_terminal(*pod); });
}

void count(const Caches& caches, const Object<crds::TrainingJob>& job, crds::Time since,
           crds::DrainStatus& sum) {
  const auto& status = job.value.status;
  if (status.assignment.attempt != 0) {
    ++sum.running;
    sum.gpu += status.allocated.gpu.value_or(crds::MilliGpu{});
    return;
  }
  if (status.disruptions.empty()) return;
  const auto& last = status.disruptions.front();
  if (last.reason != "Drained" || last.at + kSeenLate < since) return;
  // `startedAt` goes when it is written down whether it has saved.
  if (status.started_at || has_pods(caches, job)) {
    ++sum.saving;
    sum.gpu += last.gave;
  } else {
    ++(status.disruption.saves_when_asked == false ? sum.unsaved : sum.saved);
  }
}

}  // namespace

std::vector<std::string> namespaces_below(const Caches& caches, const std::string& queue) {
  std::vector<std::string> namespaces, queues{queue};
  std::set<std::string> seen{queue};  // Queues may form a circle
  while (!queues.empty()) {
    const std::string at = std::move(queues.back());
    queues.pop_back();
    for (const auto& project : caches.projects.store().by_index(kByParent, at))
      namespaces.push_back(crds::namespace_of(project->value));
    for (const auto& child : caches.queues.store().by_index(kByParent, at)) {
      if (seen.insert(child->meta.name).second) queues.push_back(child->meta.name);
    }
  }
  std::ranges::sort(namespaces);
  namespaces.erase(std::ranges::unique(namespaces).begin(), namespaces.end());
  return namespaces;
}

crds::DrainStatus drain_progress(const Caches& caches, const std::vector<std::string>& namespaces,
                                 crds::Time since) {
  crds::DrainStatus sum;
  sum.started_at = since;
  const auto& all = caches.jobs.store().all();
  for (const auto& ns : namespaces) {
    for (auto it = all.lower_bound(ns + "/"); it != all.end() && it->second->meta.ns == ns; ++it)
      count(caches, *it->second, since, sum);
  }
  return sum;
}

DrainNews drain_news(const std::optional<crds::DrainStatus>& before,
                     const std::optional<crds::DrainStatus>& now) {
  if (!now) return {};
  if (is_over(*now)) {
    if (before && is_over(*before)) return {};
    return {"Drained",
            fmt::format("nothing runs here any more: {} workloads had saved when they left, {} had "
                        "reported no checkpoint",
                        now->saved, now->unsaved)};
  }
  if (before) return {};
  return {"Draining", fmt::format("admission is Drain: {} workloads still run, {} save, on {} GPUs together",
                                  now->running, now->saving, crds::to_string(now->gpu))};
}

}  // namespace muster::reconcilers
