#include "muster/reconcilers/arrays/array_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/child.h"
#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/common/owner.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using client::ErrorCode;

constexpr const char* kKey = "parameters";

// Of an array that had this name before, with which it goes.
bool is_of_namesake(const Json& object, const std::string& array) {
  return std::ranges::any_of(items(find(&object, "metadata", "ownerReferences")), [&](const Json& owner) {
    return text(find(owner, "kind")) == crds::TrainingJob::kKind && text(find(owner, "name")) == array;
  });
}

ArrayRefusal waits(const char* reason, std::string message) {
  return {reason, std::move(message), false, true};
}

// A read or a write that did not come through.
ArrayParameters::Answer failed(const client::Error& error, const std::string& who) {
  if (error.code != ErrorCode::kForbidden) return {};
  return {nullptr, waits("Forbidden", who + ": " + error.message)};
}

}  // namespace

std::expected<ParameterLines, std::string> parameter_lines(std::string_view text, std::int32_t count) {
  const auto wanted = static_cast<std::size_t>(count);
  ParameterLines lines;
  while (!text.empty() && lines.size() < wanted) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() > kMaxParameterLine) {
      return std::unexpected(fmt::format("has {} bytes in line {} (of index {}), and at most {} are allowed",
                                         line.size(), lines.size() + 1, lines.size(), kMaxParameterLine));
    }
    lines.emplace_back(line);
  }
  if (lines.size() == wanted) return lines;
  return std::unexpected(fmt::format("has {} lines, and spec.array.count is {}: one for each index is needed",
                                     lines.size(), count));
}

std::string parameters_name(std::string_view array) {
  return std::string(array) + "-parameters";
}

std::string parameters_json(const crds::TrainingJob& array, const ParameterLines& lines) {
  const Json object = {{"apiVersion", "v1"},
                       {"kind", "ConfigMap"},
                       {"metadata",
                        {{"name", parameters_name(array.metadata.name)},
                         {"namespace", array.metadata.ns},
                         {"labels", {{kArrayLabel, job_label(array.metadata.name)}}},
                         {"ownerReferences", owner_references(array)}}},
                       {"immutable", true},
                       {"data", {{kKey, fmt::format("{}\n", fmt::join(lines, "\n"))}}}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

client::Task<ArrayParameters::Answer> ArrayParameters::take(client::Ptr<Object<crds::TrainingJob>> array,
                                                            bool has_begun) {
  const auto key = array->meta.key();
  const auto known = taken_.find(key);
  if (known != taken_.end() && known->second.uid == array->meta.uid)
    co_return Answer{known->second.lines, {}};
  auto copy = co_await read_copy(array);
  if (copy) co_return std::move(*copy);
  const std::string name = parameters_name(array->meta.name);
  if (copy.error().code != ErrorCode::kNotFound) co_return failed(copy.error(), "ConfigMap " + name);
  if (has_begun) {
    co_return Answer{nullptr,
                     {"ParametersLost",
                      fmt::format("ConfigMap {} is gone, which had the parameters that were taken when the "
                                  "array began: no other index can begin; delete the array and make another",
                                  name),
                      true}};
  }
  Answer made = co_await make_copy(array);
  co_return made;
}

client::Task<client::Result<ArrayParameters::Answer>> ArrayParameters::read_copy(
    client::Ptr<Object<crds::TrainingJob>> array) {
  const client::ObjectRef ref{array->meta.ns, parameters_name(array->meta.name)};
  const auto read = co_await context_.api.get(client::resources::kConfigMaps, ref);
  if (!read) co_return std::unexpected(read.error());
  const auto object = Json::parse(*read, nullptr, false);
  if (!is_owned_by(object, array->meta.uid)) {
    if (is_of_namesake(object, array->meta.name)) co_return Answer{};
    co_return Answer{
        nullptr,
        {"NameTaken",
         fmt::format("ConfigMap {} is there already and is not of this array: it is waited for", ref.name),
         false}};
  }
  auto lines = parameter_lines(text(find(&object, "data", kKey)), array->value.spec.array->count);
  if (!lines)
    co_return Answer{nullptr, {"ParametersLost", "ConfigMap " + ref.name + " " + lines.error(), true}};
  auto& taken = taken_[array->meta.key()];
  taken = {array->meta.uid, std::make_shared<const ParameterLines>(std::move(*lines))};
  co_return Answer{taken.lines, {}};
}

client::Task<ArrayParameters::Answer> ArrayParameters::make_copy(
    client::Ptr<Object<crds::TrainingJob>> array) {
  const auto& from = array->value.spec.array->parameters_from->config_map_key_ref;
  const std::string who = fmt::format("ConfigMap {}, which spec.array.parametersFrom names,", from.name);
  const client::ObjectRef ref{array->meta.ns, from.name};
  const auto read = co_await context_.api.get(client::resources::kConfigMaps, ref);
  if (!read) {
    if (read.error().code != ErrorCode::kNotFound) co_return failed(read.error(), who);
    co_return Answer{nullptr, waits("ParametersNotFound", who + " does not exist: make it")};
  }
  const auto object = Json::parse(*read, nullptr, false);
  const Json* file = find(find(&object, "data"), from.key);
  if (file == nullptr || !file->is_string()) {
    co_return Answer{nullptr,
                     waits("ParametersNotFound", fmt::format("{} has no key {} in data", who, from.key))};
  }
  auto lines = parameter_lines(file->get_ref<const std::string&>(), array->value.spec.array->count);
  if (!lines) {
    co_return Answer{
        nullptr, waits("ParametersInvalid", fmt::format("key {} of {} {}", from.key, who, lines.error()))};
  }
  std::string body = parameters_json(array->value, *lines);
  const auto made = co_await context_.api.create(client::resources::kConfigMaps, array->meta.ns,
                                                 std::move(body), std::string(kFieldManager));
  if (!made) co_return failed(made.error(), "ConfigMap " + parameters_name(array->meta.name));
  auto& taken = taken_[array->meta.key()];
  taken = {array->meta.uid, std::make_shared<const ParameterLines>(std::move(*lines))};
  co_return Answer{taken.lines, {}};
}

}  // namespace muster::reconcilers
