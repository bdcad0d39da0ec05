#include "muster/crds/condition.h"

#include <algorithm>

#include "muster/crds/text.h"

namespace muster::crds {
namespace {

constexpr std::size_t kMaxMessage = 4096;

}  // namespace

const Condition* find_condition(const Conditions& conditions, std::string_view type) {
  const auto it = std::ranges::find(conditions, type, &Condition::type);
  return it == conditions.end() ? nullptr : &*it;
}

bool is_true(const Conditions& conditions, std::string_view type) {
  const Condition* condition = find_condition(conditions, type);
  return condition != nullptr && condition->status == ConditionStatus::kTrue;
}

bool set_condition(Conditions& conditions, Condition wanted) {
  wanted.message = cut(wanted.message, kMaxMessage);
  const auto it = std::ranges::find(conditions, wanted.type, &Condition::type);
  if (it == conditions.end()) {
    conditions.push_back(std::move(wanted));
    return true;
  }
  if (it->status == wanted.status) wanted.last_transition_time = it->last_transition_time;
  if (*it == wanted) return false;
  *it = std::move(wanted);
  return true;
}

}  // namespace muster::crds
