// An object that Muster keeps beside one of its kinds and that goes with it: a Service,
// a PodDisruptionBudget.
#pragma once

#include <string>

#include "muster/client/api.h"
#include "muster/crds/common.h"

namespace muster::reconcilers {

// One of its owner references names this uid. O(owner references).
bool is_owned_by(const crds::Json& object, const std::string& uid);

// All that `wanted` states is so in `there`. Objects may have more fields there, lists no more elements; an
// empty object in `wanted` means one that is empty.
bool is_as_wanted(const crds::Json& there, const crds::Json& wanted);
// Makes it where it is absent and mends it where it is not as wanted. `object` has name, namespace and an
// owner reference to `owner_uid`. kAlreadyExists with a sentence where an object of that name is there that
// belongs to somebody else: it is left alone.
client::Task<client::Result<void>> keep_child(client::ApiClient& api, client::Resource resource,
                                              crds::Json object, std::string owner_uid);

}  // namespace muster::reconcilers
