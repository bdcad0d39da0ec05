// The schemas of crds/*.yaml, applied without a server: the same verdicts, from the binary alone.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/error.h"

namespace muster::crds {

// One CustomResourceDefinition, as compiled in.
struct Crd {
  std::string_view file;  // "trainingjobs.yaml"
  std::string_view yaml;
  std::string kind;
  std::string plural;
  bool namespaced = false;
  const Json* schema = nullptr;  // openAPIV3Schema of v1alpha1; lives as long as the program
};
std::span<const Crd> all_crds();
// nullptr: no kind of Muster.
const Crd* find_crd(std::string_view api_version, std::string_view kind);

// Writes the schema's defaults into the object, as the API server would. Objects of other kinds stay
// as they are.
void apply_defaults(Json& object);

// Everything that is wrong with an object of a Muster kind by its schema and its rules, defaults taken into
// account; empty: the API server would accept it (creation; what depends on the state before an update is not
// looked at). An object of another kind is one error. Errors are in the order of the schema's properties,
// then of its rules.
std::vector<FieldError> validate(const Json& object);
// An update from `before`: also the rules that compare with it.
std::vector<FieldError> validate_update(const Json& before, const Json& after);

// Any object against a schema of the same dialect as the CRDs' (its rules must have twins); `object` is how
// errors call it.
std::vector<FieldError> validate_by_schema(const Json& schema, const Json& value, std::string object);
// metadata of an object of any kind, as the API server checks it on creation.
std::vector<FieldError> validate_metadata(const Json& object);

// "TrainingJob team-a/llama", "Queue research"; what is missing is left out.
std::string object_name(const Json& object);

}  // namespace muster::crds
