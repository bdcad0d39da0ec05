// One loop for all resources: each amount and each bound of a resource by its kind.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/common/quantity.h"
#include "muster/placement/amounts.h"
#include "muster/placement/job.h"
#include "muster/placement/node.h"
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
  // It counts GPUs of one model: a part of what kGpu counts.
  bool is_model(ResourceKind kind) const {
    return kind >= ResourceKind::kNamed && models_[named_index(kind)];
  }
  // Of each of Resources::named.
  void set_models(const std::array<bool, kMaxNamed>& models) { models_ = models; }

 private:
  std::array<bool, kMaxNamed> models_{};
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

// Which resource each of Resources::named counts. A resource has a place while some job asks for it that some
// node has listed; the place is given to another one only when no job asks for the first any more. What
// nodes, bounds and pods outside jobs state of any other is not counted: nobody who asks for it could have
// it.
//
// GPUs of a model are such a resource ("gpu/NVIDIA-H100-80GB-HBM3", in thousandths): every node with GPUs
// lists its own, and it has a place while some quota names it. Whoever gets such GPUs is charged with them
// (decisions/0098).
class ResourceNames {
 public:
  static std::string of_model(const std::string& model) {
    return std::string(common::kModelPrefix).append(model);
  }
  static bool is_model(std::string_view name) { return name.starts_with(common::kModelPrefix); }
  // So many nodes with such GPUs more, or fewer; so many Queues and Projects with such quotas. share_out() is
  // to follow.
  void listed_model(const NodeSpec& node, int by) {
    if (has_model(node)) note(of_model(node.gpu_model), &Use::nodes, by);
  }
  void bounded(const QueueSpec& queue, int by) {
    const auto bounds = [&](const Share& share) {
      for (const auto& [name, amount] : share.quota.named) {
        if (is_model(name)) note(name, &Use::roles, by);
      }
    };
    bounds(queue.in_default_pool);
    for (const auto& [pool, share] : queue.in_pool) bounds(share);
  }
  // Where GPUs of the model are counted; -1: nowhere.
  int place_of_model(std::string_view model) const {
    for (std::size_t i = 0; i < kMaxNamed; ++i) {
      const std::string_view name = names_[i];
      if (is_model(name) && name.substr(common::kModelPrefix.size()) == model) return static_cast<int>(i);
    }
    return -1;
  }
  int place_of_model(const NodeSpec& node) const {
    return has_model(node) ? place_of_model(node.gpu_model) : -1;
  }
  std::array<bool, kMaxNamed> models() const {
    std::array<bool, kMaxNamed> all{};
    for (std::size_t i = 0; i < kMaxNamed; ++i) all[i] = is_model(names_[i]);
    return all;
  }

  // So many nodes more, or fewer, list some of these; so many roles of jobs more, or fewer, ask for them.
  // share_out() is to follow.
  void listed(const NamedAmounts& amounts, int by) { note(amounts, &Use::nodes, by); }
  void asked(const JobSpec& spec, int by) {
    for (const RoleSpec& role : spec.roles) note(role.named, &Use::roles, by);
  }

  // What has changed for those who ask for a resource since the last call.
  struct Changes {
    std::vector<std::string> names;   // jobs that ask for these are to be judged anew
    std::vector<ResourceKind> kinds;  // these count another resource than before
  };
  // Gives out places. O(1) where no resource has come into use or out of it.
  Changes share_out() {
    Changes changes;
    if (!std::exchange(is_stale_, false)) return changes;
    for (auto it = uses_.begin(); it != uses_.end();) {
      auto& [name, use] = *it;
      if (use.nodes <= 0 && use.roles <= 0 && !index_of(name)) {
        it = uses_.erase(it);
        continue;
      }
      const Standing before = std::exchange(use.standing, standing_of(name, use, changes));
      if (use.roles > 0 && use.standing != before) changes.names.push_back(name);
      ++it;
    }
    return changes;
  }

  // The first of these that nodes have and that is not counted, because all places are taken; nullptr: none.
  const std::string* without_place(const NamedAmounts& amounts) const {
    const auto found = std::find_if(amounts.begin(), amounts.end(), [&](const auto& a) {
      const auto use = a.second > 0 ? uses_.find(a.first) : uses_.end();
      return use != uses_.end() && use->second.standing == Standing::kNoPlace;
    });
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
  // A job that asks for it could be counted, if nodes have it.
  bool has_place_for(const std::string& name) const { return index_of(name) || free_place(); }
  std::string all() const {  // "rdma/hca, hugepages-2Mi"
    std::string text;
    for (const std::string& name : names_) {
      if (!name.empty()) text += (text.empty() ? "" : ", ") + name;
    }
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
  enum class Standing : std::uint8_t { kUnlisted, kCounted, kNoPlace };
  struct Use {
    std::int32_t nodes = 0, roles = 0;  // of models: Queues and Projects instead of roles
    Standing standing = Standing::kUnlisted;
  };

  static bool has_model(const NodeSpec& node) {
    return !node.gpu_model.empty() && (node.gpus > 0 || !node.mig.empty());
  }
  void note(const NamedAmounts& amounts, std::int32_t Use::* what, int by) {
    for (const auto& [name, amount] : amounts) {
      if (amount > 0) note(name, what, by);
    }
  }
  void note(const std::string& name, std::int32_t Use::* what, int by) {
    std::int32_t& count = uses_[name].*what;
    is_stale_ = is_stale_ || count == 0 || count + by == 0;
    count += by;
  }
  // Of a resource in use. It may get a place by that: then `changes` say which.
  Standing standing_of(const std::string& name, const Use& use, Changes& changes) {
    if (index_of(name)) return Standing::kCounted;
    if (use.nodes <= 0 || use.roles <= 0) return Standing::kUnlisted;
    const auto place = free_place();
    if (!place) return Standing::kNoPlace;
    // No quota names that model any more, but who has such GPUs is still charged with them.
    if (is_model(names_[*place])) changes.names.push_back(names_[*place]);
    names_[*place] = name;
    changes.kinds.push_back(kAllKinds[static_cast<std::size_t>(ResourceKind::kNamed) + *place]);
    return Standing::kCounted;
  }
  std::optional<std::size_t> free_place() const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const auto use = names_[i].empty() ? uses_.end() : uses_.find(names_[i]);
      if (use == uses_.end() || use->second.roles <= 0) return i;
    }
    return std::nullopt;
  }
  std::optional<std::size_t> index_of(const std::string& name) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return i;
    }
    return std::nullopt;
  }

  std::array<std::string, kMaxNamed> names_;  // "": nothing yet
  std::map<std::string, Use> uses_;
  bool is_stale_ = false;
};

}  // namespace muster::placement
