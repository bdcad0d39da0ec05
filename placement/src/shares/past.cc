#include "shares/past.h"

#include <algorithm>

#include "node/resource_vector.h"

namespace muster::placement {
namespace {

constexpr std::int64_t kFoldsPerHalfLife = 256;
constexpr Wide kUnit = Wide{1} << 20;  // of Past::average
constexpr std::uint64_t kOne = std::uint64_t{1} << 32;

// 2^(-1/2^k) for k from 1, in units of 2^-32.
constexpr std::array<std::uint64_t, 32> kRoots = {
    3037000499, 3611622602, 3938502375, 4112874773, 4202935003, 4248701964, 4271771996, 4283353945,
    4289156690, 4292061009, 4293513906, 4294240539, 4294603902, 4294785595, 4294876444, 4294921870,
    4294944583, 4294955939, 4294961617, 4294964456, 4294965876, 4294966586, 4294966941, 4294967118,
    4294967207, 4294967251, 4294967273, 4294967284, 4294967290, 4294967293, 4294967294, 4294967295,
};

Duration fold_after(Duration half_life) {
  return {std::max<std::int64_t>(1, half_life.ms / kFoldsPerHalfLife)};
}

Past::Amounts amounts(const Resources& r) {
  Past::Amounts list{};
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = amount_of(r, kChargedKinds[i]);
  return list;
}

// `mean`: what was held since the last fold, in the units of the average.
void fold(Past& p, const Past::Amounts& mean, Time until, Duration half_life) {
  const auto kept = static_cast<Wide>(decay(until - p.as_of, half_life));
  for (std::size_t i = 0; i < mean.size(); ++i)
    p.average[i] = mean[i] + (p.average[i] - mean[i]) * kept / static_cast<Wide>(kOne);
  p.as_of = until;
  p.since = {};
}

void advance(Past& p, Time now, Duration half_life) {
  const std::int64_t elapsed = (now - p.seen).ms;
  if (elapsed <= 0) return;
  auto held = amounts(p.held);
  if (now - p.as_of >= fold_after(half_life)) {
    if (const std::int64_t span = (p.seen - p.as_of).ms; span > 0) {
      auto mean = p.since;
      for (Wide& m : mean) m = m * kUnit / span;
      fold(p, mean, p.seen, half_life);
    }
    for (Wide& h : held) h *= kUnit;
    fold(p, held, now, half_life);
  } else {
    for (std::size_t i = 0; i < held.size(); ++i) p.since[i] += held[i] * elapsed;
  }
  p.seen = now;
}

std::optional<Duration> half_life_of(const QueueTree& tree, QueueId id) {
  const TreeNode& t = tree.queue(id);
  if (!t.known || t.parent == kNoId) return std::nullopt;
  const auto h = tree.queue(t.parent).spec.half_life;
  return h && h->ms > 0 ? h : std::nullopt;
}

}  // namespace

std::uint64_t decay(Duration elapsed, Duration half_life) {
  const std::int64_t halvings = elapsed.ms / half_life.ms;
  if (halvings >= 63) return 0;
  auto part = static_cast<std::uint64_t>(static_cast<Wide>(elapsed.ms % half_life.ms) *
                                         static_cast<Wide>(kOne) / half_life.ms);
  std::uint64_t result = kOne;
  for (std::size_t k = 0; k < kRoots.size() && part != 0; ++k) {
    const std::uint64_t bit = kOne >> (k + 1);
    if ((part & bit) == 0) continue;
    result = (result * kRoots[k]) >> 32;
    part &= ~bit;
  }
  return result >> halvings;
}

void advance_past_use(ClusterModel& s, Time now) {
  for (std::size_t i = 0; i < s.tree().size(); ++i) {
    const auto id = static_cast<QueueId>(i);
    const auto half_life = half_life_of(s.tree(), id);
    if (!half_life) {
      s.past.erase(id);
      continue;
    }
    auto& by_pool = s.past[id];
    for (std::size_t k = 0; k < s.pools.size(); ++k) {
      const auto pool = static_cast<PoolId>(k);
      const auto [it, fresh] = by_pool.try_emplace(pool);
      Past& p = it->second;
      if (fresh) p.as_of = p.seen = now;
      if (p.restored) p.held = s.tree().sums(id, pool).in_use();
      p.restored = false;
      advance(p, now, *half_life);
    }
  }
}

void note_past_use(ClusterModel& s) {
  for (auto& [id, by_pool] : s.past) {
    for (auto& [pool, p] : by_pool) p.held = s.tree().sums(id, pool).in_use();
  }
}

void forget_past_use(ClusterModel& s, ResourceKind kind) {
  const auto k = static_cast<std::size_t>(std::find(kChargedKinds.begin(), kChargedKinds.end(), kind) -
                                          kChargedKinds.begin());
  for (auto& [id, by_pool] : s.past) {
    for (auto& [pool, p] : by_pool) {
      p.average[k] = p.since[k] = 0;
      amount_of(p.held, kind) = 0;
    }
  }
}

Resources average_use(const PastByQueue& past, QueueId id, PoolId pool) {
  const auto by_pool = past.find(id);
  if (by_pool == past.end()) return {};
  const auto found = by_pool->second.find(pool);
  return found == by_pool->second.end() ? Resources{} : average_use(found->second);
}

Resources average_use(const Past& p) {
  const auto rounded = [](Wide units) { return static_cast<std::int64_t>((units + kUnit / 2) / kUnit); };
  Resources use;
  for (std::size_t i = 0; i < p.average.size(); ++i) amount_of(use, kChargedKinds[i]) = rounded(p.average[i]);
  return use;
}

void set_average_use(Past& p, const Resources& use, Time as_of) {
  p = {};
  p.average = amounts(use);
  for (Wide& a : p.average) a *= kUnit;
  p.as_of = p.seen = as_of;
  p.restored = true;
}

std::optional<Time> next_fold(const ClusterModel& s, PoolId pool) {
  std::optional<Time> first;
  for (const auto& [id, by_pool] : s.past) {
    const auto half_life = half_life_of(s.tree(), id);
    const auto p = by_pool.find(pool);
    if (!half_life || p == by_pool.end()) continue;
    const Time then = p->second.as_of + fold_after(*half_life);
    if (!first || then < *first) first = then;
  }
  return first;
}

}  // namespace muster::placement
