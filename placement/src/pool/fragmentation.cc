#include "pool/fragmentation.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "node/node.h"
#include "node/sharing.h"
#include "node/wide.h"

namespace muster::placement {
namespace {

constexpr std::size_t kMaxTypical = 20;
constexpr std::int64_t kMinTypical = 1024;  // one pod in so many
constexpr std::size_t kMaxKept = 64;        // kinds of roles whose increase is kept
constexpr std::int64_t kMicro = 1000;       // micro-GPU in a milli-GPU

std::optional<TypicalRequest> typical_of(const RoleSpec& role) {
  TypicalRequest t{role.gpus, static_cast<std::int32_t>(kMilliPerGpu), {}, role.per_pod.cpu, role.models};
  std::sort(t.models.begin(), t.models.end());
  switch (role.gpus > 0 ? role.share.kind : GpuShare::Kind::kMig) {
    case GpuShare::Kind::kWhole:
      return t;
    case GpuShare::Kind::kFraction:
      t.milli = static_cast<std::int32_t>(role.share.milli.value);
      return t;
    case GpuShare::Kind::kMemory:
      t.memory = role.share.memory;
      return t;
    case GpuShare::Kind::kMig:
      return std::nullopt;
  }
  return std::nullopt;
}

std::int64_t weight_of(std::int64_t pods) {
  return pods <= 0 ? 0 : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(pods)));
}

std::int64_t milli_of(const TypicalRequest& t, Bytes gpu_memory) {
  if (t.memory.value == 0) return t.milli;
  if (t.memory > gpu_memory) return kMilliPerGpu + 1;  // or not known: nowhere
  return static_cast<std::int64_t>((static_cast<Wide>(t.memory.value) * kMilliPerGpu + gpu_memory.value - 1) /
                                   gpu_memory.value);
}

}  // namespace

// What nobody has on a node.
struct Fragmentation::Left {
  std::int64_t idle = 0;            // GPUs
  std::vector<std::int64_t> parts;  // milli-GPU left on each started one that can be shared, ascending
  std::int64_t cpu = 0;

  explicit Left(const Node& node) : cpu(node.free().cpu.value) {
    idle = std::max(0, node.free_gpus());
    for (std::size_t i = 0; i < node.gpus.size(); ++i) {
      if (static_cast<std::int32_t>(i) >= node.spec.gpus || !node.healthy(static_cast<std::int32_t>(i)))
        continue;
      const GpuLoad load = load_of(node.gpus[i], View::kTarget);
      if (load.clients == 0 || load.whole || load.compute > 0) continue;
      if (load.milli < kMilliPerGpu) parts.push_back(kMilliPerGpu - load.milli);
    }
    std::sort(parts.begin(), parts.end());
  }

  std::int64_t total() const {
    std::int64_t sum = idle * kMilliPerGpu;
    for (const std::int64_t part : parts) sum += part;
    return sum;
  }

  void take(std::int64_t gpus, std::int64_t milli, bool whole) {
    for (; gpus > 0 && !whole; --gpus) {
      const auto part = std::lower_bound(parts.begin(), parts.end(), milli);
      if (part == parts.end()) break;
      const std::int64_t rest = *part - milli;
      parts.erase(part);
      if (rest > 0) parts.insert(std::lower_bound(parts.begin(), parts.end(), rest), rest);
    }
    idle -= gpus;
    const std::int64_t rest = whole ? 0 : kMilliPerGpu - milli;
    for (; gpus > 0 && rest > 0; --gpus)
      parts.insert(std::lower_bound(parts.begin(), parts.end(), rest), rest);
  }
};

void Fragmentation::count(const RoleSpec& role, std::int64_t pods) {
  auto request = typical_of(role);
  if (!request || pods == 0) return;
  const auto [it, fresh] = counts_.try_emplace(*std::move(request));
  const std::int64_t before = weight_of(it->second);
  it->second += pods;
  changed_ = changed_ || weight_of(it->second) != before;
  if (it->second == 0) counts_.erase(it);
}

void Fragmentation::prepare(const Resources& capacity) {
  if (after_.size() > kMaxKept) after_.clear();
  if (!changed_ && capacity == capacity_) return;
  changed_ = false;
  capacity_ = capacity;
  const auto before = std::exchange(typical_, {});
  std::int64_t all = 0;
  for (const auto& [request, pods] : counts_) all += weight_of(pods);
  for (const auto& [request, pods] : counts_) {
    if (weight_of(pods) * kMinTypical >= all) typical_.push_back({request, weight_of(pods)});
  }
  const auto most = static_cast<std::ptrdiff_t>(std::min(kMaxTypical, typical_.size()));
  std::partial_sort(typical_.begin(), typical_.begin() + most, typical_.end(),
                    [](const auto& a, const auto& b) {
                      return a.weight != b.weight ? a.weight > b.weight : a.request < b.request;
                    });
  typical_.resize(static_cast<std::size_t>(most));
  weight_ = 0;
  gpu_ = cpu_ = 0;
  matters_ = Matters::kNot;
  for (const Weighted& t : typical_) {
    const std::int64_t gpu = std::int64_t{t.request.gpus} * t.request.milli;
    weight_ += t.weight;
    const bool shares = t.request.milli < kMilliPerGpu || t.request.memory.value > 0;
    if (shares || static_cast<Wide>(t.request.cpu.value) * capacity.gpu.value >
                      static_cast<Wide>(capacity.cpu.value) * gpu) {
      matters_ = Matters::kByNode;
    } else if (t.request.gpus != typical_.front().request.gpus ||
               t.request.models != typical_.front().request.models) {
      matters_ = std::max(matters_, Matters::kByCount);
    }
    if (t.request.memory.value > 0) continue;  // its part of a GPU is another on every model
    gpu_ += static_cast<Wide>(t.weight) * gpu;
    cpu_ += static_cast<Wide>(t.weight) * t.request.cpu.value;
  }
  if (typical_ == before) return;
  now_.clear();
  after_.clear();
  ++version_;
}

std::int64_t Fragmentation::unusable(const Node& node) const {
  return unusable(node, Left(node));
}

std::int64_t Fragmentation::unusable(const Node& node, const Left& left) const {
  const std::int64_t total = left.total();
  if (total <= 0 || weight_ == 0) return 0;
  Wide sum = 0;
  for (const auto& [t, weight] : typical_) {
    std::int64_t lost = total;
    const std::int64_t milli = milli_of(t, node.spec.gpu_memory);
    const bool fits = t.cpu.value <= left.cpu && milli <= kMilliPerGpu &&
                      (t.models.empty() ||
                       std::find(t.models.begin(), t.models.end(), node.spec.gpu_model) != t.models.end());
    if (fits) {
      std::int64_t small = 0;
      auto part = left.parts.begin();
      for (; part != left.parts.end() && *part < milli; ++part) small += *part;
      if (left.idle + (left.parts.end() - part) >= t.gpus) lost = small;
    }
    sum += static_cast<Wide>(lost) * weight;
  }
  auto value = static_cast<std::int64_t>(sum * kMicro / weight_);
  if (cpu_ > 0) {
    const Wide with_cpu = static_cast<Wide>(left.cpu) * gpu_ * kMicro / cpu_;
    value += static_cast<std::int64_t>(std::max<Wide>(0, static_cast<Wide>(total) * kMicro - with_cpu));
  }
  return value;
}

std::int64_t Fragmentation::increase(const Node& node, std::size_t id, const RoleSpec& role) const {
  const Key key{role.share.kind, role.share.milli.value, role.share.memory.value, role.gpus,
                role.per_pod.cpu.value};
  std::vector<Kept>& kept = after_[key];
  if (kept.size() <= id) kept.resize(id + 1);
  if (kept[id].stamp == node.stamp) return kept[id].value;
  if (now_.size() <= id) now_.resize(id + 1);
  Left left(node);
  if (now_[id].stamp != node.stamp) now_[id] = {node.stamp, unusable(node, left)};
  if (role.gpus > 0 && role.share.kind != GpuShare::Kind::kMig)
    left.take(role.gpus, use_on(node.spec, role).milli, role.share.kind == GpuShare::Kind::kWhole);
  left.cpu -= role.per_pod.cpu.value;
  kept[id] = {node.stamp, unusable(node, left) - now_[id].value};
  return kept[id].value;
}

}  // namespace muster::placement
