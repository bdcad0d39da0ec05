// One document to one object of the simulation.
#pragma once

#include <memory>
#include <vector>

#include "muster/crds/documents.h"
#include "muster/simulate/input.h"

namespace muster::simulate {

// nullptr: something is wrong with it, which is in `errors`. The document has passed its schema.
std::shared_ptr<const Object> read_object(const crds::Document& document, const Behaviour& behaviour,
                                          std::optional<Instant> fail_at, std::optional<Instant> recover_at,
                                          std::vector<crds::FieldError>& errors);

}  // namespace muster::simulate
