// An object that makes Muster's code throw is left as it is, and says so. Others go on.
#pragma once

#include <string>

#include "muster/reconcilers/common/objects.h"

namespace muster::reconcilers {

// The condition that says it: True with what was thrown, False once the object could be looked at again. An
// object that was always looked at without trouble does not have it.
inline constexpr std::string_view kInternalError = "InternalError";

// Sets the condition to what `thrown` says, or to False where `thrown` is empty and the condition is there.
// Writes nothing where the object says so already, is gone, goes, or has a status that cannot be read. An
// error of the write is returned; nothing else depends on it.
template <class Kind>
client::Task<client::Result<void>> say_internal_error(client::ApiClient& api, ObjectStore<Kind>& store,
                                                      client::Key key, crds::Time now, std::string thrown);

}  // namespace muster::reconcilers
