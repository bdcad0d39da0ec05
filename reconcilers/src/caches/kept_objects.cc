#include "muster/reconcilers/caches/kept_objects.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/common/objects.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

crds::StringMap labels_of(const Json& object) {
  crds::StringMap map;
  const Json* labels = find(&object, "metadata", "labels");
  if (labels == nullptr || !labels->is_object()) return map;
  for (const auto& [name, value] : labels->items()) {
    if (value.is_string()) map[name] = value.get<std::string>();
  }
  return map;
}

bool has_manager(const Json& object, std::string_view manager) {
  return std::ranges::any_of(items(find(&object, "metadata", "managedFields")),
                             [&](const Json& entry) { return text(find(entry, "manager")) == manager; });
}

}  // namespace

std::string Namespace::project() const {
  const auto found = labels.find(std::string(kProjectLabel));
  return found == labels.end() ? std::string() : found->second;
}

client::Result<Namespace> decode_namespace(std::string_view json) {
  const auto object = read_object(json, "Namespace");
  if (!object) return std::unexpected(object.error());
  Namespace ns;
  ns.meta = meta_of(*object);
  ns.labels = labels_of(*object);
  ns.terminating = find(&*object, "metadata", "deletionTimestamp") != nullptr;
  return ns;
}

client::Result<KeptObject> decode_kept_object(std::string_view json) {
  auto object = read_object(json, "object");
  if (!object) return std::unexpected(object.error());
  KeptObject kept;
  kept.meta = meta_of(*object);
  const auto labels = labels_of(*object);
  if (const auto found = labels.find(std::string(kProjectLabel)); found != labels.end())
    kept.project = found->second;
  kept.is_ours = has_manager(*object, kFieldManager);
  (*object)["metadata"].erase("managedFields");
  object->erase("status");
  kept.content.value = std::make_shared<const Json>(std::move(*object));
  return kept;
}

}  // namespace muster::reconcilers
