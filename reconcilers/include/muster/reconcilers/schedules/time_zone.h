// Clocks on the wall somewhere, as the system's time zone database (tzdata) has them.
#pragma once

#include <chrono>
#include <expected>
#include <string>

namespace date {
class time_zone;
}

namespace muster::reconcilers {

// What a clock there shows.
using LocalTime = std::chrono::local_seconds;

class TimeZone {
 public:
  // "Europe/Paris"; "UTC" is known without a database. The first call reads the database's list, and the
  // first of each zone its file; they are kept as long as the process runs. The error is a sentence fragment.
  static std::expected<TimeZone, std::string> find(const std::string& name);

  LocalTime to_local(std::chrono::sys_seconds time) const;
  // A time that clocks there skip is the first instant after the gap, one that they show twice is the first
  // of the two.
  std::chrono::sys_seconds to_sys(LocalTime time) const;

 private:
  explicit TimeZone(const date::time_zone* zone) : zone_(zone) {}
  const date::time_zone* zone_;  // nullptr: UTC
};

}  // namespace muster::reconcilers
