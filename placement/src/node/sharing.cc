#include "node/sharing.h"

#include <algorithm>

#include "node/wide.h"

namespace muster::placement {
namespace {

std::int32_t most_clients(const Sharing& sharing) {
  if (sharing.mode != SharingMode::kMps) return std::max(0, sharing.max_clients);
  return sharing.max_clients > 0 ? std::min(sharing.max_clients, kMpsClients) : kMpsClients;
}

}  // namespace

GpuLimits limits_of(const NodeSpec& node, const PoolSpec& pool) {
  return {node.gpu_memory, std::max<std::int64_t>(kMilliPerGpu, pool.memory_overcommit_milli),
          most_clients(pool.sharing)};
}

void GpuLoad::add(const GpuUse& use) {
  ++clients;
  milli += use.milli;
  memory += use.memory;
  whole = whole || use.whole;
  compute += use.compute;
  slices += use.slices;
  by_memory = by_memory || use.by_memory;
  opted_in = opted_in && use.overcommit;
  if (!use.whole && !use.by_memory && use.compute == 0) fractions += use.milli;
}

GpuLoad load_of(const Gpu& gpu, View view) {
  GpuLoad load;
  for (const GpuUse& use : gpu.uses) {
    if (counts(use.hold, view)) load.add(use);
  }
  return load;
}

std::int64_t room_beside(const GpuLoad& load, const GpuUse& use, const GpuLimits& limits, std::int64_t most) {
  if (load.whole || (use.whole && load.clients > 0)) return 0;
  if (use.whole) return std::min<std::int64_t>(1, most);
  const auto at_most = [&](std::int64_t left, std::int64_t each) {
    if (each > 0) most = std::min(most, std::max<std::int64_t>(0, left) / each);
  };
  if (use.compute > 0) {
    if (load.clients > 0 && load.compute == 0) return 0;
    at_most(kMigComputeSlices - load.compute, use.compute);
    at_most(kMigMemorySlices - load.slices, use.slices);
    return most;
  }
  if (load.compute > 0) return 0;
  if (limits.clients > 0) at_most(limits.clients - load.clients, 1);
  if (!use.by_memory) at_most(kMilliPerGpu - load.fractions, use.milli);
  if (limits.memory.value <= 0) return use.by_memory || load.by_memory ? 0 : most;
  Wide memory = limits.memory.value;
  if (load.opted_in && use.overcommit) memory = memory * limits.overcommit_milli / kMilliPerGpu;
  at_most(static_cast<std::int64_t>(std::min<Wide>(memory, INT64_MAX)) - load.memory.value, use.memory.value);
  return most;
}

bool in_conflict(const Gpu& gpu, Bytes gpu_memory) {
  if (gpu.uses.size() < 2) return false;
  const GpuLoad load = load_of(gpu, View::kTarget);
  if (load.clients < 2) return false;
  if (load.whole) return true;
  if (load.compute > 0) {
    const bool others = load.fractions > 0 || load.by_memory;
    return others || load.compute > kMigComputeSlices || load.slices > kMigMemorySlices;
  }
  return load.fractions > kMilliPerGpu ||
         (gpu_memory.value > 0 && !load.opted_in && load.memory > gpu_memory);
}

bool shared_as_asked(const PoolSpec& pool, const RoleSpec& role) {
  const SharingMode mode = pool.sharing.mode;
  switch (role.gpus == 0 ? GpuShare::Kind::kWhole : role.share.kind) {
    case GpuShare::Kind::kWhole:
      return true;
    case GpuShare::Kind::kFraction:
    case GpuShare::Kind::kMemory:
      return mode != SharingMode::kNone && mode != SharingMode::kMig;
    case GpuShare::Kind::kMig:
      return mode == SharingMode::kMig;
  }
  return false;
}

std::string sharing_bound(const PoolSpec& pool, const RoleSpec& role) {
  if (role.gpus == 0 || role.share.kind == GpuShare::Kind::kWhole) return "";
  if (role.share.kind == GpuShare::Kind::kMig) {
    return std::to_string(kMigComputeSlices) + " MIG compute slices and " + std::to_string(kMigMemorySlices) +
           " memory slices a GPU";
  }
  const std::int32_t clients = most_clients(pool.sharing);
  if (clients == 0) return "";
  return std::to_string(clients) +
         (pool.sharing.mode == SharingMode::kMps ? " MPS clients a GPU" : " clients a GPU");
}

}  // namespace muster::placement
