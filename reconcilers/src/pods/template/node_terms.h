// Label selectors and node terms of Kubernetes, as placement's requirements.
#pragma once

#include <expected>
#include <string>
#include <utility>
#include <vector>

#include "muster/crds/error.h"
#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/pods/requests.h"

namespace muster::reconcilers {

inline std::unexpected<crds::FieldError> wrong(std::string field, std::string message) {
  return std::unexpected(crds::FieldError{
      .object = {}, .field = std::move(field), .message = std::move(message), .location = {}});
}

// metav1.LabelSelector. None, or an empty one: no requirement.
crds::Result<std::vector<NodeRequirement>> read_label_selector(const Json* selector,
                                                               const std::string& field);
// NodeSelectorTerm and a list of them. `field` is the path, for errors.
crds::Result<NodeTerm> read_node_term(const Json& term, const std::string& field);
crds::Result<NodeTerms> read_node_terms(const Json* list, const std::string& field);

}  // namespace muster::reconcilers
