// YAML as Kubernetes reads it, into JSON.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <expected>
#include <string>

#include "muster/crds/common.h"
#include "muster/crds/documents.h"

namespace muster::crds {

struct YamlError {
  int line;  // from 1
  std::string field;
  std::string message;
};

// Plain scalars by the rules of YAML 1.1 (as sigs.k8s.io/yaml), merge keys resolved, keys as text. A key
// stated twice, a key that is no scalar, more values than `max_values` (an alias bomb: see values_in) or
// nesting beyond 100 is an error.
std::expected<Json, YamlError> to_json(const YAML::Node& node, std::size_t max_values,
                                       Letters letters = Letters::kBoolean);

// What a text of this size may become: more than it can state without aliases.
constexpr std::size_t values_in(std::size_t text_size) {
  return 100'000 + 4 * text_size;
}

}  // namespace muster::crds
