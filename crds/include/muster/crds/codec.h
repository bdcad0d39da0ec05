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
// Fields that the type does not have are passed over, because a server may know more than we do. A field of
// the wrong type or form is an error that names object, field and what is allowed. A field that is absent or
// null has the schema's default. Bounds and rules are not looked at here: validate() in validate.h does that.
template <class T>
Result<T> from_json(const Json& object);
// The same from text. Text that is no JSON is an error with an empty field.
template <class T>
Result<T> from_text(std::string_view text);

// The object with apiVersion and kind. Empty fields are left out.
template <class T>
Json to_json(const T& object);

// What a server-side apply (or update) of the status subresource sends: apiVersion, kind, name, namespace,
// uid, resourceVersion (which guards the write) and the status. A status field that is empty is left out, and
// so the server removes it.
template <class T>
Json status_to_json(const T& object);

}  // namespace muster::crds
