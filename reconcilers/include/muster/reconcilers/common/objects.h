// Muster's kinds in the client's caches, and the one way to write their status.
#pragma once

#include <string>
#include <string_view>

#include "muster/client/api.h"
#include "muster/client/events.h"
#include "muster/client/informer.h"
#include "muster/crds/crds.h"

namespace muster::reconcilers {

inline constexpr std::string_view kFieldManager = "muster";

// A cached object. One that cannot be read as its type (an amount beyond 64 bits, say) is kept with metadata
// and `problem` instead of being lost: its reconciler tells its owner.
template <class Kind>
struct Object {
  client::Meta meta;
  Kind value;           // with `problem`: only metadata, and the status where that can be read
  std::string problem;  // empty: none
  // With `problem`: what it holds is not known, so nothing may be done about it.
  bool status_unreadable = false;
  std::string owner_kind{};  // of the controlling owner reference to a kind of Muster's; "": none
  std::string owner_uid{};
};

template <class Kind>
client::Resource resource_of() {
  return {std::string(crds::kGroup), std::string(crds::kVersion), std::string(Kind::kPlural),
          Kind::kNamespaced};
}

// An error only for text without metadata.
template <class Kind>
client::Result<Object<Kind>> decode_object(std::string_view json);

template <class Kind>
using ObjectStore = client::Store<Object<Kind>>;

// Writes `wanted.status` by server-side apply on the status subresource, guarded by wanted.metadata's uid and
// resourceVersion, and puts the answer into the store at once. kConflict: somebody wrote in between; the
// watch will tell. After an unknown outcome the object is read and put into the store, which decides whether
// this write is the one that stands. An error whose outcome_unknown() holds means that even reading failed:
// the write may stand or not, read_again() before acting.
template <class Kind>
client::Task<client::Result<void>> write_status(client::ApiClient& api, ObjectStore<Kind>& store,
                                                Kind wanted);

// The server's newest state into the store. kNotFound: the object is gone.
template <class Kind>
client::Task<client::Result<void>> read_again(client::ApiClient& api, ObjectStore<Kind>& store,
                                              client::ObjectRef ref);

template <class Kind>
client::EventTarget event_target(const Kind& object) {
  return {std::string(crds::kApiVersion), std::string(Kind::kKind), object.metadata.ns, object.metadata.name,
          object.metadata.uid};
}

}  // namespace muster::reconcilers
