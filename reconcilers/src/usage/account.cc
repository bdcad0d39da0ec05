#include "muster/reconcilers/usage/account.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/common/saturating.h"

namespace muster::reconcilers {
namespace {

using common::saturating_add;
using common::saturating_multiply;
using std::chrono::days;
using std::chrono::sys_days;

constexpr std::int64_t kMilli = 1000;
constexpr std::int64_t kMibInGib = 1024;
// Labels are free text. What a day keeps of them in memory is bounded; the rest is summed up.
constexpr std::size_t kMostUsersInMemory = 1000;
constexpr const char* kOthers = "others";

std::string text_of(sys_days date) {
  return crds::to_string(crds::Time{date}).substr(0, std::string_view("2026-01-31").size());
}

std::optional<sys_days> date_of(const std::string& text) {
  const auto midnight = crds::parse_time(text + "T00:00:00Z");
  if (!midnight) return std::nullopt;
  return std::chrono::floor<days>(*midnight);
}

Used read(const crds::Usage& u) {
  Used used;
  const auto gpus = [&](Doing doing, std::int64_t seconds) {
    used.held.gpus(doing) = saturating_multiply(seconds, kMilli);
  };
  gpus(Doing::kStarting, u.starting);
  gpus(Doing::kSaving, u.saving);
  gpus(Doing::kIdle, u.idle);
  gpus(Doing::kRunning, std::max<std::int64_t>(u.gpu_seconds - u.starting - u.saving - u.idle, 0));
  used.lost_milli = saturating_multiply(u.lost, kMilli);
  used.held.milli_cpus = saturating_multiply(u.cpu_seconds, kMilli);
  used.held.memory_mib = saturating_multiply(u.memory_gib_seconds, kMibInGib);
  return used;
}

crds::Usage write(Used used) {
  crds::Usage u;
  u.gpu_seconds = used.milli_gpu_seconds() / kMilli;
  u.starting = used.held.gpus(Doing::kStarting) / kMilli;
  u.saving = used.held.gpus(Doing::kSaving) / kMilli;
  u.idle = used.held.gpus(Doing::kIdle) / kMilli;
  u.lost = used.lost_milli / kMilli;
  u.cpu_seconds = used.held.milli_cpus / kMilli;
  u.memory_gib_seconds = used.held.memory_mib / kMibInGib;
  return u;
}

void add(Used& sum, const Used& part) {
  sum.held.add(part.held);
  sum.lost_milli = saturating_add(sum.lost_milli, part.lost_milli);
}

std::vector<crds::UsagePart> by_name(const std::map<std::string, std::int64_t>& parts) {
  std::vector<crds::UsagePart> all;
  for (const auto& [name, milli] : parts) all.push_back({name, milli / kMilli});
  return all;
}

std::vector<crds::UsagePart> most_first(const std::map<std::string, std::int64_t>& parts) {
  auto all = by_name(parts);
  std::ranges::stable_sort(all, std::ranges::greater{}, &crds::UsagePart::gpu_seconds);
  if (all.size() <= crds::UsageStatus::kMostUsers) return all;
  const auto rest = all.begin() + crds::UsageStatus::kMostUsers - 1;
  crds::UsagePart others{kOthers, 0};
  for (auto it = rest; it != all.end(); ++it)
    others.gpu_seconds = saturating_add(others.gpu_seconds, it->gpu_seconds);
  all.erase(rest, all.end());
  const auto known = std::ranges::find(all, others.name, &crds::UsagePart::name);
  if (known != all.end())
    known->gpu_seconds = saturating_add(known->gpu_seconds, others.gpu_seconds);
  else
    all.push_back(std::move(others));
  return all;
}

}  // namespace

void Held::add(const Held& other) {
  for (std::size_t i = 0; i < kDoings; ++i)
    milli_gpus[i] = saturating_add(milli_gpus[i], other.milli_gpus[i]);
  milli_cpus = saturating_add(milli_cpus, other.milli_cpus);
  memory_mib = saturating_add(memory_mib, other.memory_mib);
}

void Held::take(const Held& other) {
  for (std::size_t i = 0; i < kDoings; ++i) milli_gpus[i] -= other.milli_gpus[i];
  milli_cpus -= other.milli_cpus;
  memory_mib -= other.memory_mib;
}

void Used::add(const Held& amounts, std::int64_t seconds) {
  Held product;
  for (std::size_t i = 0; i < kDoings; ++i)
    product.milli_gpus[i] = saturating_multiply(amounts.milli_gpus[i], seconds);
  product.milli_cpus = saturating_multiply(amounts.milli_cpus, seconds);
  product.memory_mib = saturating_multiply(amounts.memory_mib, seconds);
  held.add(product);
}

std::int64_t Used::milli_gpu_seconds() const {
  return std::accumulate(held.milli_gpus.begin(), held.milli_gpus.end(), std::int64_t{0}, saturating_add);
}

Account::Account(const crds::UsageStatus& written)
    : counted_until_(written.until), written_until_(written.until), total_(read(written.total)) {
  for (const auto& day : written.days) {
    const auto date = date_of(day.date);
    if (!date) continue;
    Day& mine = days_[*date];
    add(mine.sum, read(day.sum));
    for (const auto& part : day.users) mine.users[part.name] += saturating_multiply(part.gpu_seconds, kMilli);
    for (const auto& part : day.pools) mine.pools[part.name] += saturating_multiply(part.gpu_seconds, kMilli);
  }
}

Account::Day& Account::day_of(sys_days date) {
  Day& day = days_[date];
  while (days_.size() > crds::UsageStatus::kMostDays && days_.begin()->first != date)
    days_.erase(days_.begin());
  return day;
}

void Account::count(const std::string& user, const std::string& pool, const Held& held, crds::Time begin,
                    crds::Time end) {
  if (begin >= end || held == Held{}) return;
  has_changed_ = true;
  total_.add(held, (end - begin).count());
  since_start_.add(held, (end - begin).count());
  Used all;
  all.add(held, 1);
  const std::int64_t gpus = all.milli_gpu_seconds();
  // Days that would be dropped at once are not made.
  const auto first = std::chrono::floor<days>(end) - days{crds::UsageStatus::kMostDays - 1};
  for (auto at = std::max(begin, crds::Time{first}); at < end;) {
    const auto date = std::chrono::floor<days>(at);
    const auto until = std::min<crds::Time>(end, date + days{1});
    const auto seconds = (until - at).count();
    Day& day = day_of(date);
    day.sum.add(held, seconds);
    const auto milli = saturating_multiply(gpus, seconds);
    if (milli > 0 && !user.empty()) {
      const bool is_kept = day.users.contains(user) || day.users.size() < kMostUsersInMemory;
      auto& of_user = day.users[is_kept ? user : kOthers];
      of_user = saturating_add(of_user, milli);
    }
    if (milli > 0 && !pool.empty()) {
      auto& of_pool = day.pools[pool];
      of_pool = saturating_add(of_pool, milli);
    }
    at = until;
  }
}

void Account::lose(std::int64_t gpu_seconds, crds::Time at) {
  if (gpu_seconds <= 0) return;
  has_changed_ = true;
  const auto milli = saturating_multiply(gpu_seconds, kMilli);
  for (Used* used : {&total_, &since_start_, &day_of(std::chrono::floor<days>(at)).sum})
    used->lost_milli = saturating_add(used->lost_milli, milli);
}

// The sums of the last days are others than yesterday.
bool Account::begins_a_day(crds::Time now) const {
  const auto today = std::chrono::floor<days>(now);
  const bool has_sums = !days_.empty() && days_.rbegin()->first >= today - days{crds::UsageStatus::kMostDays};
  return has_sums && written_until_ && std::chrono::floor<days>(*written_until_) < today;
}

crds::UsageStatus Account::status(crds::Time now) {
  if (has_changed_ || begins_a_day(now)) written_until_ = now;
  has_changed_ = has_ended_ = false;
  crds::UsageStatus status;
  status.until = written_until_;
  status.total = write(total_);
  if (!written_until_) return status;
  const auto today = std::chrono::floor<days>(*written_until_);
  Used week, month;
  for (auto it = days_.rbegin(); it != days_.rend(); ++it) {
    const auto& [date, day] = *it;
    if (date > today - days{30}) add(month, day.sum);
    if (date > today - days{7}) add(week, day.sum);
    status.days.push_back({text_of(date), write(day.sum), most_first(day.users), by_name(day.pools)});
  }
  status.last_30_days = write(month);
  status.last_7_days = write(week);
  return status;
}

}  // namespace muster::reconcilers
