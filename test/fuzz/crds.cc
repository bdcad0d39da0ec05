// Objects of Muster and the values in them.
#include "muster/crds/crds.h"

#include <nlohmann/json.hpp>

#include "muster/common/quantity.h"
#include "muster/common/time.h"
#include "muster/crds/codec.h"
#include "muster/crds/documents.h"
#include "muster/crds/validate.h"
#include "targets.h"

namespace muster::fuzz {
namespace {

using crds::Json;

template <class T>
void decode(const Json& object, bool valid) {
  const auto decoded = crds::from_json<T>(object);
  if (!decoded) {
    require(!valid, "what the schema accepts has a form that the types take");
    require(!decoded.error().message.empty(), "an error says what is wrong");
    return;
  }
  const Json written = crds::to_json(*decoded);
  const auto again = crds::from_json<T>(written);
  require(again.has_value(), "what is written can be read");
  require(crds::to_json(*again) == written, "what is read is what was written");
  require(crds::status_to_json(*decoded).contains("status"), "a status is written");
}

void check_object(Json object) {
  const auto errors = crds::validate(object);
  for (const auto& error : errors) require(!error.message.empty(), "an error says what is wrong");
  const bool valid = errors.empty();
  if (valid) {
    require(crds::validate_update(object, object).empty(), "an object may stay as it is");
    crds::apply_defaults(object);
    require(crds::validate(object).empty(), "defaults are valid");
  }
  const Json* kind = object.is_object() && object.contains("kind") ? &object["kind"] : nullptr;
  if (kind == nullptr) return;
  if (*kind == crds::Queue::kKind) decode<crds::Queue>(object, valid);
  if (*kind == crds::Project::kKind) decode<crds::Project>(object, valid);
  if (*kind == crds::NodePool::kKind) decode<crds::NodePool>(object, valid);
  if (*kind == crds::TrainingJob::kKind) decode<crds::TrainingJob>(object, valid);
  if (*kind == crds::InferenceService::kKind) decode<crds::InferenceService>(object, valid);
}

void check_quantity(std::string_view text, std::int64_t scale) {
  const auto amount = common::parse_amount(text, scale);
  const auto value = common::parse_quantity(text, scale);
  if (!value) require(value.error().starts_with("must be a quantity"), "an error says what is allowed");
  if (!amount) return;
  require(*amount >= 0, "an amount is not negative");
  require(value && *value == *amount, "what a spec may state, a pod may ask for: the same amount");
}

void check_durations_and_times(std::string_view text) {
  if (const auto duration = crds::parse_duration(text)) {
    require(duration->count() >= 0, "a duration is not negative");
    require(crds::parse_duration(crds::to_string(*duration)) == duration, "a printed duration is the same");
  }
  if (const auto time = common::parse_time(text)) {
    require(common::parse_time(common::format_micro_time(*time)) == time, "a printed time is the same");
  }
}

}  // namespace

void objects(std::string_view input) {
  Json object = Json::parse(input, nullptr, false);
  if (!object.is_discarded()) check_object(std::move(object));
}

void documents(std::string_view input) {
  const auto loaded = crds::load_documents(input, "input.yaml");
  if (!loaded) {
    require(!loaded.error().message.empty(), "an error says what is wrong");
    return;
  }
  for (const crds::Document& document : *loaded) {
    for (const auto& error : crds::validate(document)) {
      require(error.location.starts_with("input.yaml:"), "an error has its line");
    }
    check_object(*document.object);
  }
}

void scalars(std::string_view input) {
  check_quantity(input, 1);
  check_quantity(input, 1000);
  if (const auto gpu = crds::parse_gpu(input))
    require(crds::parse_gpu(crds::to_string(*gpu)) == gpu, "a printed amount is the same");
  if (const auto memory = crds::parse_memory(input))
    require(crds::parse_memory(crds::to_string(*memory)) == memory, "a printed amount is the same");
  check_durations_and_times(input);
}

}  // namespace muster::fuzz
