// Conditions (metav1.Condition): a map list keyed by type.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/field.h"
#include "muster/crds/time.h"

namespace muster::crds {

enum class ConditionStatus : std::uint8_t { kUnknown, kTrue, kFalse };
constexpr std::array<std::string_view, 3> names_of(ConditionStatus) {
  return {"Unknown", "True", "False"};
}

struct Condition {
  std::string type;
  ConditionStatus status = ConditionStatus::kUnknown;
  std::int64_t observed_generation = 0;
  Time last_transition_time{};
  std::string reason;   // CamelCase, never empty
  std::string message;  // a sentence a person can act on

  static constexpr auto fields() {
    using T = Condition;
    return fields_of(field("type", &T::type), field("status", &T::status),
                     field("observedGeneration", &T::observed_generation),
                     field("lastTransitionTime", &T::last_transition_time), field("reason", &T::reason),
                     field("message", &T::message));
  }
  bool operator==(const Condition&) const = default;
};
using Conditions = std::vector<Condition>;

// nullptr: no condition of this type.
const Condition* find_condition(const Conditions& conditions, std::string_view type);
// The condition of this type is there and True.
bool is_true(const Conditions& conditions, std::string_view type);
// Sets or adds the condition of `wanted.type`. While the status does not change, its lastTransitionTime stays
// as it was; otherwise wanted.last_transition_time counts. Messages are cut to the schema's 4096 characters.
// True: something has changed.
bool set_condition(Conditions& conditions, Condition wanted);

}  // namespace muster::crds
