// When an entry of a list of schedules holds.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/crds/common.h"
#include "muster/reconcilers/schedules/cron.h"
#include "muster/reconcilers/schedules/time_zone.h"

namespace muster::reconcilers {

struct Window {
  std::size_t entry;  // of the list
  Cron cron;
  TimeZone zone;
  std::chrono::seconds duration;

  // At or before `now`; absent: it would be over by now.
  std::optional<crds::Time> last_start(crds::Time now) const;
  std::optional<crds::Time> next_start(crds::Time after) const;
  bool holds(crds::Time now) const { return last_start(now).has_value(); }
  // It may begin or end then.
  std::optional<crds::Time> next_boundary(crds::Time after) const;
};

// Nothing where the entry is not well formed; `problems` gets a sentence for each field that is not:
// "spec.schedules[1].start: must …".
std::optional<Window> window_of(const std::string& start, const std::string& time_zone,
                                crds::Duration duration, std::string_view list, std::size_t entry,
                                std::vector<std::string>& problems);
template <class Entry>
std::optional<Window> window_of(const Entry& stated, std::string_view list, std::size_t entry,
                                std::vector<std::string>& problems) {
  return window_of(stated.start, stated.time_zone, stated.duration, list, entry, problems);
}

std::optional<crds::Time> first_boundary(const std::vector<Window>& windows, crds::Time after);

}  // namespace muster::reconcilers
