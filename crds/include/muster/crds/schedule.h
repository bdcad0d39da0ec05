// Times at which other amounts hold for a Queue or Project than its spec says.
#pragma once

#include <string>

#include "muster/crds/common.h"

namespace muster::crds {

// `Set`: what holds then. Of several that hold at once, the later in the list wins, field by field.
template <class Set>
struct Schedule {
  std::string start;              // a cron expression of five fields
  Duration duration{};            // from each start on
  std::string time_zone = "UTC";  // a name of the IANA database
  Set set{};

  static constexpr auto fields() {
    using T = Schedule;
    return fields_of(field("start", &T::start), field("duration", &T::duration),
                     field("timeZone", &T::time_zone), field("set", &T::set));
  }
  bool operator==(const Schedule&) const = default;
};

// In the default pool. What is absent stays as the spec has it, also single resources.
struct ScheduledSet {
  AmountsByModel quota;
  Amounts reserved, limit;
  std::optional<std::int32_t> weight;
  std::optional<Admission> admission;

  static constexpr auto fields() {
    using T = ScheduledSet;
    return fields_of(field("quota", &T::quota), field("reserved", &T::reserved), field("limit", &T::limit),
                     field("weight", &T::weight), field("admission", &T::admission));
  }
  bool operator==(const ScheduledSet&) const = default;
};

// When something else begins to hold, and what.
struct NextChange {
  Time at{};
  std::string message;

  static constexpr auto fields() {
    return fields_of(field("at", &NextChange::at), field("message", &NextChange::message));
  }
  bool operator==(const NextChange&) const = default;
};

}  // namespace muster::crds
