// One loop for all resources: each amount and each bound of a resource by its kind.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "muster/placement/amounts.h"
#include "muster/placement/queue.h"

namespace muster::placement {

enum class ResourceKind : std::uint8_t { kGpu, kCpu, kMemory, kPods };

// Those that quotas, limits and fair shares are about, in the order in which they are judged and named.
inline constexpr std::array kAccountedKinds = {ResourceKind::kGpu, ResourceKind::kCpu, ResourceKind::kMemory};
inline constexpr std::array kAllKinds = {ResourceKind::kGpu, ResourceKind::kCpu, ResourceKind::kMemory,
                                         ResourceKind::kPods};

// As in Blocking::resource.
constexpr const char* name_of(ResourceKind kind) {
  constexpr std::array kNames = {"gpu", "cpu", "memory", "pods"};
  return kNames[static_cast<std::size_t>(kind)];
}

// In thousandths of a GPU or a CPU, in bytes, in pods.
constexpr std::int64_t amount_of(const Resources& r, ResourceKind kind) {
  switch (kind) {
    case ResourceKind::kGpu:
      return r.gpu.value;
    case ResourceKind::kCpu:
      return r.cpu.value;
    case ResourceKind::kMemory:
      return r.memory.value;
    case ResourceKind::kPods:
      break;
  }
  return r.pods;
}
constexpr std::int64_t& amount_of(Resources& r, ResourceKind kind) {
  switch (kind) {
    case ResourceKind::kGpu:
      return r.gpu.value;
    case ResourceKind::kCpu:
      return r.cpu.value;
    case ResourceKind::kMemory:
      return r.memory.value;
    case ResourceKind::kPods:
      break;
  }
  return r.pods;
}

// As it is stated; nullopt: it is not.
constexpr std::optional<std::int64_t> bound_of(const Bounds& bounds, ResourceKind kind) {
  const auto value = [](const auto& b) { return b ? std::optional(b->value) : std::nullopt; };
  switch (kind) {
    case ResourceKind::kGpu:
      return value(bounds.gpu);
    case ResourceKind::kCpu:
      return value(bounds.cpu);
    case ResourceKind::kMemory:
      return value(bounds.memory);
    case ResourceKind::kPods:
      break;
  }
  return std::nullopt;
}

inline constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

// A quota of GPUs that is not stated is 0. Of the others it then is not accounted: nullopt.
constexpr std::optional<std::int64_t> quota_of(const Bounds& quota, ResourceKind kind) {
  const auto stated = bound_of(quota, kind);
  return kind == ResourceKind::kGpu ? stated.value_or(0) : stated;
}

// Resource by resource, pods included.
constexpr Resources larger_of(Resources a, const Resources& b) {
  for (const ResourceKind kind : kAllKinds)
    amount_of(a, kind) = std::max(amount_of(a, kind), amount_of(b, kind));
  return a;
}
constexpr Resources smaller_of(Resources a, const Resources& b) {
  for (const ResourceKind kind : kAllKinds)
    amount_of(a, kind) = std::min(amount_of(a, kind), amount_of(b, kind));
  return a;
}

// Of what is asked for, something is more than the bound.
constexpr bool exceeds(const Resources& amounts, const Resources& bound, const Resources& asked) {
  return std::any_of(kAccountedKinds.begin(), kAccountedKinds.end(), [&](ResourceKind kind) {
    return amount_of(asked, kind) > 0 && amount_of(amounts, kind) > amount_of(bound, kind);
  });
}

}  // namespace muster::placement
