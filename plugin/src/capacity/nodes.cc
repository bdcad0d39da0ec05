#include "capacity/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "muster/crds/gpu_labels.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/names.h"
#include "output/text.h"

namespace muster::plugin {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::int64_t kMaxGpus = 1024;  // of a node

std::int64_t gpus_in(const client::Extended& amounts, const std::set<std::string>& resources) {
  std::int64_t gpus = 0;
  for (const auto& [name, amount] : amounts) {
    if (resources.contains(name)) gpus += std::clamp<std::int64_t>(amount, 0, kMaxGpus);
  }
  return std::min(gpus, kMaxGpus);
}

void fail_gpus(NodeUse& node, const std::vector<std::int32_t>& gpus) {
  for (const std::int32_t gpu : gpus) {
    if (gpu >= 0 && gpu < std::ssize(node.gpus)) node.failing.insert(gpu);
  }
}

std::string state_of(const client::Node& node) {
  if (!node.ready) return "NotReady";
  return node.unschedulable ? "Cordoned" : "Ready";
}

Colour colour_of(const std::string& state) {
  if (state == "Ready" || state.empty()) return Colour::kNone;
  return state == "Cordoned" ? Colour::kYellow : Colour::kRed;
}

// The GPUs of each job, by its name.
std::map<std::string, std::int64_t> holders(const std::vector<NodeUse>& uses) {
  std::map<std::string, std::int64_t> count;
  for (const auto& node : uses) {
    for (const auto& gpu : node.gpus) {
      for (const auto& job : gpu) ++count[job];
    }
  }
  return count;
}

bool is_gone(const client::Pod& pod) {
  return pod.phase == client::PodPhase::kSucceeded || pod.phase == client::PodPhase::kFailed;
}

// Where each GPU is counted, one character each.
std::string cells_of(const NodeUse& node, const std::map<std::string, char>& letters) {
  std::string cells;
  std::int64_t others = node.others;
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    const auto& jobs = node.gpus[i];
    if (node.failing.contains(static_cast<std::int32_t>(i)))
      cells += '!';
    else if (!jobs.empty())
      cells += jobs.size() > 1 ? '*' : letters.at(jobs.front());
    else
      cells += others-- > 0 ? '+' : node.is_known_whole ? '.' : '_';
  }
  return cells;
}

// Each job's places, on the nodes that are known.
void place_jobs(std::map<std::string, NodeUse>& by_name, const std::vector<crds::TrainingJob>& jobs) {
  for (const auto& job : jobs) {
    for (const auto& pod : job.status.assignment.pods) {
      const auto node = by_name.find(pod.node);
      if (node == by_name.end()) continue;
      for (const std::int32_t gpu : pod.gpus) {
        if (gpu < 0 || gpu >= std::ssize(node->second.gpus)) continue;
        auto& has = node->second.gpus[static_cast<std::size_t>(gpu)];
        const std::string name = name_of(job.metadata);
        if (std::ranges::find(has, name) == has.end()) has.push_back(name);
        if (crds::is_true(job.status.conditions, "Idle")) node->second.idle.insert(name);
      }
    }
  }
}

std::vector<NodeUse> in_order(std::map<std::string, NodeUse> by_name) {
  std::vector<NodeUse> uses;
  for (auto& [name, use] : by_name) uses.push_back(std::move(use));
  return uses;
}

std::string model_of(const client::Node& node, const std::vector<crds::NodePool>& pools) {
  crds::StringMap labels;
  for (const auto& [key, value] : node.labels) labels.emplace(key.str(), value);
  const auto value = [&](const std::string& label) { return client::find_value(node.labels, label); };
  return crds::gpus_of_node(crds::gpu_labels_of(pools, labels), value).model;
}

std::string counted(char cell, const char* what, std::int64_t count) {
  return count == 0 ? "" : fmt::format("{}  {} ({})\n", cell, what, count);
}

}  // namespace

std::vector<NodeUse> node_uses(const std::vector<client::Node>& nodes,
                               const std::vector<crds::TrainingJob>& jobs,
                               const std::vector<crds::NodePool>& pools,
                               const std::vector<client::Pod>& others) {
  std::set<std::string> gpu_resources;
  for (const auto& pool : pools) gpu_resources.insert(pool.spec.gpu_resource);
  std::map<std::string, NodeUse> by_name;
  for (const auto& n : nodes) {
    const auto gpus = static_cast<std::size_t>(gpus_in(n.extended, gpu_resources));
    if (gpus == 0) continue;
    NodeUse& use = by_name[n.meta.name];
    use = {n.meta.name, state_of(n), model_of(n, pools), std::vector<std::vector<std::string>>(gpus)};
    const std::string* unhealthy = client::find_value(n.annotations, reconcilers::kGpuUnhealthyAnnotation);
    if (unhealthy != nullptr) fail_gpus(use, reconcilers::parse_gpu_list(*unhealthy));
  }
  for (const auto& pool : pools) {
    for (const auto& failing : pool.status.failing_gpus) {
      if (const auto node = by_name.find(failing.node); node != by_name.end())
        fail_gpus(node->second, failing.gpus);
    }
  }
  for (const auto& pod : others) {
    if (const auto node = by_name.find(pod.node_name); node != by_name.end() && !is_gone(pod))
      node->second.others += gpus_in(pod.extended, gpu_resources);
  }
  place_jobs(by_name, jobs);
  return in_order(std::move(by_name));
}

std::vector<NodeUse> node_uses_of(const std::vector<crds::TrainingJob>& jobs) {
  std::map<std::string, NodeUse> by_name;
  for (const auto& job : jobs) {
    for (const auto& pod : job.status.assignment.pods) {
      if (pod.gpus.empty()) continue;
      NodeUse& use = by_name[pod.node];
      use.name = pod.node;
      use.is_known_whole = false;
      const auto last = std::clamp<std::int64_t>(std::ranges::max(pod.gpus), 0, kMaxGpus - 1);
      use.gpus.resize(std::max(use.gpus.size(), static_cast<std::size_t>(last) + 1));
    }
  }
  place_jobs(by_name, jobs);
  return in_order(std::move(by_name));
}

Listing nodes(const std::vector<NodeUse>& uses) {
  Listing listing;
  listing.columns = {{"NODE", "node"},
                     {"STATE", "state"},
                     {"GPUS", "gpus"},
                     {"FREE", "free", Shown::kWideAndData},
                     {"IDLE", "idle", Shown::kWideAndData},
                     {"OTHERS", "others", Shown::kWideAndData},
                     {"FAILING", "failing", Shown::kWideAndData},
                     {"MODEL", "model", Shown::kWideAndData}};
  std::set<std::string> idle_jobs;
  for (const auto& node : uses) idle_jobs.insert(node.idle.begin(), node.idle.end());
  std::map<std::string, char> letters;
  for (const auto& [job, gpus] : holders(uses)) {
    const char letter = letters.size() < kLetters.size() ? kLetters[letters.size()] : '?';
    letters[job] = letter;
    listing.footer +=
        fmt::format("{}  {} ({}{})\n", letter, job, gpus, idle_jobs.contains(job) ? ", idle" : "");
  }
  std::int64_t others = 0, failing = 0;
  for (const auto& node : uses) {
    const std::string cells = cells_of(node, letters);
    others += node.others;
    failing += std::ssize(node.failing);
    const auto idle = std::ranges::count_if(node.gpus, [&](const auto& gpu) {
      return !gpu.empty() &&
             std::ranges::all_of(gpu, [&](const auto& job) { return node.idle.contains(job); });
    });
    listing.rows.push_back({{cell(node.name),
                             cell(node.state),
                             {cells, node.gpus},
                             cell(std::int64_t{std::ranges::count(cells, '.')}),
                             cell(std::int64_t{idle}),
                             cell(node.others),
                             {fmt::format("{}", fmt::join(node.failing, ",")), node.failing},
                             cell(node.model)},
                            colour_of(node.state)});
  }
  listing.footer += counted('+', "pods that are not Muster's", others) + counted('!', "failing", failing);
  return listing;
}

}  // namespace muster::plugin
