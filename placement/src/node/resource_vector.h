// One loop for all resources: each amount and each bound of a resource by its kind.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "muster/placement/amounts.h"
#include "muster/placement/queue.h"

namespace muster::placement {

// From kNamed on, as many as kMaxNamed says: Resources::named, one after the other.
enum class ResourceKind : std::uint8_t { kGpu, kCpu, kMemory, kPods, kNamed };

constexpr std::size_t named_index(ResourceKind kind) {
  return static_cast<std::size_t>(kind) - static_cast<std::size_t>(ResourceKind::kNamed);
}

// What lost work is measured by. Quotas, limits and fair shares are about these in every tree of queues, and
// about more in some: AccountedKinds.
inline constexpr std::array kBasicKinds = {ResourceKind::kGpu, ResourceKind::kCpu, ResourceKind::kMemory};
inline constexpr auto kAllKinds = [] {
  std::array<ResourceKind, static_cast<std::size_t>(ResourceKind::kNamed) + kMaxNamed> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<ResourceKind>(i);
  return all;
}();
// All that somebody can be charged for: not pods.
inline constexpr auto kChargedKinds = [] {
  std::array<ResourceKind, kAllKinds.size() - 1> charged{};
  std::size_t i = 0;
  for (const ResourceKind kind : kAllKinds) {
    if (kind != ResourceKind::kPods) charged[i++] = kind;
  }
  return charged;
}();

// What the quotas, limits and fair shares of one tree of queues are about, in the order in which resources
// are judged and named: the basic ones, and those that some Queue or Project states a bound of.
class AccountedKinds {
 public:
  const ResourceKind* begin() const { return kinds_.data(); }
  const ResourceKind* end() const { return kinds_.data() + count_; }
  void clear_named() { count_ = kBasicKinds.size(); }
  void add(ResourceKind named) { kinds_[count_++] = named; }

 private:
  std::array<ResourceKind, kChargedKinds.size()> kinds_ = kChargedKinds;  // the basic ones stand first
  std::size_t count_ = kBasicKinds.size();
};

// As in Blocking::resource. Of those that have a name of their own ResourceNames knows it.
constexpr const char* name_of(ResourceKind kind) {
  constexpr std::array kNames = {"gpu", "cpu", "memory", "pods"};
  return kNames[static_cast<std::size_t>(kind)];
}

// In thousandths of a GPU or a CPU, in bytes, in pods, and as NamedAmounts are.
constexpr std::int64_t amount_of(const Resources& r, ResourceKind kind) {
  switch (kind) {
    case ResourceKind::kGpu:
      return r.gpu.value;
    case ResourceKind::kCpu:
      return r.cpu.value;
    case ResourceKind::kMemory:
      return r.memory.value;
    case ResourceKind::kPods:
      return r.pods;
    case ResourceKind::kNamed:
      break;
  }
  return r.named[named_index(kind)];
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
      return r.pods;
    case ResourceKind::kNamed:
      break;
  }
  return r.named[named_index(kind)];
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
      return std::nullopt;
    case ResourceKind::kNamed:
      break;
  }
  return bounds.counted[named_index(kind)];
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

// Enough of all but GPUs, of which a pod takes devices and not an amount.
constexpr bool fits_beside_gpus(const Resources& asked, const Resources& has) {
  bool fits = asked.cpu <= has.cpu && asked.memory <= has.memory && asked.pods <= has.pods;
  for (std::size_t i = 0; i < kMaxNamed; ++i) fits &= asked.named[i] <= has.named[i];
  return fits;
}

constexpr bool asks_for_named(const Resources& asked) {
  std::int64_t any = 0;
  for (const std::int64_t amount : asked.named) any |= amount;
  return any != 0;
}

// How often `each` goes into `has`, but not more than `most`. GPUs and pod slots are not looked at.
constexpr std::int64_t times_in(const Resources& has, const Resources& each, std::int64_t most) {
  if (each.cpu.value > 0) most = std::min(most, has.cpu.value / each.cpu.value);
  if (each.memory.value > 0) most = std::min(most, has.memory.value / each.memory.value);
  for (std::size_t i = 0; i < kMaxNamed; ++i)
    if (each.named[i] > 0) most = std::min(most, has.named[i] / each.named[i]);
  return most;
}

// Of what is asked for, something is more than the bound.
inline bool exceeds(const AccountedKinds& kinds, const Resources& amounts, const Resources& bound,
                    const Resources& asked) {
  return std::any_of(kinds.begin(), kinds.end(), [&](ResourceKind kind) {
    return amount_of(asked, kind) > 0 && amount_of(amounts, kind) > amount_of(bound, kind);
  });
}

// Which resource each of Resources::named counts. A resource gets its place when the first job asks for it,
// and keeps it. What nodes, bounds and pods outside jobs state of any other is not counted: nobody asks for
// it.
class ResourceNames {
 public:
  // True: some of these are counted from now on that were not.
  bool add(const NamedAmounts& amounts) {
    bool added = false;
    for (const auto& [name, amount] : amounts) {
      if (amount <= 0 || used_ == kMaxNamed || index_of(name)) continue;
      names_[used_++] = name;
      added = true;
    }
    return added;
  }
  // The first of these that is not counted, because all places are taken; nullptr: each is.
  const std::string* without_place(const NamedAmounts& amounts) const {
    const auto found = std::find_if(amounts.begin(), amounts.end(),
                                    [&](const auto& a) { return a.second > 0 && !index_of(a.first); });
    return found == amounts.end() ? nullptr : &found->first;
  }
  // Of these, what is counted.
  void count(const NamedAmounts& amounts, Resources& out) const {
    out.named = {};
    for (const auto& [name, amount] : amounts) {
      if (const auto i = index_of(name)) out.named[*i] = amount;
    }
  }
  void count(Bounds& bounds) const {
    bounds.counted = {};
    for (const auto& [name, amount] : bounds.named) {
      if (const auto i = index_of(name)) bounds.counted[*i] = amount;
    }
  }
  void count(QueueSpec& queue) const {
    count(queue.in_default_pool);
    for (auto& [pool, share] : queue.in_pool) count(share);
  }
  const char* name_of(ResourceKind kind) const {
    return kind < ResourceKind::kNamed ? placement::name_of(kind) : names_[named_index(kind)].c_str();
  }
  bool is_full() const { return used_ == kMaxNamed; }
  std::string all() const {  // "rdma/hca, hugepages-2Mi"
    std::string text;
    for (std::size_t i = 0; i < used_; ++i) text += (i == 0 ? "" : ", ") + names_[i];
    return text;
  }
  std::string why_no_more() const {
    return "no more than " + std::to_string(kMaxNamed) +
           " resources beside GPUs, CPU, memory and pods can be counted: these are " + all();
  }

 private:
  void count(Share& share) const {
    for (Bounds* bounds : {&share.quota, &share.reserved, &share.limit}) count(*bounds);
  }
  std::optional<std::size_t> index_of(const std::string& name) const {
    for (std::size_t i = 0; i < used_; ++i) {
      if (names_[i] == name) return i;
    }
    return std::nullopt;
  }

  std::array<std::string, kMaxNamed> names_;
  std::size_t used_ = 0;
};

}  // namespace muster::placement
