#include "muster/reconcilers/usage/pool_account.h"

#include <algorithm>

#include "muster/common/saturating.h"

namespace muster::reconcilers {
namespace {

using common::saturating_add;
using common::saturating_multiply;
using std::chrono::days;

constexpr std::int64_t kMilli = 1000;

std::int64_t milli_gpus(const crds::Amounts& amounts) {
  return std::max<std::int64_t>(amounts.gpu.value_or(crds::MilliGpu{}).value, 0);
}

}  // namespace

void PoolAccount::Sum::add(std::int64_t capacity, std::int64_t free, std::int64_t seconds) {
  had = saturating_add(had, saturating_multiply(capacity, seconds));
  unallocated = saturating_add(unallocated, saturating_multiply(free, seconds));
}

PoolAccount::PoolAccount(const crds::NodePoolStatus& written)
    : counted_until_(written.usage.until),
      written_until_(written.usage.until),
      capacity_(milli_gpus(written.capacity)),
      free_(milli_gpus(written.free)) {
  const auto& usage = written.usage;
  total_.add(usage.gpu_seconds, usage.unallocated, kMilli);
  for (const auto& day : usage.days) {
    if (const auto date = crds::parse_day(day.date))
      days_[*date].add(day.gpu_seconds, day.unallocated, kMilli);
  }
}

void PoolAccount::look(const crds::Amounts& capacity, const crds::Amounts& free, crds::Time now) {
  if (counted_until_ && capacity_ > 0 && now > *counted_until_) {
    has_changed_ = true;
    total_.add(capacity_, free_, (now - *counted_until_).count());
    const auto first = std::chrono::floor<days>(now) - days{crds::UsageStatus::kMostDays - 1};
    for (auto at = std::max(*counted_until_, crds::Time{first}); at < now;) {
      const auto date = std::chrono::floor<days>(at);
      const auto until = std::min<crds::Time>(now, date + days{1});
      days_[date].add(capacity_, free_, (until - at).count());
      at = until;
    }
    while (days_.size() > crds::UsageStatus::kMostDays) days_.erase(days_.begin());
  }
  if (!counted_until_) has_changed_ = milli_gpus(capacity) > 0;
  if (counted_until_ || has_changed_) counted_until_ = std::max(now, counted_until_.value_or(now));
  capacity_ = milli_gpus(capacity);
  free_ = milli_gpus(free);
}

crds::CapacityUsage PoolAccount::status() {
  if (has_changed_) written_until_ = counted_until_;
  has_changed_ = false;
  crds::CapacityUsage usage;
  usage.until = written_until_;
  usage.gpu_seconds = total_.had / kMilli;
  usage.unallocated = total_.unallocated / kMilli;
  for (auto day = days_.rbegin(); day != days_.rend(); ++day)
    usage.days.push_back(
        {crds::day_text(day->first), day->second.had / kMilli, day->second.unallocated / kMilli});
  return usage;
}

}  // namespace muster::reconcilers
