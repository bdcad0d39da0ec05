// Reading Kubernetes objects that no schema of ours has checked: every accessor survives any JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "muster/client/error.h"
#include "muster/client/object.h"
#include "muster/crds/common.h"

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
// The object's metadata. A field that should be text and is not is empty.
client::Meta meta_of(const Json& object);

}  // namespace muster::reconcilers
