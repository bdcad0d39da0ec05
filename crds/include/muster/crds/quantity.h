// Kubernetes quantities as integers: GPUs and CPUs in thousandths, memory in bytes.
#pragma once

#include <compare>
#include <cstdint>
#include <expected>
#include <limits>
#include <string>
#include <string_view>

namespace muster::crds {

// An amount of one unit; amounts of different units do not mix. Sums and products stop at the ends of int64
// instead of overflowing: whatever objects state, adding them up is defined.
template <class Unit>
struct Amount {
  std::int64_t value = 0;

  auto operator<=>(const Amount&) const = default;
  Amount& operator+=(Amount other) {
    if (__builtin_add_overflow(value, other.value, &value)) value = end(other.value > 0);
    return *this;
  }
  Amount& operator-=(Amount other) {
    if (__builtin_sub_overflow(value, other.value, &value)) value = end(other.value < 0);
    return *this;
  }
  Amount& operator*=(std::int64_t times) {
    const bool positive = (value < 0) == (times < 0);
    if (__builtin_mul_overflow(value, times, &value)) value = end(positive);
    return *this;
  }
  friend Amount operator+(Amount a, Amount b) { return a += b; }
  friend Amount operator-(Amount a, Amount b) { return a -= b; }
  friend Amount operator*(Amount a, std::int64_t times) { return a *= times; }

 private:
  static constexpr std::int64_t end(bool upper) {
    return upper ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
  }
};
using MilliGpu = Amount<struct GpuUnit>;    // 1/1000 GPU
using MilliCpu = Amount<struct CpuUnit>;    // 1/1000 core
using Bytes = Amount<struct MemoryUnit>;    // 1 byte
using MilliLoad = Amount<struct LoadUnit>;  // 1/1000 of what a server's metric counts
using MilliCost = Amount<struct CostUnit>;  // 1/1000 of the currency in which prices are stated

// Quantity text ("2500m", "2.5", "4Ti", "1e3") as an integer of 1/1000 (scale 1000) or of 1 (scale 1). Not
// negative, not above int64, an exponent at most 18. A part finer than the scale is rounded up, as Kubernetes
// does: no request is ever made smaller. The error says what is allowed, as a sentence fragment: "must be a
// quantity such as …, is \"x\"".
std::expected<std::int64_t, std::string> parse_quantity(std::string_view text, std::int64_t scale);
std::expected<MilliGpu, std::string> parse_gpu(std::string_view text);
std::expected<MilliCpu, std::string> parse_cpu(std::string_view text);
std::expected<Bytes, std::string> parse_memory(std::string_view text);
std::expected<MilliLoad, std::string> parse_load(std::string_view text);
std::expected<MilliCost, std::string> parse_cost(std::string_view text);

// Canonical form: "2500m", "2" for GPUs, CPUs, loads and costs; the largest binary suffix that loses nothing
// for memory: "4Ti", "1500".
std::string to_string(MilliGpu amount);
std::string to_string(MilliCpu amount);
std::string to_string(Bytes amount);
std::string to_string(MilliLoad amount);
std::string to_string(MilliCost amount);

}  // namespace muster::crds
