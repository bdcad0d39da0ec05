#include "shares/eligibility.h"

#include <algorithm>
#include <array>
#include <limits>

namespace muster::placement {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

// One resource of a tree node: what it has, what it is guaranteed, its fair share. Not accounted: unbounded.
struct Account {
  std::int64_t asked, used, quota, fair;
  std::int64_t least() const { return std::min(quota, fair); }
};

std::array<Account, 3> accounts(const ClusterModel& s, QueueId at, PoolId pool,
                                const std::vector<Resources>& fair, const Resources& asked) {
  const Resources& used = s.sums(at, pool).allocated;
  const Bounds& quota = s.share(at, pool).quota;
  const Resources& share = fair[static_cast<std::size_t>(at)];
  return {Account{asked.gpu.value, used.gpu.value, quota.gpu.value_or(MilliGpu{}).value, share.gpu.value},
          Account{asked.cpu.value, used.cpu.value, quota.cpu ? quota.cpu->value : kUnbounded,
                  quota.cpu ? share.cpu.value : kUnbounded},
          Account{asked.memory.value, used.memory.value, quota.memory ? quota.memory->value : kUnbounded,
                  quota.memory ? share.memory.value : kUnbounded}};
}

bool within(const ClusterModel& s, const Claimant& c, QueueId at, Eligibility eligibility,
            const Resources& before) {
  const auto all = accounts(s, at, c.pool, *c.fair, c.asked);
  const auto had = std::array{before.gpu.value, before.cpu.value, before.memory.value};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Account& a = all[i];
    const std::int64_t bound = eligibility == Eligibility::kByQuota ? a.least() : a.fair;
    const std::int64_t with = c.placed ? a.used : wrapping_add(a.used, a.asked);
    if (a.asked > 0 && with > std::max(bound, had[i])) return false;
  }
  return true;
}

}  // namespace

bool is_eligible(const ClusterModel& s, const Claimant& c, Eligibility eligibility,
                 const std::vector<Resources>& before) {
  for (std::size_t i = 0; i < c.path.size(); ++i) {
    if (!within(s, c, c.path[i], eligibility, i == 0 ? Resources{} : before[i])) return false;
  }
  return true;
}

bool may_be_eligible(const ClusterModel& s, const Claimant& c, Eligibility eligibility) {
  return within(s, c, c.path.front(), eligibility, {});
}

bool may_give(const ClusterModel& s, const Claimant& c, Eligibility eligibility,
              const std::vector<QueueId>& path, const Resources& amounts) {
  for (const QueueId at : path) {
    if (std::find(c.path.begin(), c.path.end(), at) != c.path.end()) return true;  // the common ancestor
    const auto all = accounts(s, at, c.pool, *c.fair, c.asked);
    const bool over = std::any_of(all.begin(), all.end(), [&](const Account& a) {
      return a.asked > 0 && a.used > (eligibility == Eligibility::kByQuota ? a.quota : a.fair);
    });
    if (!over) return false;
    if (eligibility == Eligibility::kByQuota) continue;
    const auto parts = std::array{amounts.gpu.value, amounts.cpu.value, amounts.memory.value};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Account& a = all[i];
      if (a.asked > 0 && a.quota != kUnbounded && a.used >= a.least() && a.used - parts[i] < a.least())
        return false;
    }
  }
  return true;
}

Resources beyond_quota(const ClusterModel& s, QueueId leaf, PoolId pool) {
  const Resources& used = s.sums(leaf, pool).allocated;
  const Bounds& quota = s.share(leaf, pool).quota;
  Resources beyond{{}, MilliCpu{kUnbounded}, Bytes{kUnbounded}, 0};
  beyond.gpu = used.gpu - quota.gpu.value_or(MilliGpu{});
  if (quota.cpu) beyond.cpu = used.cpu - *quota.cpu;
  if (quota.memory) beyond.memory = used.memory - *quota.memory;
  return beyond;
}

bool exceeds(const Resources& amounts, const Resources& bound, const Resources& asked) {
  return (asked.gpu.value > 0 && amounts.gpu > bound.gpu) ||
         (asked.cpu.value > 0 && amounts.cpu > bound.cpu) ||
         (asked.memory.value > 0 && amounts.memory > bound.memory);
}

Duration min_runtime(const ClusterModel& s, const std::vector<QueueId>& path, bool reclaim) {
  for (const QueueId at : path) {
    const QueueSpec& spec = s.queue(at).spec;
    if (const auto& own = reclaim ? spec.reclaim_min_runtime : spec.preempt_min_runtime) return *own;
  }
  return {};
}

}  // namespace muster::placement
