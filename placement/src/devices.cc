#include "devices.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "state.h"
#include "wide.h"

namespace muster::placement {

bool Gpu::idle(View view) const {
  return std::none_of(uses.begin(), uses.end(), [&](const GpuUse& u) { return counts(u.hold, view); });
}

std::int32_t Gpu::milli(View view) const {
  std::int32_t sum = 0;
  for (const GpuUse& u : uses) {
    if (counts(u.hold, view)) sum += u.milli;
  }
  return sum;
}

std::optional<MigProfile> mig_profile(const std::string& text) {
  MigProfile p;
  const char* const end = text.data() + text.size();
  const auto [g, no_compute] = std::from_chars(text.data(), end, p.compute);
  if (no_compute != std::errc() || end - g < 2 || g[0] != 'g' || g[1] != '.') return std::nullopt;
  const auto [b, no_memory] = std::from_chars(g + 2, end, p.gigabytes);
  if (no_memory != std::errc() || std::string_view(b, end).substr(0, 2) != "gb") return std::nullopt;
  const bool suffix = end - b == 2 || b[2] == '+' || b[2] == '.';  // "1g.10gb+me", "1g.5gb.me"
  if (!suffix || p.compute < 1 || p.compute > 7 || p.gigabytes < 1 || p.gigabytes > 4096) return std::nullopt;
  return p;
}

GpuUse use_on(const NodeSpec& node, const RoleSpec& role) {
  GpuUse use;
  use.milli = static_cast<std::int32_t>(kMilliPerGpu);
  use.memory = node.gpu_memory;
  switch (role.share.kind) {
    case GpuShare::Kind::kWhole:
      return use;
    case GpuShare::Kind::kFraction:
      use.milli = static_cast<std::int32_t>(role.share.milli.value);
      use.memory.value =
          static_cast<std::int64_t>(static_cast<Wide>(node.gpu_memory.value) * use.milli / kMilliPerGpu);
      break;
    case GpuShare::Kind::kMemory:
      use.memory = role.share.memory;
      if (node.gpu_memory.value > 0) {
        const Wide milli = (static_cast<Wide>(use.memory.value) * kMilliPerGpu + node.gpu_memory.value - 1) /
                           node.gpu_memory.value;
        use.milli = static_cast<std::int32_t>(std::min<Wide>(milli, kMilliPerGpu));
      }
      break;
    case GpuShare::Kind::kMig: {
      const MigProfile profile = mig_profile(role.share.profile).value_or(MigProfile{});
      use.milli = static_cast<std::int32_t>((profile.compute * kMilliPerGpu + 6) / 7);
      use.compute = static_cast<std::int8_t>(profile.compute);
      break;
    }
  }
  use.whole = false;
  use.overcommit = role.share.overcommit;
  return use;
}

MilliGpu charge_on(const NodeSpec& node, const RoleSpec& role) {
  return role.gpus == 0 ? MilliGpu{} : MilliGpu{use_on(node, role).milli * std::int64_t{role.gpus}};
}

bool gpus_would_do(const NodeSpec& node, const RoleSpec& role) {
  if (role.gpus == 0) return true;
  if (role.share.kind == GpuShare::Kind::kMemory && role.share.memory > node.gpu_memory) return false;
  return role.gpus <= node.gpus - static_cast<std::int32_t>(node.unhealthy.size());
}

namespace {

// The GPUs that can take one more such use, in the order of preference.
std::vector<std::int32_t> takers(const Node& node, const Pool& pool, const RoleSpec& role, View view) {
  const GpuUse use = use_on(node.spec, role);
  std::vector<std::pair<std::int32_t, std::int32_t>> list;  // in use, index
  for (std::int32_t i = 0; i < node.spec.gpus; ++i) {
    if (std::find(node.spec.unhealthy.begin(), node.spec.unhealthy.end(), i) != node.spec.unhealthy.end())
      continue;
    const bool known = static_cast<std::size_t>(i) < node.gpus.size();
    const Gpu none;
    const Gpu& gpu = known ? node.gpus[static_cast<std::size_t>(i)] : none;
    const std::int32_t used = gpu.milli(view);
    if (use.whole ? gpu.idle(view) : used + use.milli <= kMilliPerGpu) list.emplace_back(used, i);
  }
  if (!use.whole) {
    const bool pack = pool.spec.gpu_order == NodeOrder::kPack;
    std::stable_sort(list.begin(), list.end(), [&](const auto& a, const auto& b) {
      return pack ? a.first > b.first : a.first < b.first;
    });
  }
  std::vector<std::int32_t> gpus;
  for (const auto& [used, index] : list) gpus.push_back(index);
  return gpus;
}

}  // namespace

std::int64_t room_on_gpus(const Node& node, const Pool&, const RoleSpec& role, View view, std::int64_t most) {
  if (role.gpus == 0) return most;
  if (!gpus_would_do(node.spec, role)) return 0;
  const GpuUse use = use_on(node.spec, role);
  if (use.whole) {
    std::int64_t idle = node.spec.gpus - node.unhealthy - node.unnamed_gpus;
    for (const Gpu& gpu : node.gpus) idle -= gpu.idle(view) ? 0 : 1;
    return std::clamp<std::int64_t>(idle / role.gpus, 0, most);
  }
  std::int64_t slots = 0;
  for (std::int32_t i = 0; i < node.spec.gpus; ++i) {
    const bool known = static_cast<std::size_t>(i) < node.gpus.size();
    const std::int32_t used = known ? node.gpus[static_cast<std::size_t>(i)].milli(view) : 0;
    slots +=
        std::min<std::int64_t>(most, std::max<std::int64_t>(0, kMilliPerGpu - used) / std::max(1, use.milli));
  }
  return std::min(most, slots / role.gpus);
}

std::optional<DeviceChoice> choose_devices(const Node& node, const Pool& pool, const RoleSpec& role,
                                           View view) {
  DeviceChoice choice;
  if (role.gpus == 0) return choice;
  choice.gpus = takers(node, pool, role, view);
  if (static_cast<std::int32_t>(choice.gpus.size()) < role.gpus) return std::nullopt;
  choice.gpus.resize(static_cast<std::size_t>(role.gpus));
  std::sort(choice.gpus.begin(), choice.gpus.end());
  return choice;
}

}  // namespace muster::placement
