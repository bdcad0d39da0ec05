// YAML as Kubernetes reads it, into JSON.
#pragma once

#include <yaml-cpp/yaml.h>

#include <expected>
#include <string>

#include "muster/crds/common.h"

namespace muster::crds {

struct YamlError {
  int line;  // from 1
  std::string field;
  std::string message;
};

// Plain scalars by the rules of YAML 1.1 (as sigs.k8s.io/yaml), merge keys resolved, keys as text. A key stated twice, a key that
// is no scalar, more than two million values (an alias bomb) or nesting beyond 100 is an error.
std::expected<Json, YamlError> to_json(const YAML::Node& node);

}  // namespace muster::crds
