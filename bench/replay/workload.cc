#include "replay/workload.h"

#include <algorithm>
#include <stdexcept>

#include "core/synthetic.h"

namespace muster::bench {
namespace {

// FNV-1a, as a seed.
std::uint64_t hash(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

std::size_t project_for(const TracePod& pod, const std::string& name,
                        const std::vector<ReplayProject>& projects) {
  const auto holds = [&](const ReplayProject& p) { return p.quota_milli >= pod.milli(); };
  std::uint64_t parts = 0;
  for (const ReplayProject& p : projects) parts += holds(p) ? p.demand : 0;
  if (parts == 0)
    throw std::runtime_error("no project's quota holds pod " + pod.name + " with its " +
                             std::to_string(pod.milli()) + " milli-GPU; take more of the nodes");
  std::uint64_t draw = Random(hash(name)).below(parts);
  for (std::size_t i = 0; i < projects.size(); ++i) {
    if (!holds(projects[i])) continue;
    if (draw < projects[i].demand) return i;
    draw -= projects[i].demand;
  }
  return projects.size();  // never: the parts add up
}

}  // namespace

std::vector<TraceNode> thinned(const std::vector<TraceNode>& nodes, std::size_t every) {
  std::vector<TraceNode> some;
  for (std::size_t i = 0; i < nodes.size(); i += every) some.push_back(nodes[i]);
  return some;
}

std::int64_t gpu_milli(const std::vector<TraceNode>& nodes) {
  std::int64_t sum = 0;
  for (const TraceNode& n : nodes) sum += std::int64_t{n.gpus} * 1000;
  return sum;
}

std::vector<ReplayProject> replay_projects(std::size_t count, std::int64_t capacity_milli) {
  std::vector<ReplayProject> projects;
  const auto parts_up_to = [](std::size_t i) { return static_cast<std::int64_t>(i + (i + 1) / 2); };
  std::int64_t given = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t upto = capacity_milli * parts_up_to(i + 1) / parts_up_to(count);
    projects.push_back({(i < 10 ? "project-0" : "project-") + std::to_string(i), upto - given, 1 + i % 5});
    given = upto;
  }
  return projects;
}

ReplayWorkload replay_workload(const std::vector<TracePod>& pods, const std::vector<ReplayProject>& projects,
                               std::int64_t from, std::int64_t load, Preemptible preemptible) {
  ReplayWorkload made;
  for (const TracePod& pod : pods) {
    if (!pod.created || !pod.deleted)
      throw std::runtime_error("pod " + pod.name + " has no creation_time or no deletion_time");
    if (!pod.scheduled) {
      ++made.never_ran;
      continue;
    }
    if (*pod.deleted < *pod.scheduled)
      throw std::runtime_error("pod " + pod.name + " is deleted before it is scheduled");
    if (*pod.deleted <= from) {
      ++made.before;
      continue;
    }
    made.window = std::max(made.window, *pod.deleted - from);
    const bool may = preemptible == Preemptible::kAll || (pod.qos != "LS" && pod.qos != "Guaranteed");
    const bool running = *pod.created < from;
    for (std::int64_t copy = 0; copy < load; ++copy) {
      const std::string name = pod.name + "-" + std::to_string(copy);
      made.jobs.push_back({name, project_for(pod, name, projects), pod, running ? 0 : *pod.created - from,
                           std::max<std::int64_t>(*pod.deleted - (running ? from : *pod.scheduled), 1), may});
    }
  }
  std::ranges::stable_sort(made.jobs, {}, &ReplayJob::arrives);
  return made;
}

}  // namespace muster::bench
