#include "muster/reconcilers/common/json_reader.h"

namespace muster::reconcilers {

const Json* find(const Json* parent, std::string_view key) {
  if (parent == nullptr || !parent->is_object()) return nullptr;
  const auto found = parent->find(key);
  return found == parent->end() || found->is_null() ? nullptr : &*found;
}

const Json::array_t& items(const Json* list) {
  static const Json::array_t kNone;
  return list != nullptr && list->is_array() ? list->get_ref<const Json::array_t&>() : kNone;
}

std::string text(const Json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool is_true(const Json* value) {
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

client::Result<Json> read_object(std::string_view json, std::string_view kind) {
  Json object = Json::parse(json, nullptr, false);
  if (!text(find(&object, "metadata", "name")).empty()) return object;
  return std::unexpected(client::Error{.code = client::ErrorCode::kDecode,
                                       .message = std::string(kind) + " without metadata.name"});
}

client::Meta meta_of(const Json& object) {
  const Json* meta = find(object, "metadata");
  return {text(find(meta, "namespace")), text(find(meta, "name")), text(find(meta, "uid")),
          text(find(meta, "resourceVersion"))};
}

}  // namespace muster::reconcilers
