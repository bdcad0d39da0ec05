#include "show/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "output/text.h"

namespace muster::plugin {
namespace {

constexpr std::int64_t kSecondsPerHour = 3600;

// The first day that counts, as the days of status.usage are written. `until` says what today is: the sums of
// the operator go by it too.
std::string first_day(crds::Time until, Since since) {
  const int days = since == Since::kDay ? 0 : since == Since::kWeek ? 6 : 29;
  return crds::day_text(std::chrono::floor<std::chrono::days>(until) - std::chrono::days(days));
}

crds::Usage today(const crds::UsageStatus& usage) {
  if (!usage.until || usage.days.empty()) return {};
  const auto& newest = usage.days.front();
  return newest.date == first_day(*usage.until, Since::kDay) ? newest.sum : crds::Usage{};
}

crds::Usage sum_of(const crds::UsageStatus& usage, Since since) {
  switch (since) {
    case Since::kDay:
      return today(usage);
    case Since::kWeek:
      return usage.last_7_days;
    case Since::kMonth:
      return usage.last_30_days;
    case Since::kAll:
      return usage.total;
  }
  return {};
}

template <class Kind>
std::vector<UsageLine> by_object(const std::vector<Kind>& objects, Since since) {
  std::vector<UsageLine> lines;
  for (const Kind& object : objects) {
    const auto& usage = object.status.usage;
    lines.push_back({object.metadata.name, sum_of(usage, since), true, true, true, usage.until});
  }
  std::ranges::sort(lines, {}, &UsageLine::name);
  return lines;
}

void most_first(std::vector<UsageLine>& lines) {
  std::ranges::stable_sort(lines, std::ranges::greater{},
                           [](const UsageLine& line) { return line.used.gpu_seconds; });
}

std::optional<crds::Time> earlier(std::optional<crds::Time> a, std::optional<crds::Time> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// `parts`: the users, pools or models of a day.
std::vector<UsageLine> by_part(const std::vector<crds::Project>& projects, Since since,
                               std::vector<crds::UsagePart> crds::UsageDay::* parts) {
  std::map<std::string, UsageLine> by_name;
  for (const auto& project : projects) {
    const auto& usage = project.status.usage;
    if (!usage.until) continue;
    const std::string first = first_day(*usage.until, since);
    for (const auto& day : usage.days) {
      if (day.date < first) continue;
      for (const auto& part : day.*parts) {
        UsageLine& line = by_name[part.name];
        line.used.gpu_seconds += part.gpu_seconds;
        line.used.starting += part.starting;
        line.used.saving += part.saving;
        line.used.idle += part.idle;
        line.used.lost += part.lost;
        line.used.watt_hours += part.watt_hours;
        if (part.cost) line.used.cost = line.used.cost.value_or(crds::MilliCost{}) + *part.cost;
        line.until = earlier(line.until, usage.until);
      }
    }
  }
  std::vector<UsageLine> lines;
  for (auto& [name, line] : by_name) {
    line.name = name.empty() ? "(none)" : name;
    line.has_cpus = false;
    lines.push_back(std::move(line));
  }
  most_first(lines);
  return lines;
}

bool has_gpus(const crds::TrainingJob& job) {
  const auto asks = [](const auto& role) { return role.gpus.has_value(); };
  return (job.status.allocated.gpu && job.status.allocated.gpu->value > 0) ||
         std::ranges::any_of(job.spec.roles, asks) || std::ranges::any_of(job.status.effective.roles, asks);
}

std::int64_t gpu_seconds_now(const crds::TrainingJobStatus& status, crds::Time now) {
  const auto& a = status.assignment;
  if (a.attempt == 0 || !a.admitted_at || !status.allocated.gpu) return 0;
  const auto since = std::max(*a.admitted_at, a.resized_at.value_or(*a.admitted_at));
  const std::int64_t seconds = std::max<std::int64_t>((now - since).count(), 0);
  return (*status.allocated.gpu * seconds).value / 1000;
}

std::string one_decimal(std::int64_t seconds) {
  const std::int64_t tenths = (seconds * 10 + kSecondsPerHour / 2) / kSecondsPerHour;
  return fmt::format("{}.{}", tenths / 10, tenths % 10);
}
Cell hours(std::int64_t seconds) {
  constexpr double kDecimals = 1000;
  const std::int64_t thousandths = seconds * 1000 / kSecondsPerHour;
  return {one_decimal(seconds), static_cast<double>(thousandths) / kDecimals};
}

Cell useful(const UsageLine& line) {
  const auto& u = line.used;
  if (u.gpu_seconds <= 0 || !line.has_lost) return {};
  const std::int64_t useless = u.starting + u.saving + u.idle + u.lost;
  const std::int64_t percent =
      std::clamp<std::int64_t>(u.gpu_seconds - useless, 0, u.gpu_seconds) * 100 / u.gpu_seconds;
  return {fmt::format("{}%", percent), percent};
}

// To the hundredth, rounded down; in data to the thousandth, as a number.
Cell money(const std::optional<crds::MilliCost>& cost) {
  if (!cost) return {};
  constexpr double kDecimals = 1000;
  return {fmt::format("{}.{:02}", cost->value / 1000, cost->value % 1000 / 10),
          static_cast<double>(cost->value) / kDecimals};
}
Cell kilowatt_hours(std::int64_t watt_hours) {
  if (watt_hours == 0) return {};
  constexpr double kDecimals = 1000;
  return {fmt::format("{}.{}", watt_hours / 1000, watt_hours % 1000 / 100),
          static_cast<double>(watt_hours) / kDecimals};
}

std::string until_text(std::optional<crds::Time> until, crds::Time now) {
  if (!until) return "Nothing is counted yet.\n";
  return fmt::format("GPU-hours, until {} ({} ago).\n", crds::to_string(*until), for_people(now - *until));
}

}  // namespace

std::vector<UsageLine> usage_by_project(const std::vector<crds::Project>& projects, Since since) {
  return by_object(projects, since);
}
std::vector<UsageLine> usage_by_queue(const std::vector<crds::Queue>& queues, Since since) {
  return by_object(queues, since);
}
std::vector<UsageLine> usage_by_user(const std::vector<crds::Project>& projects, Since since) {
  return by_part(projects, since, &crds::UsageDay::users);
}
std::vector<UsageLine> usage_by_pool(const std::vector<crds::Project>& projects, Since since,
                                     const std::vector<crds::NodePool>& pools) {
  auto lines = by_part(projects, since, &crds::UsageDay::pools);
  for (const auto& pool : pools) {
    const auto& usage = pool.status.usage;
    if (!usage.until) continue;
    auto line = std::ranges::find(lines, pool.metadata.name, &UsageLine::name);
    if (line == lines.end())
      line = lines.insert(line, {pool.metadata.name, {}, true, true, false, usage.until});
    line->unallocated = 0;
    for (const auto& day : usage.days) {
      if (day.date >= first_day(*usage.until, since)) *line->unallocated += day.unallocated;
    }
  }
  return lines;
}

std::vector<UsageLine> usage_by_model(const std::vector<crds::Project>& projects, Since since) {
  return by_part(projects, since, &crds::UsageDay::models);
}

std::vector<UsageLine> usage_by_job(const std::vector<crds::TrainingJob>& jobs, crds::Time now) {
  std::vector<UsageLine> lines;
  for (const auto& job : jobs) {
    if (!has_gpus(job) || job.spec.array) continue;  // an array's indexes are listed
    const auto& past = job.status.disruption;
    UsageLine line{name_of(job.metadata), {}, false, true, false, now};
    line.used.gpu_seconds = past.ran + gpu_seconds_now(job.status, now);
    line.used.lost = past.lost_optional + past.lost_owed;
    lines.push_back(std::move(line));
  }
  std::ranges::sort(lines, {}, &UsageLine::name);
  most_first(lines);
  return lines;
}

Listing usage(const std::vector<UsageLine>& lines, const std::string& title, crds::Time now) {
  std::string key = title;
  std::ranges::transform(key, key.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool has_cost = std::ranges::any_of(lines, [](const auto& l) { return l.used.cost.has_value(); });
  const bool has_energy = std::ranges::any_of(lines, [](const auto& l) { return l.used.watt_hours > 0; });
  const bool has_unallocated =
      std::ranges::any_of(lines, [](const auto& l) { return l.unallocated.has_value(); });
  // Where no pool says what its GPUs cost or draw, tables do without.
  const auto shown_if = [](bool any) { return any ? Shown::kEverywhere : Shown::kData; };
  Listing listing;
  listing.columns = {{title, key},
                     {"GPU-HOURS", "gpuHours"},
                     {"USEFUL", "usefulPercent"},
                     {"STARTING", "startingHours"},
                     {"SAVING", "savingHours"},
                     {"IDLE", "idleHours"},
                     {"LOST", "lostHours"},
                     {"UNALLOCATED", "unallocatedHours", shown_if(has_unallocated)},
                     {"COST", "cost", shown_if(has_cost)},
                     {"KWH", "kilowattHours", shown_if(has_energy)},
                     {"CPU-HOURS", "cpuHours", Shown::kWideAndData},
                     {"GIB-HOURS", "memoryGiBHours", Shown::kWideAndData},
                     {"UNTIL", "until", Shown::kWideAndData}};
  std::optional<crds::Time> until;
  for (const auto& line : lines) {
    until = earlier(until, line.until);
    const auto& u = line.used;
    const auto part = [&](std::int64_t seconds) { return line.has_parts ? hours(seconds) : Cell{}; };
    const auto of_cpus = [&](std::int64_t seconds) { return line.has_cpus ? hours(seconds) : Cell{}; };
    listing.rows.push_back(
        {{cell(line.name), hours(u.gpu_seconds), useful(line), part(u.starting), part(u.saving), part(u.idle),
          line.has_lost ? hours(u.lost) : Cell{}, line.unallocated ? hours(*line.unallocated) : Cell{},
          money(u.cost), kilowatt_hours(u.watt_hours), of_cpus(u.cpu_seconds), of_cpus(u.memory_gib_seconds),
          line.until ? cell(crds::to_string(*line.until)) : Cell{}}});
  }
  if (until) listing.about["until"] = crds::to_string(*until);
  listing.footer = until_text(until, now);
  listing.if_empty = "Nothing is counted yet.\n";
  return listing;
}

}  // namespace muster::plugin
