#include "muster/crds/gpu_labels.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

namespace muster::crds {
namespace {

// The number that the text begins with, and what is behind it; 0: it begins with none.
struct Number {
  std::int64_t value = 0;
  std::string_view rest;
};
Number number_in(std::string_view text) {
  Number number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  if (error != std::errc()) return {};
  number.rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return number;
}

// Vendors write 64G and mean 64 GiB (AMD's node labeller, Ascend's device plugin), so G is Gi. 0: no amount.
std::int64_t bytes_in(std::string_view text, UnitOfMemory unit) {
  constexpr std::string_view kPrefixes = "KMGT";
  auto [value, rest] = number_in(text);
  auto power = static_cast<std::size_t>(unit);  // of 1024
  if (!rest.empty()) {
    if (rest.ends_with("B")) rest.remove_suffix(1);
    if (rest.size() == 2 && rest.ends_with("i")) rest.remove_suffix(1);
    const auto at = rest.size() == 1 ? kPrefixes.find(rest[0]) : std::string_view::npos;
    if (at == std::string_view::npos) return 0;
    power = at + 1;
  }
  const auto shift = static_cast<int>(10 * power);
  return value <= 0 || value > std::numeric_limits<std::int64_t>::max() >> shift ? 0 : value << shift;
}

}  // namespace

GpusOfNode gpus_of_node(const GpuLabels& labels, const LabelOfNode& value) {
  const auto find = [&](const std::string& label) { return label.empty() ? nullptr : value(label); };
  GpusOfNode gpus;
  if (const std::string* model = find(labels.model)) gpus.model = *model;
  const std::string* memory = find(labels.memory);
  if (memory == nullptr) return gpus;
  gpus.memory.value = bytes_in(*memory, labels.memory_unit);
  if (labels.memory_sum_of.empty()) return gpus;
  const std::string* count = find(labels.memory_sum_of);
  const Number of = count == nullptr ? Number{} : number_in(*count);
  gpus.memory.value = of.value > 0 && of.rest.empty() ? gpus.memory.value / of.value : 0;
  return gpus;
}

const GpuLabels& gpu_labels_of(const NodePoolSpec& pool) {
  static const auto& nvidia = *new GpuLabels{.model = "nvidia.com/gpu.product",
                                             .memory = "nvidia.com/gpu.memory",
                                             .memory_unit = UnitOfMemory::kMiB,
                                             .memory_sum_of = {}};
  return pool.gpu_labels ? *pool.gpu_labels : nvidia;
}

const GpuLabels& gpu_labels_of(const std::vector<NodePool>& pools, const StringMap& node) {
  static const auto& none = *new NodePoolSpec{};
  const auto pool =
      std::ranges::find_if(pools, [&](const NodePool& p) { return matches(p.spec.node_selector, node); });
  return gpu_labels_of(pool == pools.end() ? none : pool->spec);
}

}  // namespace muster::crds
