#include "muster/reconcilers/objects.h"

#include <nlohmann/json.hpp>

namespace muster::reconcilers {
namespace {

using client::Error;
using client::ErrorCode;

std::string text_at(const crds::Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
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
    return std::unexpected(Error{.code = ErrorCode::kDecode, .message = std::string(Kind::kKind) + " without metadata"});
  }
  Object<Kind> object;
  if (auto value = crds::from_json<Kind>(whole)) {
    object.value = std::move(*value);
  } else {
    object = salvage<Kind>(whole, value.error());
  }
  const auto& meta = whole["metadata"];
  object.meta = {text_at(meta, "namespace"), text_at(meta, "name"), text_at(meta, "uid"), text_at(meta, "resourceVersion")};
  return object;
}

template <class Kind>
client::Task<client::Result<void>> write_status(client::ApiClient& api, ObjectStore<Kind>& store, Kind wanted) {
  const client::Resource resource = resource_of<Kind>();
  const client::ObjectRef ref{wanted.metadata.ns, wanted.metadata.name};
  std::string body = crds::status_to_json(wanted).dump();
  client::PatchOptions options;
  options.type = client::PatchType::kApply;
  options.field_manager = kFieldManager;
  options.force = true;
  options.subresource = "status";
  auto answer = co_await api.patch(resource, ref, std::move(body), options);
  client::Result<void> result;
  if (!answer) {
    result = std::unexpected(answer.error());
    if (!answer.error().outcome_unknown()) co_return result;
    answer = co_await api.get(resource, ref);
    if (!answer) co_return result;
  }
  if (auto object = decode_object<Kind>(*answer)) store.assume(std::move(*object));
  co_return result;
}

#define MUSTER_KIND(K)                                                       \
  template client::Result<Object<crds::K>> decode_object<crds::K>(std::string_view); \
  template client::Task<client::Result<void>> write_status<crds::K>(client::ApiClient&, ObjectStore<crds::K>&, crds::K)
MUSTER_KIND(Queue);
MUSTER_KIND(Project);
MUSTER_KIND(NodePool);
MUSTER_KIND(TrainingJob);
MUSTER_KIND(InferenceService);
#undef MUSTER_KIND

}  // namespace muster::reconcilers
