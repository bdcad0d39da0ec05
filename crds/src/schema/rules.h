// The twins of the schemas' CEL rules.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "muster/crds/common.h"

namespace muster::crds {

struct RuleTwin {
  std::string_view cel;  // the rule's text, to the letter: whoever edits the rule must look at its twin
  // `self` has passed its schema and has its defaults; `old_self` is null only for rules that do
  // not mention it.
  bool (*holds)(const Json& self, const Json* old_self);
};
std::span<const RuleTwin> rule_twins();
// nullptr: a rule without a twin, which a test forbids.
const RuleTwin* find_twin(std::string_view cel);

}  // namespace muster::crds
