// Reading Kubernetes objects that no schema of ours has checked: every accessor survives any JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/error.h"
#include "muster/client/object.h"
#include "muster/crds/error.h"
#include "muster/reconcilers/pods/requests.h"

namespace muster::reconcilers {

using crds::Json;

// nullptr: `parent` is nullptr or no object, or there is nothing (or null) under the key.
const Json* find(const Json* parent, std::string_view key);
inline const Json* find(const Json& parent, std::string_view key) {
  return find(&parent, key);
}
template <class... Keys>
const Json* find(const Json* parent, std::string_view key, Keys... more) {
  return find(find(parent, key), more...);
}
// The elements of a list; none where there is none.
const Json::array_t& items(const Json* list);
// "" where it is no string.
std::string text(const Json* value);
bool is_true(const Json* value);

// The object of this text. kDecode where it has no metadata.name; `kind` is for the error.
client::Result<Json> read_object(std::string_view json, std::string_view kind);
// What of an object's metadata is no text is empty.
client::Meta meta_of(const Json& object);

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
