#include "muster/crds/quantity.h"

#include <array>

#include "muster/common/quantity.h"

namespace muster::crds {
namespace {

std::string milli_text(std::int64_t milli) {
  return milli % 1000 == 0 ? std::to_string(milli / 1000) : std::to_string(milli) + "m";
}

template <class Unit>
std::expected<Amount<Unit>, std::string> parse_amount(std::string_view text, std::int64_t scale) {
  auto value = parse_quantity(text, scale);
  if (!value) return std::unexpected(std::move(value.error()));
  return Amount<Unit>{*value};
}

}  // namespace

std::expected<std::int64_t, std::string> parse_quantity(std::string_view text, std::int64_t scale) {
  return common::parse_amount(text, scale);
}

std::expected<MilliGpu, std::string> parse_gpu(std::string_view text) {
  return parse_amount<GpuUnit>(text, 1000);
}
std::expected<MilliCpu, std::string> parse_cpu(std::string_view text) {
  return parse_amount<CpuUnit>(text, 1000);
}
std::expected<Bytes, std::string> parse_memory(std::string_view text) {
  return parse_amount<MemoryUnit>(text, 1);
}
std::expected<MilliLoad, std::string> parse_load(std::string_view text) {
  return parse_amount<LoadUnit>(text, 1000);
}

std::string to_string(MilliGpu amount) {
  return milli_text(amount.value);
}
std::string to_string(MilliCpu amount) {
  return milli_text(amount.value);
}
std::string to_string(MilliLoad amount) {
  return milli_text(amount.value);
}

std::string to_string(Bytes amount) {
  constexpr std::array<std::string_view, 7> kSuffixes = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  std::int64_t value = amount.value;
  std::size_t suffix = 0;
  while (value != 0 && value % 1024 == 0 && suffix + 1 < kSuffixes.size()) {
    value /= 1024;
    ++suffix;
  }
  return std::to_string(value) + std::string(kSuffixes[suffix]);
}

}  // namespace muster::crds
