#include "node/numa.h"

#include <algorithm>
#include <array>
#include <limits>

namespace muster::placement {
namespace {

constexpr std::int32_t kMaxZones = 64;  // a number beyond is not believed

std::int64_t pods_in(MilliCpu cpu, Bytes memory, const RoleSpec& role) {
  std::int64_t pods = std::numeric_limits<std::int64_t>::max();
  const auto bound = [&](std::int64_t have, std::int64_t each) {
    if (each > 0) pods = std::min(pods, std::max<std::int64_t>(0, have) / each);
  };
  bound(cpu.value, role.per_pod.cpu.value);
  bound(memory.value, role.per_pod.memory.value);
  return pods;
}

// Kubelets give CPUs of one zone to pods that are made for it; whoever does not ask takes them from all.
bool counts_cpus(const NodeSpec& node, const RoleSpec& role) {
  return !node.zones.empty() && (role.numa_aligned || node.numa_policy == NumaPolicy::kAny);
}

}  // namespace

bool must_align(const NodeSpec& node, const RoleSpec& role) {
  if (role.numa_aligned) return true;
  if (role.gpus <= 1 || role.share.kind != GpuShare::Kind::kWhole || node.gpu_numa.empty()) return false;
  return node.numa_policy == NumaPolicy::kSingle ||
         (node.numa_policy == NumaPolicy::kRestricted && role.gpus <= largest_zone(node));
}

std::int32_t zone_at(const NodeSpec& node, std::int32_t gpu) {
  if (gpu < 0 || static_cast<std::size_t>(gpu) >= node.gpu_numa.size()) return -1;
  const std::int32_t zone = node.gpu_numa[static_cast<std::size_t>(gpu)];
  return zone >= 0 && zone < kMaxZones ? zone : -1;
}

std::int32_t zone_of(const NodeSpec& node, const std::vector<std::int32_t>& gpus) {
  if (gpus.empty()) return -1;
  const std::int32_t zone = zone_at(node, gpus.front());
  const bool one =
      std::all_of(gpus.begin(), gpus.end(), [&](std::int32_t gpu) { return zone_at(node, gpu) == zone; });
  return one ? zone : -1;
}

std::int32_t zones_of(const NodeSpec& node) {
  std::int32_t count = static_cast<std::int32_t>(std::min<std::size_t>(node.zones.size(), kMaxZones));
  for (std::size_t i = 0; i < node.gpu_numa.size(); ++i)
    count = std::max(count, zone_at(node, static_cast<std::int32_t>(i)) + 1);
  return count;
}

std::int32_t largest_zone(const NodeSpec& node) {
  std::array<std::int32_t, kMaxZones> gpus = {};
  for (std::size_t i = 0; i < node.gpu_numa.size(); ++i) {
    if (const std::int32_t zone = zone_at(node, static_cast<std::int32_t>(i)); zone >= 0)
      ++gpus[static_cast<std::size_t>(zone)];
  }
  return *std::max_element(gpus.begin(), gpus.end());
}

std::int64_t room_in_zone(const Node& node, std::int32_t zone, const RoleSpec& role, View view) {
  if (!counts_cpus(node.spec, role)) return std::numeric_limits<std::int64_t>::max();
  const auto z = static_cast<std::size_t>(zone);
  if (zone < 0 || z >= node.spec.zones.size()) return 0;
  const NumaZone& has = node.spec.zones[z];
  const Held held = z < node.zones.size() ? node.zones[z] : Held{};
  const Resources left = free_of({MilliGpu{}, has.cpu, has.memory, 0}, held, view);
  const Resources all = node.free(view);
  return pods_in(std::min(left.cpu, all.cpu), std::min(left.memory, all.memory), role);
}

bool zone_would_do(const NodeSpec& node, std::int32_t zone, const RoleSpec& role) {
  if (!counts_cpus(node, role)) return true;
  const auto z = static_cast<std::size_t>(zone);
  return zone >= 0 && z < node.zones.size() && pods_in(node.zones[z].cpu, node.zones[z].memory, role) > 0;
}

}  // namespace muster::placement
