// What holds of a Queue or Project at an instant, when its spec has schedules. Pure but for the time zone
// database, which is read once: the operator, `muster simulate` and `kubectl muster` ask the same function.
// decisions/0065 says why it is so.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/error.h"
#include "muster/crds/project.h"
#include "muster/crds/queue.h"

namespace muster::reconcilers {

// A schedule that lasts longer is refused.
inline constexpr crds::Duration kMaxScheduled = std::chrono::hours{24 * 366};

// From `begin` until `end` admission will be Drain, and after that not for `open_after`; absent: never again.
struct Drain {
  crds::Time begin, end;
  std::optional<crds::Duration> open_after;
};

template <class Spec>
struct EffectiveSpec {
  Spec spec;  // as it holds now; `schedules` as stated
  // When something else holds, and what. An empty message: nothing else does then, but nobody has looked
  // further ahead. Absent: nothing ever changes.
  std::optional<crds::NextChange> next_change{};
  // The next one, when admission is not Drain now.
  std::optional<Drain> coming_drain{};
  // When admission will be Open again, where it is not now.
  std::optional<crds::Time> opens{};
  // When quota or limit will be others, and the spec that holds then.
  std::optional<std::pair<crds::Time, Spec>> coming_bounds{};
  std::vector<std::string> problems{};  // of entries that do not count: "spec.schedules[1].start: must …"
  std::string in_force{};               // which entries hold, and what differs from the spec; "": none
};

// Complexity: O(entries x starts until something changes), with a bound.
EffectiveSpec<crds::QueueSpec> effective_spec(const crds::QueueSpec& spec, crds::Time now);
EffectiveSpec<crds::ProjectSpec> effective_spec(const crds::ProjectSpec& spec, crds::Time now);

// The same problems, of a Queue or Project as it is in a file; none of any other object.
std::vector<crds::FieldError> schedule_errors(const crds::Json& object);

}  // namespace muster::reconcilers
