#include "muster/reconcilers/projects/gpu_endpoints.h"

#include <algorithm>
#include <map>

namespace muster::reconcilers {
namespace {

bool has_gpus(const client::Node& node, const std::string& resource) {
  return std::ranges::any_of(node.extended,
                             [&](const auto& e) { return e.first == resource && e.second > 0; });
}

// The addresses of the DaemonSet's pods, by node. Kubernetes names them "<name>-" and five characters.
std::map<std::string, std::string> addresses_of(const crds::DaemonSetName& set, const Caches& caches) {
  constexpr std::size_t kSuffix = 5;
  const client::Key prefix = client::make_key(set.ns, set.name + "-");
  std::map<std::string, std::string> found;
  const auto& pods = caches.pods.store().all();
  for (auto it = pods.lower_bound(prefix); it != pods.end() && it->first.starts_with(prefix); ++it) {
    const client::Pod& pod = *it->second;
    const bool is_of_it = it->first.size() == prefix.size() + kSuffix && it->first.rfind('-') < prefix.size();
    if (is_of_it && pod.phase == client::PodPhase::kRunning && !pod.deleting && !pod.ip.empty())
      found.emplace(pod.node_name, pod.ip);
  }
  return found;
}

}  // namespace

std::vector<GpuEndpoint> gpu_endpoints(const crds::NodePool& pool, const Caches& caches) {
  std::vector<GpuEndpoint> all;
  if (!pool.spec.gpu_metrics) return all;
  const auto& where = *pool.spec.gpu_metrics;
  std::map<std::string, std::string> exporters;
  if (where.daemon_set) exporters = addresses_of(*where.daemon_set, caches);
  for (const auto& [name, node] : caches.nodes.store().all()) {
    if (!has_gpus(*node, pool.spec.gpu_resource)) continue;
    crds::StringMap labels;
    for (const auto& [key, value] : node->labels) labels.emplace(key, value);
    if (!crds::matches(pool.spec.node_selector, labels)) continue;
    const std::string& address = where.daemon_set ? exporters[name] : node->address;
    all.push_back({name, metrics_url(address, where.port, where.path)});
  }
  return all;
}

std::optional<client::Duration> follow_gpus(const client::Key& key, const Caches& caches,
                                            GpuMonitor& monitor) {
  const auto pool = caches.node_pools.store().find(key);
  if (!pool || !pool->value.spec.gpu_metrics) {
    monitor.forget_pool(key);
    return std::nullopt;
  }
  return monitor.look(key, *pool->value.spec.gpu_metrics, [&] { return gpu_endpoints(pool->value, caches); });
}

}  // namespace muster::reconcilers
