// The owner reference by which what Muster makes for an object goes with it.
#pragma once

#include <nlohmann/json.hpp>

#include "muster/crds/common.h"
#include "muster/crds/metadata.h"

namespace muster::reconcilers {

template <class Kind>
crds::Json owner_references(const Kind& owner) {
  return crds::Json::array({{{"apiVersion", crds::kApiVersion},
                             {"kind", Kind::kKind},
                             {"name", owner.metadata.name},
                             {"uid", owner.metadata.uid},
                             {"controller", true},
                             {"blockOwnerDeletion", true}}});
}

}  // namespace muster::reconcilers
