#include "muster/crds/node_pool.h"

#include <algorithm>

namespace muster::crds {
namespace {

bool meets(const SelectorRequirement& requirement, const StringMap& labels) {
  const auto it = labels.find(requirement.key);
  const bool there = it != labels.end();
  const bool among = there && std::ranges::find(requirement.values, it->second) != requirement.values.end();
  switch (requirement.op) {
    case SelectorOperator::kIn:
      return among;
    case SelectorOperator::kNotIn:
      return !among;
    case SelectorOperator::kExists:
      return there;
    case SelectorOperator::kDoesNotExist:
      return !there;
  }
  return false;
}

}  // namespace

bool matches(const LabelSelector& selector, const StringMap& labels) {
  const bool labels_match = std::ranges::all_of(selector.match_labels, [&](const auto& wanted) {
    const auto it = labels.find(wanted.first);
    return it != labels.end() && it->second == wanted.second;
  });
  return labels_match &&
         std::ranges::all_of(selector.match_expressions, [&](const auto& r) { return meets(r, labels); });
}

}  // namespace muster::crds
