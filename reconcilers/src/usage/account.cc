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
constexpr std::int64_t kHour = 3600;                // in seconds
constexpr std::int64_t kWattHour = kHour * kMilli;  // in milliwatt-seconds
// Labels are free text. What a day keeps of them in memory is bounded; the rest is summed up.
constexpr std::size_t kMostUsersInMemory = 1000;
constexpr const char* kOthers = "others";

std::int64_t read_cost(const std::optional<crds::MilliCost>& cost) {
  return cost ? saturating_multiply(cost->value, kHour) : 0;
}
std::optional<crds::MilliCost> write_cost(std::int64_t hourly_cost) {
  if (hourly_cost < kHour) return std::nullopt;
  return crds::MilliCost{hourly_cost / kHour};
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
  used.hourly_cost = read_cost(u.cost);
  used.milliwatt_seconds = saturating_multiply(u.watt_hours, kWattHour);
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
  u.cost = write_cost(used.hourly_cost);
  u.watt_hours = used.milliwatt_seconds / kWattHour;
  return u;
}

void add(Used& sum, const Used& part) {
  sum.held.add(part.held);
  sum.lost_milli = saturating_add(sum.lost_milli, part.lost_milli);
  sum.hourly_cost = saturating_add(sum.hourly_cost, part.hourly_cost);
  sum.milliwatt_seconds = saturating_add(sum.milliwatt_seconds, part.milliwatt_seconds);
}

}  // namespace

void Held::add(const Held& other) {
  for (std::size_t i = 0; i < kDoings; ++i)
    milli_gpus[i] = saturating_add(milli_gpus[i], other.milli_gpus[i]);
  milli_cpus = saturating_add(milli_cpus, other.milli_cpus);
  memory_mib = saturating_add(memory_mib, other.memory_mib);
  read_milliwatts = saturating_add(read_milliwatts, other.read_milliwatts);
  read_milli_gpus = saturating_add(read_milli_gpus, other.read_milli_gpus);
}

void Held::take(const Held& other) {
  for (std::size_t i = 0; i < kDoings; ++i) milli_gpus[i] -= other.milli_gpus[i];
  milli_cpus -= other.milli_cpus;
  memory_mib -= other.memory_mib;
  read_milliwatts -= other.read_milliwatts;
  read_milli_gpus -= other.read_milli_gpus;
}

std::int64_t Held::all_milli_gpus() const {
  return std::accumulate(milli_gpus.begin(), milli_gpus.end(), std::int64_t{0}, saturating_add);
}

void Used::add(const Held& amounts, const Rates& rates, std::int64_t seconds) {
  Held product;
  for (std::size_t i = 0; i < kDoings; ++i)
    product.milli_gpus[i] = saturating_multiply(amounts.milli_gpus[i], seconds);
  product.milli_cpus = saturating_multiply(amounts.milli_cpus, seconds);
  product.memory_mib = saturating_multiply(amounts.memory_mib, seconds);
  held.add(product);
  const std::int64_t gpus = amounts.all_milli_gpus();
  const std::int64_t an_hour = saturating_multiply(gpus, rates.price.value) / kMilli;
  hourly_cost = saturating_add(hourly_cost, saturating_multiply(an_hour, seconds));
  const std::int64_t not_read = std::max<std::int64_t>(gpus - amounts.read_milli_gpus, 0);
  const std::int64_t power =
      saturating_add(amounts.read_milliwatts, saturating_multiply(not_read, rates.watts));
  milliwatt_seconds = saturating_add(milliwatt_seconds, saturating_multiply(power, seconds));
}

Account::PartSums Account::read(const std::vector<crds::UsagePart>& written) {
  PartSums sums;
  for (const auto& part : written) {
    const crds::Usage usage{.gpu_seconds = part.gpu_seconds,
                            .starting = part.starting,
                            .saving = part.saving,
                            .idle = part.idle,
                            .lost = part.lost,
                            .cost = part.cost,
                            .watt_hours = part.watt_hours};
    reconcilers::add(sums[part.name], reconcilers::read(usage));
  }
  return sums;
}

std::vector<crds::UsagePart> Account::by_name(const PartSums& parts) {
  std::vector<crds::UsagePart> all;
  for (const auto& [name, sum] : parts) {
    if (all.size() == crds::UsageStatus::kMostParts) break;
    const crds::Usage u = write(sum);
    all.push_back({name, u.gpu_seconds, u.cost, u.watt_hours, u.starting, u.saving, u.idle, u.lost});
  }
  return all;
}

std::vector<crds::UsagePart> Account::most_first(PartSums parts) {
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [name, sum] : parts) {
    if (name != kOthers) order.emplace_back(-sum.milli_gpu_seconds(), name);
  }
  std::ranges::sort(order);
  for (std::size_t i = crds::UsageStatus::kMostUsers - 1;
       parts.size() > crds::UsageStatus::kMostUsers && i < order.size(); ++i) {
    const auto moved = parts.extract(order[i].second);
    add(parts[kOthers], moved.mapped());
  }
  auto all = by_name(parts);
  std::ranges::stable_sort(all, [](const crds::UsagePart& a, const crds::UsagePart& b) {
    const bool is_last = a.name == kOthers;
    if (is_last != (b.name == kOthers)) return !is_last;
    return a.gpu_seconds > b.gpu_seconds;
  });
  return all;
}

Account::Account(const crds::UsageStatus& written)
    : counted_until_(written.until), written_until_(written.until), total_(reconcilers::read(written.total)) {
  for (const auto& day : written.days) {
    const auto date = crds::parse_day(day.date);
    if (!date) continue;
    days_[*date] = {reconcilers::read(day.sum), read(day.users), read(day.pools), read(day.models),
                    day.waits};
  }
}

Account::Day& Account::day_of(sys_days date) {
  Day& day = days_[date];
  while (days_.size() > crds::UsageStatus::kMostDays && days_.begin()->first != date)
    days_.erase(days_.begin());
  return day;
}

void Account::count(const Part& part, const Held& held, const Rates& rates, crds::Time begin, crds::Time end,
                    std::optional<crds::Time> told) {
  if (begin >= end || held == Held{}) return;
  has_changed_ = true;
  total_.add(held, rates, (end - begin).count());
  const auto untold = std::max(begin, told.value_or(begin));
  if (untold < end) since_start_.add(held, rates, (end - untold).count());
  // Days that would be dropped at once are not made.
  const auto first = std::chrono::floor<days>(end) - days{crds::UsageStatus::kMostDays - 1};
  for (auto at = std::max(begin, crds::Time{first}); at < end;) {
    const auto date = std::chrono::floor<days>(at);
    const auto until = std::min<crds::Time>(end, date + days{1});
    Used used;
    used.add(held, rates, (until - at).count());
    Day& day = day_of(date);
    reconcilers::add(day.sum, used);
    at = until;
    if (used.milli_gpu_seconds() > 0) add_to_parts(day, part, used);
  }
}

void Account::add_to_parts(Day& day, const Part& part, const Used& used) {
  const bool is_kept = day.users.contains(part.user) || day.users.size() < kMostUsersInMemory;
  if (!part.user.empty()) add(day.users[is_kept ? part.user : kOthers], used);
  if (!part.pool.empty()) add(day.pools[part.pool], used);
  if (!part.model.empty()) add(day.models[part.model], used);
}

void Account::lose(const Part& part, std::int64_t gpu_seconds, crds::Time at) {
  if (gpu_seconds <= 0) return;
  has_changed_ = true;
  Used lost;
  lost.lost_milli = saturating_multiply(gpu_seconds, kMilli);
  Day& day = day_of(std::chrono::floor<days>(at));
  for (Used* used : {&total_, &since_start_, &day.sum}) add(*used, lost);
  add_to_parts(day, part, lost);
}

void Account::note_start(std::int64_t waited_seconds, crds::Time at) {
  const auto seconds = std::max<std::int64_t>(waited_seconds, 0);
  const auto date = std::chrono::floor<days>(at);
  if (days_.size() >= crds::UsageStatus::kMostDays && date < days_.begin()->first)
    return;  // it would be dropped
  has_changed_ = true;
  auto& waits = day_of(date).waits;
  waits.starts = saturating_add(waits.starts, 1);
  waits.seconds = saturating_add(waits.seconds, seconds);
  waits.longest = std::max(waits.longest, seconds);
}

std::optional<std::int64_t> Account::usual_watts(const std::string& pool) const {
  constexpr std::int64_t kFewest = kHour * kMilli;  // a GPU for an hour: sums of less are too coarse
  for (auto day = days_.rbegin(); day != days_.rend(); ++day) {
    const auto part = day->second.pools.find(pool);
    if (part == day->second.pools.end()) continue;
    const auto gpu_seconds = part->second.milli_gpu_seconds();
    const auto milliwatt_seconds = part->second.milliwatt_seconds;
    if (gpu_seconds >= kFewest && milliwatt_seconds > 0) return milliwatt_seconds / gpu_seconds;
  }
  return std::nullopt;
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
    status.days.push_back({crds::day_text(date), write(day.sum), most_first(day.users), by_name(day.pools),
                           by_name(day.models), day.waits});
  }
  status.last_30_days = write(month);
  status.last_7_days = write(week);
  return status;
}

}  // namespace muster::reconcilers
