#include "nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "muster/common/table.h"

namespace muster::plugin {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::int64_t kMostGpus = 1024;  // of a node

std::int64_t gpus_of(const client::Node& node, const std::set<std::string>& resources) {
  std::int64_t gpus = 0;
  for (const auto& [name, amount] : node.extended) {
    if (resources.contains(name)) gpus += amount;
  }
  return std::clamp<std::int64_t>(gpus, 0, kMostGpus);
}

std::string state_of(const client::Node& node) {
  if (!node.ready) return "NotReady";
  return node.unschedulable ? "Cordoned" : "Ready";
}

// One letter for each job that has GPUs, in the order of their names. Where there are more jobs than letters,
// the last have '?'.
class Letters {
 public:
  char of(const std::string& job) {
    const auto [at, fresh] = letters_.try_emplace(job, '?');
    if (fresh && letters_.size() <= kLetters.size()) at->second = kLetters[letters_.size() - 1];
    return at->second;
  }

 private:
  std::map<std::string, char> letters_;
};

}  // namespace

std::string nodes(const std::vector<client::Node>& nodes, const std::vector<crds::TrainingJob>& jobs,
                  const std::set<std::string>& gpu_resources) {
  std::map<std::string, std::string> cells, states;
  for (const auto& n : nodes) {
    const std::int64_t gpus = gpus_of(n, gpu_resources);
    if (gpus == 0) continue;
    cells[n.meta.name] = std::string(static_cast<std::size_t>(gpus), '.');
    states[n.meta.name] = state_of(n);
  }
  if (cells.empty()) return {};
  std::map<std::string, const crds::TrainingJob*> by_name;
  for (const auto& j : jobs) by_name.emplace(j.metadata.ns + "/" + j.metadata.name, &j);
  Letters letters;
  std::string legend;
  for (const auto& [name, job] : by_name) {
    std::set<std::pair<std::string, std::int32_t>> held;
    for (const auto& pod : job->status.assignment.pods) {
      for (const std::int32_t gpu : pod.gpus) held.emplace(pod.node, gpu);
    }
    if (held.empty()) continue;
    const char letter = letters.of(name);
    for (const auto& [node, gpu] : held) {
      const auto at = cells.find(node);
      if (at == cells.end() || gpu < 0 || gpu >= std::ssize(at->second)) continue;
      char& cell = at->second[static_cast<std::size_t>(gpu)];
      cell = cell == '.' ? letter : '*';
    }
    legend += fmt::format("{}  {} ({})\n", letter, name, held.size());
  }
  std::vector<std::vector<std::string>> rows = {{"NODE", "STATE", "GPUS"}};
  for (const auto& [node, gpus] : cells) rows.push_back({node, states.at(node), gpus});
  return table(rows) + (legend.empty() ? "" : "\n" + legend);
}

}  // namespace muster::plugin
