// An object that Muster keeps beside one of its kinds and that goes with it: a Service,
// a PodDisruptionBudget.
#pragma once

#include <string>

#include "muster/client/api.h"
#include "muster/crds/common.h"

namespace muster::reconcilers {

// One of its owner references names this uid. O(owner references).
bool is_owned_by(const crds::Json& object, const std::string& uid);

// Whether all that `wanted` states is so in `there`. Objects may have more fields there, but lists may not
// have more elements. An empty object in `wanted` means that it is empty there too, and null that there is
// nothing.
bool is_as_wanted(const crds::Json& there, const crds::Json& wanted);
// Makes the object if it is absent, and mends it if it is not as wanted. `object` has name, namespace and an
// owner reference to `owner_uid`. If an object of that name belongs to somebody else, it is left alone, and
// the error is kAlreadyExists with a sentence.
client::Task<client::Result<void>> keep_child(client::ApiClient& api, client::Resource resource,
                                              crds::Json object, std::string owner_uid);
// Removes the object if its owner is `owner_uid`. One that is not there, or belongs to somebody else, is no
// error. kConflict: another one has come under the name in the meantime.
client::Task<client::Result<void>> remove_child(client::ApiClient& api, client::Resource resource,
                                                client::ObjectRef ref, std::string owner_uid);

}  // namespace muster::reconcilers
