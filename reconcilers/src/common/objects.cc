#include "muster/reconcilers/common/objects.h"

#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/json_reader.h"

namespace muster::reconcilers {
namespace {

using client::Error;
using client::ErrorCode;

// The controlling owner, where it is one of Muster's kinds.
template <class Kind>
void read_owner(const Json& whole, Object<Kind>& object) {
  for (const Json& owner : items(find(&whole, "metadata", "ownerReferences"))) {
    if (!is_true(find(owner, "controller")) || text(find(owner, "apiVersion")) != crds::kApiVersion) continue;
    object.owner_kind = text(find(owner, "kind"));
    object.owner_uid = text(find(owner, "uid"));
  }
}

// The parts of an unreadable object that are readable: metadata, and the status if it alone is fine.
template <class Kind>
Object<Kind> salvage(const crds::Json& whole, const crds::FieldError& error) {
  crds::Json rest = {{"metadata", whole.at("metadata")}};
  if (whole.contains("status")) rest["status"] = whole["status"];
  Object<Kind> object;
  if (auto with_status = crds::from_json<Kind>(rest)) {
    object.value = std::move(*with_status);
  } else {
    rest.erase("status");
    object.status_unreadable = true;
    if (auto bare = crds::from_json<Kind>(rest)) object.value = std::move(*bare);
  }
  object.problem = (error.field.empty() ? "" : error.field + ": ") + error.message;
  return object;
}

}  // namespace

template <class Kind>
client::Result<Object<Kind>> decode_object(std::string_view json) {
  const auto whole = crds::Json::parse(json, nullptr, false);
  if (!whole.is_object() || !whole.contains("metadata") || !whole["metadata"].is_object()) {
    return std::unexpected(
        Error{.code = ErrorCode::kDecode, .message = std::string(Kind::kKind) + " without metadata"});
  }
  Object<Kind> object;
  if (auto value = crds::from_json<Kind>(whole)) {
    object.value = std::move(*value);
  } else {
    object = salvage<Kind>(whole, value.error());
  }
  object.meta = meta_of(whole);
  read_owner(whole, object);
  return object;
}

template <class Kind>
client::Task<client::Result<void>> write_status(client::ApiClient& api, ObjectStore<Kind>& store,
                                                Kind wanted) {
  const client::Resource resource = resource_of<Kind>();
  const client::ObjectRef ref{wanted.metadata.ns, wanted.metadata.name};
  std::string body = crds::status_to_json(wanted).dump(-1, ' ', false, crds::Json::error_handler_t::replace);
  client::PatchOptions options;
  options.type = client::PatchType::kApply;
  options.field_manager = kFieldManager;
  options.force = true;
  options.subresource = "status";
  const auto answer = co_await api.patch(resource, ref, std::move(body), options);
  client::Result<void> result;
  if (answer) {
    if (auto object = decode_object<Kind>(*answer)) store.assume(std::move(*object));
    co_return result;
  }
  result = std::unexpected(answer.error());
  if (!answer.error().outcome_unknown()) co_return result;
  const auto read = co_await read_again<Kind>(api, store, ref);
  if (!read) co_return result;
  const auto now = store.find(client::make_key(ref.ns, ref.name));
  if (now && now->value.status == wanted.status) co_return client::Result<void>{};
  // Where another write came between, ours is refused when it arrives. Else it may still come through.
  const bool is_refused = !now || now->meta.resource_version != wanted.metadata.resource_version;
  if (is_refused) result.error().code = ErrorCode::kConflict;
  co_return result;
}

template <class Kind>
client::Task<client::Result<void>> read_again(client::ApiClient& api, ObjectStore<Kind>& store,
                                              client::ObjectRef ref) {
  const auto answer = co_await api.get(resource_of<Kind>(), ref);
  client::Result<void> result;
  if (!answer) {
    result = std::unexpected(answer.error());
    co_return result;
  }
  auto object = decode_object<Kind>(*answer);
  if (!object) {
    result = std::unexpected(object.error());
    co_return result;
  }
  store.assume(std::move(*object));
  co_return result;
}

#define MUSTER_KIND(K)                                                                                       \
  template client::Result<Object<crds::K>> decode_object<crds::K>(std::string_view);                         \
  template client::Task<client::Result<void>> write_status<crds::K>(client::ApiClient&,                      \
                                                                    ObjectStore<crds::K>&, crds::K);         \
  template client::Task<client::Result<void>> read_again<crds::K>(client::ApiClient&, ObjectStore<crds::K>&, \
                                                                  client::ObjectRef)
MUSTER_KIND(Queue);
MUSTER_KIND(Project);
MUSTER_KIND(NodePool);
MUSTER_KIND(TrainingJob);
MUSTER_KIND(InferenceService);
#undef MUSTER_KIND

}  // namespace muster::reconcilers
