#include "pods/template/node_terms.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

namespace muster::reconcilers {
namespace {

std::optional<NodeOperator> operator_of(std::string_view word) {
  // In the order of placement::Operator.
  constexpr std::array<std::string_view, 6> names = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"};
  const auto found = std::ranges::find(names, word);
  if (found == names.end()) return std::nullopt;
  return static_cast<NodeOperator>(found - names.begin());
}

bool is_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// What the API server demands of the values; empty: they are right.
std::string problem_of(const NodeRequirement& r) {
  switch (r.op) {
    case NodeOperator::kIn:
    case NodeOperator::kNotIn:
      return r.values.empty() ? "must have at least one value for In and NotIn" : "";
    case NodeOperator::kExists:
    case NodeOperator::kDoesNotExist:
      return r.values.empty() ? "" : "must be left out for Exists and DoesNotExist";
    case NodeOperator::kGt:
    case NodeOperator::kLt:
      return r.values.size() == 1 && is_integer(r.values[0]) ? "" : "must be one integer for Gt and Lt";
  }
  return {};
}

crds::Result<std::vector<NodeRequirement>> read_requirements(const Json* list, const std::string& field) {
  std::vector<NodeRequirement> all;
  for (const Json& item : items(list)) {
    const std::string at = field + "[" + std::to_string(all.size()) + "]";
    NodeRequirement r;
    r.key = text(find(item, "key"));
    if (r.key.empty()) return wrong(at + ".key", "is required");
    const auto op = operator_of(text(find(item, "operator")));
    if (!op) return wrong(at + ".operator", "must be In, NotIn, Exists, DoesNotExist, Gt or Lt");
    r.op = *op;
    for (const Json& value : items(find(item, "values"))) r.values.push_back(text(&value));
    if (auto problem = problem_of(r); !problem.empty()) return wrong(at + ".values", std::move(problem));
    all.push_back(std::move(r));
  }
  return all;
}

}  // namespace

crds::Result<std::vector<NodeRequirement>> read_label_selector(const Json* selector,
                                                               const std::string& field) {
  std::vector<NodeRequirement> all;
  if (const Json* labels = find(selector, "matchLabels"); labels != nullptr && labels->is_object()) {
    for (const auto& [key, value] : labels->items()) all.push_back({key, NodeOperator::kIn, {text(&value)}});
  }
  auto expressions = read_requirements(find(selector, "matchExpressions"), field + ".matchExpressions");
  if (!expressions) return expressions;
  all.insert(all.end(), expressions->begin(), expressions->end());
  return all;
}

crds::Result<NodeTerm> read_node_term(const Json& term, const std::string& field) {
  NodeTerm out;
  auto labels = read_requirements(find(term, "matchExpressions"), field + ".matchExpressions");
  if (!labels) return std::unexpected(labels.error());
  auto fields = read_requirements(find(term, "matchFields"), field + ".matchFields");
  if (!fields) return std::unexpected(fields.error());
  for (std::size_t i = 0; i < fields->size(); ++i) {
    const NodeRequirement& r = (*fields)[i];
    const std::string at = field + ".matchFields[" + std::to_string(i) + "]";
    if (r.key != "metadata.name") return wrong(at + ".key", "must be metadata.name");
    if (r.op != NodeOperator::kIn && r.op != NodeOperator::kNotIn)
      return wrong(at + ".operator", "must be In or NotIn");
  }
  out.labels = std::move(*labels);
  out.fields = std::move(*fields);
  return out;
}

crds::Result<NodeTerms> read_node_terms(const Json* list, const std::string& field) {
  NodeTerms all;
  for (const Json& item : items(list)) {
    auto term = read_node_term(item, field + "[" + std::to_string(all.size()) + "]");
    if (!term) return std::unexpected(term.error());
    all.push_back(std::move(*term));
  }
  return all;
}

}  // namespace muster::reconcilers
