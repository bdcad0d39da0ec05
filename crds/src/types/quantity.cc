#include "muster/crds/quantity.h"

#include "muster/common/quantity.h"

namespace muster::crds {
namespace {

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
std::expected<MilliCost, std::string> parse_cost(std::string_view text) {
  return parse_amount<CostUnit>(text, 1000);
}

std::string to_string(MilliGpu amount) {
  return common::format_milli(amount.value);
}
std::string to_string(MilliCpu amount) {
  return common::format_milli(amount.value);
}
std::string to_string(MilliLoad amount) {
  return common::format_milli(amount.value);
}
std::string to_string(MilliCost amount) {
  return common::format_milli(amount.value);
}
std::string to_string(Bytes amount) {
  return common::format_bytes(amount.value);
}

}  // namespace muster::crds
