// Amounts and time, as integers that do not mix.
#pragma once

#include <compare>
#include <cstdint>

namespace muster::placement {

template <class Unit>
struct Amount {
  std::int64_t value = 0;

  auto operator<=>(const Amount&) const = default;
  constexpr Amount& operator+=(Amount o) { return value += o.value, *this; }
  constexpr Amount& operator-=(Amount o) { return value -= o.value, *this; }
  friend constexpr Amount operator+(Amount a, Amount b) { return a += b; }
  friend constexpr Amount operator-(Amount a, Amount b) { return a -= b; }
};
using MilliGpu = Amount<struct GpuUnit>;  // 1/1000 GPU
using MilliCpu = Amount<struct CpuUnit>;  // 1/1000 core
using Bytes = Amount<struct MemoryUnit>;

// Milliseconds since the Unix epoch. Comes in as a parameter; placement never reads a clock.
struct Time {
  std::int64_t ms = 0;
  auto operator<=>(const Time&) const = default;
};

// What a pod, a gang or a node has of each resource.
struct Resources {
  MilliGpu gpu;
  MilliCpu cpu;
  Bytes memory;
  std::int64_t pods = 0;

  bool operator==(const Resources&) const = default;
  Resources& operator+=(const Resources& o) {
    gpu += o.gpu, cpu += o.cpu, memory += o.memory, pods += o.pods;
    return *this;
  }
  Resources& operator-=(const Resources& o) {
    gpu -= o.gpu, cpu -= o.cpu, memory -= o.memory, pods -= o.pods;
    return *this;
  }
  friend Resources operator+(Resources a, const Resources& b) { return a += b; }
  friend Resources operator-(Resources a, const Resources& b) { return a -= b; }
  friend Resources operator*(Resources a, std::int64_t n) {
    a.gpu.value *= n, a.cpu.value *= n, a.memory.value *= n, a.pods *= n;
    return a;
  }
};

inline constexpr std::int64_t kMilliPerGpu = 1000;

}  // namespace muster::placement
