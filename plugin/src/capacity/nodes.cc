#include "capacity/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "output/text.h"

namespace muster::plugin {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::int64_t kMaxGpus = 1024;  // of a node

std::int64_t gpus_of(const client::Node& node, const std::set<std::string>& resources) {
  std::int64_t gpus = 0;
  for (const auto& [name, amount] : node.extended) {
    if (resources.contains(name)) gpus += amount;
  }
  return std::clamp<std::int64_t>(gpus, 0, kMaxGpus);
}

std::string state_of(const client::Node& node) {
  if (!node.ready) return "NotReady";
  return node.unschedulable ? "Cordoned" : "Ready";
}

Colour colour_of(const std::string& state) {
  if (state == "Ready") return Colour::kNone;
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

}  // namespace

std::vector<NodeUse> node_uses(const std::vector<client::Node>& nodes,
                               const std::vector<crds::TrainingJob>& jobs,
                               const std::set<std::string>& gpu_resources) {
  std::map<std::string, NodeUse> by_name;
  for (const auto& n : nodes) {
    const auto gpus = static_cast<std::size_t>(gpus_of(n, gpu_resources));
    if (gpus == 0) continue;
    const std::string* model = client::find_value(n.labels, "nvidia.com/gpu.product");
    by_name[n.meta.name] = {n.meta.name, state_of(n), model == nullptr ? "" : *model,
                            std::vector<std::vector<std::string>>(gpus)};
  }
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
  std::vector<NodeUse> uses;
  for (auto& [name, use] : by_name) uses.push_back(std::move(use));
  return uses;
}

Listing nodes(const std::vector<NodeUse>& uses) {
  Listing listing;
  listing.columns = {{"NODE", "node"},
                     {"STATE", "state"},
                     {"GPUS", "gpus"},
                     {"FREE", "free", Shown::kWideAndData},
                     {"IDLE", "idle", Shown::kWideAndData},
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
  for (const auto& node : uses) {
    std::string cells;
    for (const auto& gpu : node.gpus)
      cells += gpu.empty() ? '.' : gpu.size() > 1 ? '*' : letters.at(gpu.front());
    const auto idle = std::ranges::count_if(node.gpus, [&](const auto& gpu) {
      return !gpu.empty() &&
             std::ranges::all_of(gpu, [&](const auto& job) { return node.idle.contains(job); });
    });
    const auto free = std::ranges::count_if(node.gpus, [](const auto& gpu) { return gpu.empty(); });
    listing.rows.push_back({{cell(node.name),
                             cell(node.state),
                             {cells, node.gpus},
                             cell(std::int64_t{free}),
                             cell(std::int64_t{idle}),
                             cell(node.model)},
                            colour_of(node.state)});
  }
  return listing;
}

}  // namespace muster::plugin
