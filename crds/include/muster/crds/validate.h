// Applies the schemas of crds/*.yaml without a server. The verdicts are the same, and need only the binary.
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

// Writes the schema's defaults into the object, as the API server would. Objects of other kinds stay as they
// are.
void apply_defaults(Json& object);

// Everything that is wrong with an object of a Muster kind by its schema and its rules, with defaults taken
// into account. Empty: the API server would accept its creation. Rules that compare with the state before an
// update are not looked at. An object of another kind is one error. Errors are in the order of the schema's
// properties, then of its rules.
std::vector<FieldError> validate(const Json& object);
// The same for an update from `before`, with the rules that compare with it.
std::vector<FieldError> validate_update(const Json& before, const Json& after);

// Judges any object by a schema of the same dialect as the CRDs' (its rules must have twins). Errors call it
// `object`.
std::vector<FieldError> validate_by_schema(const Json& schema, const Json& value, std::string object);
// Judges the metadata of an object of any kind, as the API server does on creation.
std::vector<FieldError> validate_metadata(const Json& object);

// "TrainingJob team-a/llama", "Queue research". A part that is missing is left out.
std::string object_name(const Json& object);

}  // namespace muster::crds
