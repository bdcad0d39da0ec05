// Amounts and time. They are integers, and each unit is a type of its own, so that units cannot be mixed up.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>

namespace muster::placement {

// Sums wrap around. They are never undefined, because nothing that a user writes into a spec may break the
// process. What was added and is subtracted again leaves exactly what was there before. A job that asks for
// an absurd amount never gets into a sum: it waits with InvalidSpec.
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

// Milliseconds since the Unix epoch. Time comes in as a parameter: placement never reads a clock.
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

// The fair share of what a quota does not account for. Sums of some still fit.
inline constexpr std::int64_t kPlenty = std::numeric_limits<std::int64_t>::max() / 4;

// Amounts of resources that placement knows by their names alone ("rdma/hca", "hugepages-2Mi"), in whole
// units or bytes.
using NamedAmounts = std::map<std::string, std::int64_t>;

// So many of them a cluster can count at a time.
inline constexpr std::size_t kMaxNamed = 6;

// An amount of each resource: what a pod asks for, what a gang holds, what a node has.
struct Resources {
  MilliGpu gpu;
  MilliCpu cpu;
  Bytes memory;
  std::int64_t pods = 0;
  std::array<std::int64_t, kMaxNamed> named{};  // of which resource each is, the Cluster knows

  bool operator==(const Resources&) const = default;
  Resources& operator+=(const Resources& o) {
    gpu += o.gpu, cpu += o.cpu, memory += o.memory, pods = wrapping_add(pods, o.pods);
    for (std::size_t i = 0; i < kMaxNamed; ++i) named[i] = wrapping_add(named[i], o.named[i]);
    return *this;
  }
  Resources& operator-=(const Resources& o) {
    gpu -= o.gpu, cpu -= o.cpu, memory -= o.memory, pods = wrapping_sub(pods, o.pods);
    for (std::size_t i = 0; i < kMaxNamed; ++i) named[i] = wrapping_sub(named[i], o.named[i]);
    return *this;
  }
  friend Resources operator+(Resources a, const Resources& b) { return a += b; }
  friend Resources operator-(Resources a, const Resources& b) { return a -= b; }
  friend Resources operator*(Resources a, std::int64_t n) {
    a.gpu.value = wrapping_mul(a.gpu.value, n), a.cpu.value = wrapping_mul(a.cpu.value, n);
    a.memory.value = wrapping_mul(a.memory.value, n), a.pods = wrapping_mul(a.pods, n);
    for (std::int64_t& amount : a.named) amount = wrapping_mul(amount, n);
    return a;
  }
};

inline constexpr std::int64_t kMilliPerGpu = 1000;

}  // namespace muster::placement
