#include "muster/crds/codec.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/common/quantity.h"
#include "muster/crds/crds.h"
#include "muster/crds/validate.h"
#include "types/json_text.h"
#include "types/path.h"

namespace muster::crds {

bool RawJson::operator==(const RawJson& other) const {
  if (value == nullptr || other.value == nullptr) return value == other.value;
  return value == other.value || *value == *other.value;
}

namespace {

// Decoding: one overload per kind of member. False: `error` says what is wrong at `path`.

bool fail(FieldError& error, const Path& path, std::string message) {
  error.field = path.text();
  error.message = std::move(message);
  return false;
}

bool wrong_type(FieldError& error, const Path& path, std::string_view wanted, const Json& value) {
  return fail(error, path, "must be " + std::string(wanted) + ", is " + shown(value));
}

bool decode(const Json& value, std::string& out, const Path& path, FieldError& error) {
  if (!value.is_string()) return wrong_type(error, path, "a string", value);
  out = value.get_ref<const std::string&>();
  return true;
}

bool decode(const Json& value, bool& out, const Path& path, FieldError& error) {
  if (!value.is_boolean()) return wrong_type(error, path, "true or false", value);
  out = value.get<bool>();
  return true;
}

template <std::signed_integral Int>
bool decode(const Json& value, Int& out, const Path& path, FieldError& error) {
  constexpr std::int64_t kLow = std::numeric_limits<Int>::min();
  constexpr std::int64_t kHigh = std::numeric_limits<Int>::max();
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kHigh)
                        : value.is_number_integer() && value.get<std::int64_t>() >= kLow &&
                              value.get<std::int64_t>() <= kHigh;
  if (!fits) {
    return wrong_type(error, path, "an integer from " + std::to_string(kLow) + " to " + std::to_string(kHigh),
                      value);
  }
  out = value.get<Int>();
  return true;
}

template <NamedEnum E>
bool decode(const Json& value, E& out, const Path& path, FieldError& error) {
  constexpr auto kNames = names_of(E{});
  std::string allowed;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (value.is_string() && value.get_ref<const std::string&>() == kNames[i]) {
      out = static_cast<E>(i);
      return true;
    }
    allowed += (i == 0 ? "" : ", ") + std::string(kNames[i]);
  }
  return wrong_type(error, path, "one of " + allowed, value);
}

std::expected<MilliGpu, std::string> parse_as(std::string_view text, MilliGpu) {
  return parse_gpu(text);
}
std::expected<MilliCpu, std::string> parse_as(std::string_view text, MilliCpu) {
  return parse_cpu(text);
}
std::expected<Bytes, std::string> parse_as(std::string_view text, Bytes) {
  return parse_memory(text);
}
std::expected<MilliLoad, std::string> parse_as(std::string_view text, MilliLoad) {
  return parse_load(text);
}
std::expected<MilliCost, std::string> parse_as(std::string_view text, MilliCost) {
  return parse_cost(text);
}
std::expected<Duration, std::string> parse_as(std::string_view text, Duration) {
  return parse_duration(text);
}
std::expected<Time, std::string> parse_as(std::string_view text, Time) {
  return parse_time(text);
}

// Values that are stated as text: quantities (also as integers), durations, times.
template <class T>
concept Textual = requires(T t) { parse_as(std::string_view{}, t); };
template <class T>
constexpr bool kIsAmount = false;
template <class Unit>
constexpr bool kIsAmount<Amount<Unit>> = true;

template <Textual T>
bool decode(const Json& value, T& out, const Path& path, FieldError& error) {
  std::string number;
  std::string_view text;
  if (value.is_string()) {
    text = value.get_ref<const std::string&>();
  } else if (kIsAmount<T> && value.is_number_integer()) {
    number = value.dump();
    text = number;
  } else {
    return wrong_type(error, path, kIsAmount<T> ? "an integer or a quantity" : "a string", value);
  }
  const auto parsed = parse_as(text, T{});
  if (!parsed) return fail(error, path, parsed.error());
  out = *parsed;
  return true;
}

bool decode(const Json& value, RawJson& out, const Path& path, FieldError& error) {
  if (!value.is_object()) return wrong_type(error, path, "an object", value);
  out.value = std::make_shared<const Json>(value);
  return true;
}

bool decode(const Json& value, StringMap& out, const Path& path, FieldError& error) {
  if (!value.is_object()) return wrong_type(error, path, "an object", value);
  for (const auto& [key, item] : value.items()) {
    if (!decode(item, out[key], Path{&path, key}, error)) return false;
  }
  return true;
}

bool decode(const Json& value, NamedAmounts& out, const Path& path, FieldError& error) {
  if (!value.is_object()) return wrong_type(error, path, "an object", value);
  for (const auto& [key, item] : value.items()) {
    Bytes amount;  // as bytes are stated, others are stated too
    if (!decode(item, amount, Path{&path, key}, error)) return false;
    out[key] = amount.value;
  }
  return true;
}

bool decode(const Json& value, ModelAmounts& out, const Path& path, FieldError& error) {
  if (!value.is_object()) return wrong_type(error, path, "an object", value);
  for (const auto& [key, item] : value.items()) {
    if (!decode(item, out[key], Path{&path, key}, error)) return false;
  }
  return true;
}

template <HasFields T>
bool decode(const Json& value, T& out, const Path& path, FieldError& error);
template <class T>
bool decode(const Json& value, std::vector<T>& out, const Path& path, FieldError& error);

template <class T>
bool decode(const Json& value, std::optional<T>& out, const Path& path, FieldError& error) {
  return decode(value, out.emplace(), path, error);
}

template <class T>
bool decode(const Json& value, std::vector<T>& out, const Path& path, FieldError& error) {
  if (!value.is_array()) return wrong_type(error, path, "a list", value);
  out.resize(value.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!decode(value[i], out[i], Path{&path, {}, static_cast<int>(i)}, error)) return false;
  }
  return true;
}

template <HasFields T>
bool decode(const Json& value, T& out, const Path& path, FieldError& error) {
  if (!value.is_object()) return wrong_type(error, path, "an object", value);
  const auto one = [&](const auto& f) {
    const auto it = value.find(f.name);
    if (it == value.end() || it->is_null()) return true;
    return decode(*it, out.*(f.member), Path{&path, f.name}, error);
  };
  return T::fields()([&](const auto&... f) { return (one(f) && ...); });
}

// Encoding: null stands for "empty, leave out".

Json encode(const std::string& value) {
  return value.empty() ? Json() : Json(value);
}
Json encode(bool value) {
  return value;
}
template <std::signed_integral Int>
Json encode(Int value) {
  return value;
}
template <NamedEnum E>
Json encode(E value) {
  return std::string(to_string(value));
}
template <Textual T>
Json encode(T value) {
  return to_string(value);
}
Json encode(const RawJson& value) {
  return value.value == nullptr ? Json() : *value.value;
}
Json encode(const StringMap& value) {
  return value.empty() ? Json() : Json(value);
}
Json encode(const NamedAmounts& value) {
  Json result;
  for (const auto& [name, amount] : value) result[name] = common::format_resource(name, amount);
  return result;
}
Json encode(const ModelAmounts& value) {
  Json result;
  for (const auto& [model, amount] : value) result[model] = encode(amount);
  return result;
}
template <HasFields T>
Json encode(const T& value);
template <class T>
Json encode(const std::vector<T>& value);
template <class T>
Json encode(const std::optional<T>& value) {
  if (!value) return {};
  Json result = encode(*value);
  // Said explicitly, so it stays, even with nothing inside.
  return result.is_null() && HasFields<T> ? Json::object() : result;
}
template <class T>
Json encode(const std::vector<T>& value) {
  if (value.empty()) return {};
  Json result = Json::array();
  result.get_ref<Json::array_t&>().reserve(value.size());
  for (const T& item : value) {
    Json encoded = encode(item);
    if constexpr (HasFields<T>) {
      if (encoded.is_null()) encoded = Json::object();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (encoded.is_null()) encoded = "";
    }
    result.push_back(std::move(encoded));
  }
  return result;
}
template <HasFields T>
Json encode(const T& value) {
  Json result;
  const auto one = [&](const auto& f) {
    const auto& item = value.*(f.member);
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(item)>>) {
      if (item == 0 && f.zero == Zero::kOmit) return;
    }
    Json encoded = encode(item);
    if (!encoded.is_null()) result[std::string(f.name)] = std::move(encoded);
  };
  T::fields()([&](const auto&... f) { (one(f), ...); });
  return result;
}

template <class T>
Json envelope() {
  return Json{{"apiVersion", kApiVersion}, {"kind", T::kKind}};
}

}  // namespace

template <class T>
Result<T> from_json(const Json& object) {
  FieldError error;
  T result;
  const Json* kind = member(object, "kind");
  if (!object.is_object()) {
    error.object = T::kKind;
    error.message = "must be an object, is " + shown(object);
    return std::unexpected(std::move(error));
  }
  if (kind != nullptr && text_of(kind) != T::kKind) {
    error = {object_name(object), "kind", "must be " + std::string(T::kKind) + ", is " + shown(*kind), {}};
    return std::unexpected(std::move(error));
  }
  if (!decode(object, result, Path{}, error)) {
    error.object = object_name(object);
    return std::unexpected(std::move(error));
  }
  return result;
}

template <class T>
Result<T> from_text(std::string_view text) {
  const Json object = Json::parse(text, nullptr, false);
  if (object.is_discarded())
    return std::unexpected(FieldError{std::string(T::kKind), {}, "must be JSON", {}});
  return from_json<T>(object);
}

template <class T>
Json to_json(const T& object) {
  Json result = envelope<T>();
  result.update(encode(object));
  return result;
}

template <class T>
Json status_to_json(const T& object) {
  Json result = envelope<T>();
  Json metadata = {{"name", object.metadata.name}};
  if (!object.metadata.ns.empty()) metadata["namespace"] = object.metadata.ns;
  if (!object.metadata.uid.empty()) metadata["uid"] = object.metadata.uid;
  if (!object.metadata.resource_version.empty())
    metadata["resourceVersion"] = object.metadata.resource_version;
  result["metadata"] = std::move(metadata);
  Json status = encode(object.status);
  result["status"] = status.is_null() ? Json::object() : std::move(status);
  return result;
}

#define MUSTER_CODEC(T)                              \
  template Result<T> from_json<T>(const Json&);      \
  template Result<T> from_text<T>(std::string_view); \
  template Json to_json<T>(const T&);                \
  template Json status_to_json<T>(const T&);
MUSTER_CODEC(Queue)
MUSTER_CODEC(Project)
MUSTER_CODEC(NodePool)
MUSTER_CODEC(TrainingJob)
MUSTER_CODEC(InferenceService)
#undef MUSTER_CODEC

}  // namespace muster::crds
