// Schemas of what simulate reads beside Muster's kinds: the fields it looks at, the rest open.
#pragma once

#include <string_view>

#include "muster/crds/common.h"

namespace muster::simulate {

// nullptr: not a kind that simulate reads, or one of Muster's. apiVersion without its version for groups
// whose versions read alike.
const crds::Json* schema_of(std::string_view api_version, std::string_view kind);
// "v1 Node, v1 Pod, …"
std::string_view kinds_that_are_read();

inline constexpr std::string_view kExpectationVersion = "simulate.muster.dev/v1";

}  // namespace muster::simulate
