// Objects from JSON and back, by the field tables of their types.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "muster/crds/common.h"
#include "muster/crds/error.h"

namespace muster::crds {

// T is one of Queue, Project, NodePool, TrainingJob, InferenceService.
//
// Fields that the type does not have are passed over (a server may know more than we do); a field of the
// wrong type or form is an error that names object, field and what is allowed. What is absent or null has the
// schema's default. Says nothing about bounds and rules: that is validate() in validate.h.
template <class T>
Result<T> from_json(const Json& object);
// The same from text; text that is no JSON is an error with an empty field.
template <class T>
Result<T> from_text(std::string_view text);

// The object with apiVersion and kind. Empty fields are left out.
template <class T>
Json to_json(const T& object);

// What a server-side apply (or update) of the status subresource sends: apiVersion, kind, name, namespace,
// uid, resourceVersion (which guards the write) and the status. A status field left empty is thereby removed
// on the server.
template <class T>
Json status_to_json(const T& object);

}  // namespace muster::crds
