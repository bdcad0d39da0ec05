// The annotations simulate.muster.dev/….
#pragma once

#include <optional>
#include <vector>

#include "muster/crds/documents.h"
#include "muster/simulate/input.h"

namespace muster::simulate {

struct Annotations {
  Instant at{0};
  std::optional<Instant> delete_at, fail_at, recover_at;
  Behaviour behaviour;
};

// Each that the kind does not know, or whose value is not what it takes, is an error.
Annotations read_annotations(const crds::Document& document, std::vector<crds::FieldError>& errors);

}  // namespace muster::simulate
