#include <algorithm>
#include <charconv>

#include "muster/placement/node.h"

namespace muster::placement {
namespace {

bool to_integer(const std::string& text, std::int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool compares(const std::string& value, const std::vector<std::string>& bound, bool greater) {
  std::int64_t a = 0, b = 0;
  if (bound.size() != 1 || !to_integer(value, a) || !to_integer(bound[0], b)) return false;
  return greater ? a > b : a < b;
}

}  // namespace

bool matches(const Requirement& r, const Labels& labels) {
  const auto found = labels.find(r.key);
  const bool there = found != labels.end();
  const auto listed = [&] {
    return std::find(r.values.begin(), r.values.end(), found->second) != r.values.end();
  };
  switch (r.op) {
    case Operator::kIn:
      return there && listed();
    case Operator::kNotIn:
      return !there || !listed();
    case Operator::kExists:
      return there;
    case Operator::kDoesNotExist:
      return !there;
    case Operator::kGt:
      return there && compares(found->second, r.values, true);
    case Operator::kLt:
      return there && compares(found->second, r.values, false);
  }
  return false;
}

bool matches(const Term& term, const NodeSpec& node) {
  if (term.labels.empty() && term.fields.empty()) return false;
  const Labels name = {{"metadata.name", node.name}};
  return std::all_of(term.labels.begin(), term.labels.end(),
                     [&](const auto& r) { return matches(r, node.labels); }) &&
         std::all_of(term.fields.begin(), term.fields.end(), [&](const auto& r) { return matches(r, name); });
}

bool matches(const AnyOf& terms, const NodeSpec& node) {
  return terms.empty() ||
         std::any_of(terms.begin(), terms.end(), [&](const auto& t) { return matches(t, node); });
}

const Taint* untolerated(const NodeSpec& node, const std::vector<Toleration>& tolerations) {
  for (const Taint& taint : node.taints) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") continue;
    const bool tolerated = std::any_of(tolerations.begin(), tolerations.end(), [&](const Toleration& t) {
      if (!t.effect.empty() && t.effect != taint.effect) return false;
      if (t.key.empty()) return t.exists;
      return t.key == taint.key && (t.exists || t.value == taint.value);
    });
    if (!tolerated) return &taint;
  }
  return nullptr;
}

}  // namespace muster::placement
