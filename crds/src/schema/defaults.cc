#include <nlohmann/json.hpp>

#include "muster/crds/validate.h"
#include "types/json_text.h"

namespace muster::crds {
namespace {

// Structural defaulting: a property that is absent (or null, which no schema of ours allows) gets its
// default, and so do the properties inside what was just put there.
void apply(const Json& schema, Json& value) {
  if (value.is_object()) {
    if (const Json* properties = member(schema, "properties")) {
      for (const auto& [name, property] : properties->items()) {
        const auto it = value.find(name);
        const bool absent = it == value.end();
        if (absent || it->is_null()) {
          if (const Json* value_by_default = member(property, "default")) {
            value[name] = *value_by_default;
          } else if (!absent) {
            value.erase(it);
            continue;
          }
        }
        if (const auto now = value.find(name); now != value.end()) apply(property, *now);
      }
    }
    if (const Json* additional = member(schema, "additionalProperties"); additional != nullptr) {
      for (auto it = value.begin(); it != value.end();) {
        if (it->is_null()) {
          it = value.erase(it);
        } else {
          apply(*additional, *it++);
        }
      }
    }
  } else if (value.is_array()) {
    if (const Json* items = member(schema, "items")) {
      for (Json& item : value) apply(*items, item);
    }
  }
}

}  // namespace

void apply_defaults(Json& object) {
  const Crd* crd = find_crd(text_of(member(object, "apiVersion")), text_of(member(object, "kind")));
  if (crd != nullptr) apply(*crd->schema, object);
}

}  // namespace muster::crds
