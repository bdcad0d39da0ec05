// Cron expressions of five fields, as crontab(5) has them: minute, hour, day of the month, month, day of the
// week. decisions/0065 says why they are read here.
#pragma once

#include <bitset>
#include <chrono>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace muster::reconcilers {

class Cron {
 public:
  // A field is a list of `*`, numbers and ranges, `*` and ranges also with a step: "0,30", "9-17/2", "*/15".
  // Months and days of the week have their English names of three letters too; Sunday is 0 and 7. The error
  // is a sentence fragment that names the field and says what is allowed.
  static std::expected<Cron, std::string> parse(std::string_view text);

  // Where both the day of the month and that of the week are restricted (begin with no `*`), one is enough.
  bool falls_on(std::chrono::year_month_day day) const;
  // The first start of such a day at or after this minute of the day, and the last at or before it.
  std::optional<std::chrono::minutes> first_from(std::chrono::minutes of_day) const;
  std::optional<std::chrono::minutes> last_until(std::chrono::minutes of_day) const;

 private:
  std::bitset<60> minutes_;
  std::bitset<24> hours_;
  std::bitset<32> days_;
  std::bitset<13> months_;
  std::bitset<8> weekdays_;  // from Sunday, 0
  bool any_day_ = false, any_weekday_ = false;
};

}  // namespace muster::reconcilers
