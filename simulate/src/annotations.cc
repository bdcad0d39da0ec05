#include "annotations.h"

#include <array>
#include <nlohmann/json.hpp>

#include "json.h"
#include "muster/crds/validate.h"

namespace muster::simulate {
namespace {

constexpr std::string_view kPrefix = "simulate.muster.dev/";

enum On : unsigned { kNode = 1, kWorkload = 2, kRunning = 4, kOther = 8, kAny = 15 };

struct Known {
  std::string_view name;
  unsigned on;
  void (*take)(Annotations& a, crds::Duration value);
};
constexpr std::array kKnown = {
    Known{"at", kAny, [](Annotations& a, crds::Duration d) { a.at = d; }},
    Known{"delete-at", kAny, [](Annotations& a, crds::Duration d) { a.delete_at = d; }},
    Known{"age", kWorkload, [](Annotations& a, crds::Duration d) { a.behaviour.age = d; }},
    Known{"runs-for", kWorkload, [](Annotations& a, crds::Duration d) { a.behaviour.runs_for = d; }},
    Known{"running-for", kRunning, [](Annotations& a, crds::Duration d) { a.behaviour.running_for = d; }},
    Known{"checkpoint-age", kRunning,
          [](Annotations& a, crds::Duration d) { a.behaviour.checkpoint_age = d; }},
    Known{"saves-in", kWorkload, [](Annotations& a, crds::Duration d) { a.behaviour.saves_in = d; }},
    Known{"fail-at", kNode, [](Annotations& a, crds::Duration d) { a.fail_at = d; }},
    Known{"recover-at", kNode, [](Annotations& a, crds::Duration d) { a.recover_at = d; }},
};

unsigned kind_of(const crds::Json& object) {
  const std::string kind = text(find(object, "kind"));
  if (kind == "Node") return kNode;
  if (kind == "InferenceService") return kWorkload;
  if (kind != "TrainingJob") return kOther;
  return kWorkload | (find(&object, "status", "assignment") != nullptr ? kRunning : 0U);
}

std::string names_on(unsigned kind) {
  std::string all;
  for (const Known& k : kKnown) {
    if ((k.on & kind) != 0) all += (all.empty() ? "" : ", ") + std::string(k.name);
  }
  return all;
}

}  // namespace

Annotations read_annotations(const crds::Document& document, std::vector<crds::FieldError>& errors) {
  Annotations result;
  const crds::Json& object = *document.object;
  const crds::Json* annotations = find(&object, "metadata", "annotations");
  if (annotations == nullptr || !annotations->is_object()) return result;
  const unsigned kind = kind_of(object);
  for (const auto& [key, value] : annotations->items()) {
    if (!key.starts_with(kPrefix)) continue;
    const auto fail = [&](std::string message) {
      const std::string field = "metadata.annotations." + key;
      errors.push_back({crds::object_name(object), field, std::move(message), document.location(field)});
    };
    const std::string name = key.substr(kPrefix.size());
    const auto known = std::ranges::find(kKnown, name, &Known::name);
    if (known == kKnown.end() || (known->on & kind) == 0) {
      const bool needs_assignment = known != kKnown.end() && known->on == kRunning && (kind & kWorkload) != 0;
      fail(needs_assignment ? "is known only where status.assignment says that it is running"
                            : "is not known here; known are " + names_on(kind));
      continue;
    }
    if (!value.is_string()) continue;  // has had its error
    const auto duration = crds::parse_duration(value.get<std::string>());
    if (!duration) {
      fail(duration.error());
    } else {
      known->take(result, *duration);
    }
  }
  const auto later = [&](const std::optional<Instant>& first, const std::optional<Instant>& second,
                         const char* field, const char* than) {
    if (!second || (first && *second > *first)) return;
    const std::string at = "metadata.annotations." + std::string(kPrefix) + field;
    errors.push_back(
        {crds::object_name(object), at, std::string("must be later than ") + than, document.location(at)});
  };
  later(result.at, result.delete_at, "delete-at", "at");
  later(result.fail_at, result.recover_at, "recover-at", "fail-at, and stand beside it");
  return result;
}

}  // namespace muster::simulate
