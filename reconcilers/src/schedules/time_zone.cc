#include "muster/reconcilers/schedules/time_zone.h"

#include <date/tz.h>

#include <stdexcept>

namespace muster::reconcilers {

std::expected<TimeZone, std::string> TimeZone::find(const std::string& name) {
  if (name == "UTC") return TimeZone(nullptr);
  try {
    return TimeZone(date::locate_zone(name));
  } catch (const std::runtime_error&) {
    return std::unexpected(
        "must be a name of the IANA time zone database such as Europe/Paris, or UTC; there is no \"" + name +
        "\" in /usr/share/zoneinfo");
  }
}

LocalTime TimeZone::to_local(std::chrono::sys_seconds time) const {
  const auto offset = zone_ == nullptr ? std::chrono::seconds{0} : zone_->get_info(time).offset;
  return LocalTime{time.time_since_epoch() + offset};
}

std::chrono::sys_seconds TimeZone::to_sys(LocalTime time) const {
  if (zone_ == nullptr) return std::chrono::sys_seconds{time.time_since_epoch()};
  const auto info = zone_->get_info(date::local_seconds{time.time_since_epoch()});
  if (info.result == date::local_info::nonexistent) return info.second.begin;
  return std::chrono::sys_seconds{time.time_since_epoch() - info.first.offset};
}

}  // namespace muster::reconcilers
