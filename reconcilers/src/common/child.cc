#include "muster/reconcilers/common/child.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/common/objects.h"

namespace muster::reconcilers {

using client::Error;
using client::ErrorCode;
using crds::Json;

bool is_owned_by(const Json& object, const std::string& uid) {
  const Json* owners = find(&object, "metadata", "ownerReferences");
  if (owners == nullptr || !owners->is_array()) return false;
  return std::ranges::any_of(*owners, [&](const Json& o) { return text(find(&o, "uid")) == uid; });
}

bool is_as_wanted(const Json& there, const Json& wanted) {
  if (!wanted.is_object() || wanted.empty()) return there == wanted;
  if (!there.is_object()) return false;
  return std::ranges::all_of(wanted.items(), [&](const auto& field) {
    const auto found = there.find(field.key());
    if (field.value().is_null()) return found == there.end();
    return found != there.end() && is_as_wanted(*found, field.value());
  });
}

client::Task<client::Result<void>> keep_child(client::ApiClient& api, client::Resource resource, Json object,
                                              std::string owner_uid) {
  const client::ObjectRef ref{object["metadata"]["namespace"].get<std::string>(),
                              object["metadata"]["name"].get<std::string>()};
  client::Result<void> done;
  const auto read = co_await api.get(resource, ref);
  if (!read && read.error().code != ErrorCode::kNotFound) {
    done = std::unexpected(read.error());
    co_return done;
  }
  if (!read) {
    std::string body = object.dump();
    const auto made = co_await api.create(resource, ref.ns, std::move(body), std::string(kFieldManager));
    if (!made) done = std::unexpected(made.error());
    co_return done;
  }
  const Json there = Json::parse(*read, nullptr, false);
  if (!is_owned_by(there, owner_uid)) {
    Error taken;
    taken.code = ErrorCode::kAlreadyExists;
    taken.message =
        fmt::format("{} {}/{} exists and was not made for this object; delete it or rename this one",
                    resource.plural, ref.ns, ref.name);
    done = std::unexpected(taken);
    co_return done;
  }
  if (is_as_wanted(there, object)) co_return done;
  // A merge patch replaces whole lists. A server-side apply would leave in them what the POST above has put
  // there, because that counts as another manager. A Service would keep its earlier port, and the new one of
  // the same name would be invalid beside it.
  object["metadata"]["uid"] = there["metadata"]["uid"];  // this very object, or a conflict
  client::PatchOptions options;
  options.field_manager = kFieldManager;
  std::string body = object.dump();
  const auto mended = co_await api.patch(resource, ref, std::move(body), options);
  if (!mended) done = std::unexpected(mended.error());
  co_return done;
}

client::Task<client::Result<void>> remove_child(client::ApiClient& api, client::Resource resource,
                                                client::ObjectRef ref, std::string owner_uid) {
  client::Result<void> done;
  const auto read = co_await api.get(resource, ref);
  if (!read && read.error().code != ErrorCode::kNotFound) done = std::unexpected(read.error());
  if (!read) co_return done;
  const Json there = Json::parse(*read, nullptr, false);
  if (!is_owned_by(there, owner_uid)) co_return done;
  client::DeleteOptions options;
  options.uid = text(find(&there, "metadata", "uid"));  // this very object, or a conflict
  const auto removed = co_await api.remove(resource, ref, options);
  if (!removed && removed.error().code != ErrorCode::kNotFound) done = std::unexpected(removed.error());
  co_return done;
}

}  // namespace muster::reconcilers
