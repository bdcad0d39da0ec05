// YAML (or JSON) files of objects, each field with its line.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <expected>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/error.h"

namespace muster::crds {

struct Document {
  std::shared_ptr<Json> object;      // never null
  std::string file;
  std::map<std::string, int> lines;  // field path ("spec.roles[0].gpus.count"; "" for the whole) -> line, from 1

  // "jobs.yaml:12": of the field, or of the nearest enclosing one that the file states.
  std::string location(std::string_view field) const;
};

// All documents of a file's text, in order; empty ones are passed over, a `List` is its items. Aliases and merge keys are
// resolved as YAML 1.1 has them; plain scalars become what Kubernetes makes of them (true, 3, null, else text). Text that is no
// YAML, a key stated twice, or a document that is no object is an error with file and line. `file` is only a name.
std::expected<std::vector<Document>, FieldError> load_documents(std::string_view text, std::string file);

// validate() with locations, for each document in turn.
std::vector<FieldError> validate(const Document& document);

}  // namespace muster::crds
