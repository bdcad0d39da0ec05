// Amounts and time, as integers that do not mix.
#pragma once

#include <compare>
#include <cstdint>

namespace muster::placement {

// Sums wrap around instead of being undefined: what somebody wrote into a spec must not be able to break the
// process, and what was added wrongly comes out again exactly. Jobs that ask for absurd amounts never get as
// far as a sum (InvalidSpec).
constexpr std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
constexpr std::int64_t wrapping_sub(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
constexpr std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

template <class Unit>
struct Amount {
  std::int64_t value = 0;

  auto operator<=>(const Amount&) const = default;
  constexpr Amount& operator+=(Amount o) { return value = wrapping_add(value, o.value), *this; }
  constexpr Amount& operator-=(Amount o) { return value = wrapping_sub(value, o.value), *this; }
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

struct Duration {
  std::int64_t ms = 0;
  auto operator<=>(const Duration&) const = default;
};
constexpr Time operator+(Time t, Duration d) {
  return {wrapping_add(t.ms, d.ms)};
}
constexpr Time operator-(Time t, Duration d) {
  return {wrapping_sub(t.ms, d.ms)};
}
constexpr Duration operator-(Time a, Time b) {
  return {wrapping_sub(a.ms, b.ms)};
}
constexpr Duration seconds(std::int64_t n) {
  return {n * 1000};
}

// What a pod, a gang or a node has of each resource.
struct Resources {
  MilliGpu gpu;
  MilliCpu cpu;
  Bytes memory;
  std::int64_t pods = 0;

  bool operator==(const Resources&) const = default;
  Resources& operator+=(const Resources& o) {
    gpu += o.gpu, cpu += o.cpu, memory += o.memory, pods = wrapping_add(pods, o.pods);
    return *this;
  }
  Resources& operator-=(const Resources& o) {
    gpu -= o.gpu, cpu -= o.cpu, memory -= o.memory, pods = wrapping_sub(pods, o.pods);
    return *this;
  }
  friend Resources operator+(Resources a, const Resources& b) { return a += b; }
  friend Resources operator-(Resources a, const Resources& b) { return a -= b; }
  friend Resources operator*(Resources a, std::int64_t n) {
    a.gpu.value = wrapping_mul(a.gpu.value, n), a.cpu.value = wrapping_mul(a.cpu.value, n);
    a.memory.value = wrapping_mul(a.memory.value, n), a.pods = wrapping_mul(a.pods, n);
    return a;
  }
};

inline constexpr std::int64_t kMilliPerGpu = 1000;

}  // namespace muster::placement
