#include "explain/words.h"

#include <array>
#include <chrono>
#include <cstdio>

namespace muster::placement {

std::string join(const std::vector<std::string>& list, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < list.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + list[i];
  if (list.size() > most) text += ", …";
  return text;
}

std::string who(const QueueSpec& spec) {
  return (spec.is_project ? "Project " : "Queue ") + spec.name;
}

std::string show(std::string_view resource, std::int64_t amount) {
  if (resource == "gpu" || resource == "cpu") {
    return amount % 1000 == 0 ? std::to_string(amount / 1000) : std::to_string(amount) + "m";
  }
  if (resource != "memory") return std::to_string(amount);
  static constexpr std::array<const char*, 6> kSuffix = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  std::size_t i = 0;
  while (i + 1 < kSuffix.size() && amount != 0 && amount % 1024 == 0) amount /= 1024, ++i;
  return std::to_string(amount) + kSuffix[i];
}

std::string show(Time at) {
  const auto t = std::chrono::ceil<std::chrono::seconds>(
      std::chrono::sys_time<std::chrono::milliseconds>{std::chrono::milliseconds{at.ms}});
  const auto midnight = std::chrono::floor<std::chrono::days>(t);
  const std::chrono::year_month_day day{midnight};
  const std::chrono::hh_mm_ss clock{t - midnight};
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(day.year()),
                static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text.data();
}

}  // namespace muster::placement
