// Who holds how many GPUs, for how long, and how many there are.
#include <algorithm>

#include "world/world.h"

namespace muster::simulate {

// Sums up to the next instant, with what is held now.
void World::account(pl::Time until) {
  if (until <= now) return;
  if (capacity_stale_) {
    capacity_milli_ = 0;
    for (const std::string& pool : cluster.pool_names())
      capacity_milli_ += cluster.pool_usage(pool).capacity.gpu.value;
    capacity_stale_ = false;
  }
  const std::int64_t seconds = (until - now).ms / 1000;
  metrics.capacity += (capacity_milli_ + stranded()) * seconds;
  metrics.allocated += allocated_milli_ * seconds;
  now = until;
}

// Which of the node's GPUs its pool counts.
void World::count_capacity(const pl::NodeSpec& node) {
  capacity_stale_ = true;
  const bool counts = node.usable && pools_of(node).size() == 1;
  const auto before = not_all_count_.find(node.name);
  // What has lost GPUs may have charges on them still.
  const auto charged = charged_.find(node.name);
  const bool beyond =
      charged != charged_.end() && !charged->second.empty() && charged->second.rbegin()->first >= node.gpus;
  const bool none_to_count = node.gpus == 0 && node.mig.empty();
  const bool all_count = counts && node.unhealthy.empty() && node.mig.empty();
  if (!beyond && (none_to_count || all_count)) {
    if (before != not_all_count_.end()) not_all_count_.erase(before);
  } else {
    not_all_count_[node.name] = {counts ? node.gpus : 0, node.unhealthy, counts && !node.mig.empty()};
  }
}

// What is charged on GPUs that no pool counts: of nodes that have failed, are cordoned or of no pool. It is
// there as long as somebody has it.
std::int64_t World::stranded() const {
  std::int64_t sum = 0;
  for (const auto& [node, counted] : not_all_count_) {
    const auto charged = charged_.find(node);
    if (charged == charged_.end()) continue;
    for (const auto& [gpu, milli] : charged->second) {
      const bool counts =
          gpu < 0 ? counted.slices
                  : gpu < counted.first && std::ranges::find(counted.without, gpu) == counted.without.end();
      if (!counts) sum += milli;
    }
  }
  return sum;
}

// What was charged is given back as it was charged: the node, or what the workload asks for, may be another
// by now.
void World::charge(Gang& g) {
  for (const Charge& c : g.charged) {
    allocated_milli_ -= c.milli;
    const auto gpu = c.of_node->find(c.gpu);
    gpu->second -= c.milli;
    if (gpu->second == 0) c.of_node->erase(gpu);
  }
  g.charged.clear();
  const auto add = [&](const pl::PodPlace& p, std::int64_t left) {
    if (left == 0) return;
    auto& of_node = charged_[p.node];
    if (p.gpus.empty()) g.charged.push_back({&of_node, -1, left});
    for (std::size_t i = 0; i < p.gpus.size(); ++i) {
      const std::int64_t part = left / static_cast<std::int64_t>(p.gpus.size() - i);
      g.charged.push_back({&of_node, p.gpus[i], part});
      left -= part;
    }
  };
  for (const pl::PodPlace& p : g.assignment.pods)
    add(p, milli_gpu(g.spec->roles[static_cast<std::size_t>(p.role)], p.node));
  for (const GangPod& p : g.pods) {
    if (p.is_beside) add(p.place, p.milli_gpu);
  }
  for (const Charge& c : g.charged) {
    allocated_milli_ += c.milli;
    (*c.of_node)[c.gpu] += c.milli;
  }
}

}  // namespace muster::simulate
