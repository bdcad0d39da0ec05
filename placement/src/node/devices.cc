#include "node/devices.h"

#include <algorithm>

#include "node/links.h"
#include "node/node.h"
#include "node/numa.h"
#include "node/sharing.h"
#include "node/wide.h"

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
      use.by_memory = true;
      use.memory = role.share.memory;
      if (node.gpu_memory.value > 0) {
        const Wide milli = (static_cast<Wide>(use.memory.value) * kMilliPerGpu + node.gpu_memory.value - 1) /
                           node.gpu_memory.value;
        use.milli = static_cast<std::int32_t>(std::min<Wide>(milli, kMilliPerGpu));
      }
      break;
    case GpuShare::Kind::kMig: {
      const MigProfile profile = mig_profile(role.share.profile).value_or(MigProfile{});
      use.milli = static_cast<std::int32_t>(mig_milli(profile));
      use.compute = static_cast<std::int8_t>(profile.compute);
      use.slices = static_cast<std::int8_t>(mig_memory_slices(profile, node.gpu_memory));
      use.memory = {};
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

namespace {

bool by_slices(const RoleSpec& role) {
  return role.share.kind == GpuShare::Kind::kMig;
}

template <class Fn>
void for_each_healthy(const NodeSpec& node, Fn&& fn) {
  auto sick = node.unhealthy.begin();
  for (std::int32_t i = 0; i < node.gpus; ++i) {
    while (sick != node.unhealthy.end() && *sick < i) ++sick;
    if (sick == node.unhealthy.end() || *sick != i) fn(i);
  }
}

const Gpu& gpu_of(const Node& node, std::int32_t index) {
  static const Gpu kNobody;
  return static_cast<std::size_t>(index) < node.gpus.size() ? node.gpus[static_cast<std::size_t>(index)]
                                                            : kNobody;
}

// Nobody leaves and nothing is nominated: all views are the same.
bool settled(const Node& node) {
  return node.leaving.pods == 0 && node.nominated.pods == 0;
}

// Negative where more are held than there are.
std::int64_t idle_balance(const Node& node, View view) {
  if (view == View::kTarget || settled(node)) return node.free_gpus();
  std::int64_t idle = -std::int64_t{node.unnamed(view)};
  for_each_healthy(node.spec, [&](std::int32_t i) { idle += gpu_of(node, i).idle(view) ? 1 : 0; });
  return idle;
}
}  // namespace

std::int64_t idle_gpus(const Node& node, View view) {
  return std::max<std::int64_t>(0, idle_balance(node, view));
}

namespace {

// A GPU that can take at least one pod of the role.
struct Taker {
  std::int32_t index = 0;
  std::int32_t zone = -1;
  std::int32_t milli = 0;  // in use
  std::int64_t room = 0;   // for so many; of slices, each counts
  bool idle = true;
};

// `most` pods are to be counted at most. GPUs that somebody holds of whom only the number is known could be
// any: as many idle ones are left out, the last.
std::vector<Taker> takers(const Node& node, const PoolSpec& pool, const RoleSpec& role, View view,
                          std::int64_t most) {
  const GpuUse use = use_on(node.spec, role);
  const GpuLimits limits = limits_of(node.spec, pool);
  if (by_slices(role)) most = most > kMaxGpusPerNode ? most : most * role.gpus;
  std::vector<Taker> list;
  for_each_healthy(node.spec, [&](std::int32_t i) {
    const GpuLoad load = load_of(gpu_of(node, i), view);
    const std::int64_t room = room_beside(load, use, limits, most);
    if (room > 0) list.push_back({i, zone_at(node.spec, i), load.milli, room, load.clients == 0});
  });
  for (std::int32_t k = node.unnamed(view); k > 0; --k) {
    const auto last = std::find_if(list.rbegin(), list.rend(), [](const Taker& t) { return t.idle; });
    if (last == list.rend()) break;
    list.erase(std::next(last).base());
  }
  return list;
}

// How many pods find `gpus` distinct takers each: `pods` do if the GPUs' rooms, each counted up to `pods`,
// suffice.
std::int64_t pods_on(const std::vector<Taker>& list, const RoleSpec& role, std::int64_t most) {
  std::int64_t sum = 0;
  for (const Taker& t : list) sum += t.room;
  std::int64_t pods = std::min(most, sum / role.gpus);
  if (by_slices(role) || role.gpus == 1) return pods;
  const auto suffices = [&](std::int64_t n) {
    std::int64_t places = 0;
    for (const Taker& t : list) places += std::min(t.room, n);
    return places >= n * role.gpus;
  };
  while (pods > 0 && !suffices(pods)) --pods;
  return pods;
}

// The same for one GPU a pod, without a list.
std::int64_t room_of_single(const Node& node, const PoolSpec& pool, const RoleSpec& role, View view,
                            std::int64_t most) {
  const GpuUse use = use_on(node.spec, role);
  const GpuLimits limits = limits_of(node.spec, pool);
  std::int64_t room = 0;
  for_each_healthy(node.spec, [&](std::int32_t i) {
    if (room < most) room += room_beside(load_of(gpu_of(node, i), view), use, limits, most - room);
  });
  return room;
}

std::vector<Taker> in_zone(const std::vector<Taker>& list, std::int32_t zone) {
  std::vector<Taker> part;
  std::copy_if(list.begin(), list.end(), std::back_inserter(part),
               [&](const Taker& t) { return t.zone == zone; });
  return part;
}

// In which zones a pod of the role finds all it needs, by zone.
std::vector<bool> zones_that_fit(const Node& node, const std::vector<Taker>& list, const RoleSpec& role,
                                 View view) {
  std::vector<bool> fits(static_cast<std::size_t>(zones_of(node.spec)));
  for (std::size_t z = 0; z < fits.size(); ++z) {
    const auto zone = static_cast<std::int32_t>(z);
    fits[z] = room_in_zone(node, zone, role, view) > 0 && pods_on(in_zone(list, zone), role, 1) > 0;
  }
  return fits;
}

std::int64_t room_aligned(const Node& node, const std::vector<Taker>& list, const RoleSpec& role, View view,
                          std::int64_t most) {
  std::int64_t room = 0;
  for (std::int32_t zone = 0; zone < zones_of(node.spec) && room < most; ++zone) {
    const std::int64_t beside = std::min(most, room_in_zone(node, zone, role, view));
    room += pods_on(in_zone(list, zone), role, beside);
  }
  return std::min(room, most);
}

bool zones_matter(const Node& node) {
  return !node.spec.gpu_numa.empty();
}

}  // namespace

bool gpus_would_do(const NodeSpec& node, const RoleSpec& role) {
  if (role.gpus == 0) return true;
  if (role.numa_aligned && !node.unaligned.empty()) return false;
  if (by_slices(role)) {
    if (cut_slices(node, role.share.profile) >= role.gpus && !role.numa_aligned) return true;
    if (use_on(node, role).slices > kMigMemorySlices) return false;
  }
  if (role.share.kind == GpuShare::Kind::kMemory && role.share.memory > node.gpu_memory) return false;
  // Several slices may come from one GPU; nobody says how many without a look at them.
  const auto enough = [&](std::int64_t gpus) {
    return by_slices(role) ? gpus * kMigComputeSlices >= role.gpus : gpus >= role.gpus;
  };
  if (!must_align(node, role)) return enough(node.gpus - static_cast<std::int32_t>(node.unhealthy.size()));
  for (std::int32_t zone = 0; zone < zones_of(node); ++zone) {
    std::int64_t gpus = 0;
    for_each_healthy(node, [&](std::int32_t i) { gpus += zone_at(node, i) == zone ? 1 : 0; });
    if (enough(gpus) && zone_would_do(node, zone, role)) return true;
  }
  return false;
}

bool gives_such(const NodeSpec& node, const PoolSpec& pool, const RoleSpec& role) {
  return shared_as_asked(pool, role) ||
         (by_slices(role) && cut_slices(node, role.share.profile) >= role.gpus);
}

std::int64_t room_on_gpus(const Node& node, const PoolSpec& pool, const RoleSpec& role, View view,
                          std::int64_t most) {
  if (role.gpus == 0) return most;
  if (!gpus_would_do(node.spec, role)) return 0;
  const bool aligned = must_align(node.spec, role);
  if (role.share.kind == GpuShare::Kind::kWhole && !aligned)
    return std::min(most, idle_gpus(node, view) / role.gpus);
  std::int64_t cut = 0;
  if (by_slices(role) && !role.numa_aligned)
    cut = std::min(most, free_cut_slices(node, role.share.profile, view) / role.gpus);
  if (cut == most || !shared_as_asked(pool, role)) return cut;
  if (role.gpus == 1 && !aligned && node.unnamed(view) == 0)
    return cut + room_of_single(node, pool, role, view, most - cut);
  const auto list = takers(node, pool, role, view, most);
  if (aligned) return room_aligned(node, list, role, view, most);
  return cut + pods_on(list, role, most - cut);
}

MilliGpu left_for(const Node& node, const PoolSpec& pool, const RoleSpec& role, View view) {
  if (role.gpus == 0 || !gpus_would_do(node.spec, role)) return {};
  if (role.share.kind == GpuShare::Kind::kWhole) return {idle_gpus(node, view) * kMilliPerGpu};
  MilliGpu left;
  GpuUse use = use_on(node.spec, role);
  const GpuLimits limits = limits_of(node.spec, pool);
  if (by_slices(role)) left.value = free_cut_slices(node, role.share.profile, view) * use.milli;
  if (!shared_as_asked(pool, role)) return left;
  use.milli = 1, use.memory = {1};
  if (by_slices(role)) use.compute = use.slices = 1;
  for_each_healthy(node.spec, [&](std::int32_t i) {
    const GpuLoad load = load_of(gpu_of(node, i), view);
    if (room_beside(load, use, limits, 1) == 0) return;
    const bool overcommit = use.overcommit && load.opted_in && use.by_memory;
    const std::int64_t has = overcommit ? limits.overcommit_milli : kMilliPerGpu;
    left.value += std::max<std::int64_t>(0, has - load.milli);
  });
  return left;
}

MilliGpu spare_gpu(const Node& node, const PoolSpec& pool) {
  const auto gpus = std::max<std::int64_t>(0, node.spec.gpus - node.unhealthy);
  const std::int64_t each = std::max<std::int64_t>(kMilliPerGpu, pool.memory_overcommit_milli);
  MilliGpu most{gpus * each};
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    const Gpu& gpu = node.gpus[i];
    const bool good =
        node.healthy(static_cast<std::int32_t>(i)) && static_cast<std::int32_t>(i) < node.spec.gpus;
    // Only these are rounded up.
    const auto rounded = std::count_if(gpu.uses.begin(), gpu.uses.end(),
                                       [](const GpuUse& u) { return u.by_memory || u.compute > 0; });
    most.value += rounded;
    most.value += std::max<std::int64_t>(0, gpu.milli(View::kTarget) - (good ? each + rounded : 0));
  }
  if (pool.sharing.mode == SharingMode::kMig) most.value += gpus;
  for (const CutSlices& cut : node.cut) {
    const auto profile = mig_profile(cut.profile);
    // More may be in use than the node says it has cut: these come from no GPU that is counted here.
    if (profile) most.value += std::max(cut.count, cut.used) * mig_milli(*profile);
  }
  return std::max(MilliGpu{}, most - node.used.gpu);
}

bool fits_one_zone(const Node& node, const PoolSpec& pool, const RoleSpec& role, View view) {
  if (role.gpus == 0 || !zones_matter(node) || (by_slices(role) && !shared_as_asked(pool, role))) return true;
  if (role.gpus == 1 && node.spec.zones.empty()) return true;
  const auto fits = zones_that_fit(node, takers(node, pool, role, view, 1), role, view);
  return std::find(fits.begin(), fits.end(), true) != fits.end();
}

namespace {

// Puts first what is to be taken first.
void by_preference(std::vector<Taker>& list, const PoolSpec& pool, const RoleSpec& role) {
  if (role.share.kind == GpuShare::Kind::kWhole) return;
  const bool pack = pool.gpu_order == NodeOrder::kPack;
  std::stable_sort(list.begin(), list.end(), [&](const Taker& a, const Taker& b) {
    return pack ? a.milli > b.milli : a.milli < b.milli;
  });
}

// The first ones, but so that `pods` in all still find their GPUs: where no more places are left over, those
// GPUs have to be taken that each of these pods needs.
std::vector<std::int32_t> first_of(const std::vector<Taker>& list, const RoleSpec& role, std::int64_t pods) {
  std::vector<std::int32_t> gpus;
  const auto count = static_cast<std::size_t>(role.gpus);
  if (by_slices(role)) {
    for (const Taker& t : list) {
      for (std::int64_t k = 0; k < t.room && gpus.size() < count; ++k) gpus.push_back(t.index);
    }
    return gpus;
  }
  pods = pods_on(list, role, pods);
  std::int64_t spare = -pods * role.gpus, needed = 0;
  for (const Taker& t : list) spare += std::min(t.room, pods), needed += t.room >= pods ? 1 : 0;
  auto must = static_cast<std::size_t>(std::max<std::int64_t>(0, needed - spare));
  for (const bool second : {false, true}) {
    for (const Taker& t : list) {
      if (gpus.size() == count) break;
      if (std::find(gpus.begin(), gpus.end(), t.index) != gpus.end()) continue;
      const bool full = t.room >= pods;
      if (!second && !full && count - gpus.size() <= must) continue;
      gpus.push_back(t.index);
      if (full && must > 0) --must;
    }
  }
  return gpus;
}

// The zone to take all of a pod's GPUs from; -1: none can give them. A kubelet that aligns takes the lowest.
std::int32_t best_zone(const NodeSpec& node, const std::vector<Taker>& list, const std::vector<bool>& fits,
                       const RoleSpec& role) {
  if (role.share.kind == GpuShare::Kind::kWhole && node.numa_policy != NumaPolicy::kAny) {
    const auto lowest = std::find(fits.begin(), fits.end(), true);
    return lowest == fits.end() ? -1 : static_cast<std::int32_t>(lowest - fits.begin());
  }
  std::int32_t best = -1;
  std::int64_t best_idle = 0;
  for (const Taker& t : list) {
    if (t.zone < 0 || !fits[static_cast<std::size_t>(t.zone)]) continue;
    if (role.share.kind != GpuShare::Kind::kWhole) return t.zone;  // that of the most preferred GPU
    const auto idle =
        std::count_if(list.begin(), list.end(), [&](const Taker& o) { return o.zone == t.zone; });
    if (best < 0 || idle < best_idle || (idle == best_idle && t.zone < best)) best = t.zone, best_idle = idle;
  }
  return best;
}

std::vector<std::int32_t> by_links(const Node& node, const std::vector<Taker>& list, const RoleSpec& role,
                                   std::vector<bool> fits, JobId job) {
  std::vector<std::int32_t> idle, own;
  for (const Taker& t : list) idle.push_back(t.index);
  for (std::int32_t i = 0; i < node.spec.gpus && job != kNoId; ++i) {
    const auto& uses = gpu_of(node, i).uses;
    if (std::any_of(uses.begin(), uses.end(),
                    [&](const GpuUse& u) { return u.holder == job && u.hold != Hold::kLeaving; }))
      own.push_back(i);
  }
  return best_connected({node.spec, idle, own, std::move(fits), role.gpus});
}

}  // namespace

std::optional<std::vector<std::int32_t>> choose_devices(const Node& node, const PoolSpec& pool,
                                                        const RoleSpec& role, View view,
                                                        const Chooser& chooser) {
  std::vector<std::int32_t> gpus;
  if (role.gpus == 0) return gpus;
  if (room_on_gpus(node, pool, role, view, 1) == 0) return std::nullopt;
  if (by_slices(role) && !role.numa_aligned && free_cut_slices(node, role.share.profile, view) >= role.gpus)
    return gpus;
  std::vector<Taker> list = takers(node, pool, role, view, std::max<std::int64_t>(1, chooser.pods));
  by_preference(list, pool, role);
  std::vector<bool> fits;
  std::int32_t zone = -1;
  if (zones_matter(node)) {
    fits = zones_that_fit(node, list, role, view);
    zone = best_zone(node.spec, list, fits, role);
  }
  const bool linked = node.linked && role.share.kind == GpuShare::Kind::kWhole;
  // Where links differ they come first, and NUMA decides between equal sets, unless the pod demands it.
  if (zone >= 0 && (!linked || must_align(node.spec, role))) list = in_zone(list, zone);
  gpus = linked ? by_links(node, list, role, fits, chooser.job) : first_of(list, role, chooser.pods);
  std::sort(gpus.begin(), gpus.end());
  return gpus;
}

bool devices_available(const Node& node, const PoolSpec& pool, const Allocation& allocation, View view) {
  if (allocation.cut >= 0)
    return node.cut[static_cast<std::size_t>(allocation.cut)].free(view) >= allocation.slices;
  const GpuLimits limits = limits_of(node.spec, pool);
  for (std::size_t i = 0; i < allocation.gpus.size(); ++i) {
    const std::int32_t gpu = allocation.gpus[i];
    if (gpu >= node.spec.gpus || !node.healthy(gpu)) return false;
    const auto before =
        std::count(allocation.gpus.begin(), allocation.gpus.begin() + static_cast<std::ptrdiff_t>(i), gpu);
    if (room_beside(load_of(gpu_of(node, gpu), view), allocation.use, limits, before + 1) <= before)
      return false;
  }
  if (allocation.gpus.empty() || node.unnamed(view) == 0) return true;
  // Some are held by pods of which only the number is known: enough must be left beside these.
  std::int64_t taken = 0;
  for_each_healthy(node.spec, [&](std::int32_t gpu) {
    const bool asked =
        std::find(allocation.gpus.begin(), allocation.gpus.end(), gpu) != allocation.gpus.end();
    taken += asked && gpu_of(node, gpu).idle(view) ? 1 : 0;
  });
  return idle_balance(node, view) >= taken;
}

}  // namespace muster::placement
