#include "read/annotations.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <expected>
#include <nlohmann/json.hpp>

#include "muster/crds/validate.h"
#include "read/json.h"

namespace muster::simulate {
namespace {

constexpr std::string_view kPrefix = "simulate.muster.dev/";

enum On : unsigned { kNode = 1, kJob = 2, kRunning = 4, kService = 8, kOther = 16 };
constexpr unsigned kWorkload = kJob | kService;
constexpr unsigned kAny = kNode | kWorkload | kRunning | kOther;

constexpr std::int64_t kMaxPercent = 100;

// What is wrong with a value; nullopt: nothing.
using Problem = std::optional<std::string>;

template <class T, class Field>
Problem take(std::expected<T, std::string> value, Field& field) {
  if (!value) return std::move(value.error());
  field = std::move(*value);
  return std::nullopt;
}

template <auto Field>
Problem take_duration(Annotations& a, const std::string& text) {
  return take(crds::parse_duration(text), a.*Field);
}
template <auto Field>
Problem take_behaviour(Annotations& a, const std::string& text) {
  return take(crds::parse_duration(text), a.behaviour.*Field);
}

std::expected<std::int64_t, std::string> percent_of(const std::string& text) {
  std::int64_t percent = -1;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, percent);
  if (error == std::errc() && next == end && percent >= 0 && percent <= kMaxPercent) return percent;
  return std::unexpected("must have percentages from 0 to 100 as its values, has \"" + text + "\"");
}

std::expected<std::int64_t, std::string> load_of(const std::string& text) {
  const auto load = crds::parse_load(text);
  if (load && load->value >= 0) return load->value;
  return std::unexpected("must have amounts of load such as 4 or 0.5 as its values, has \"" + text + "\"");
}

struct Known {
  std::string_view name;
  unsigned on;
  Problem (*take)(Annotations& a, const std::string& text);
};
Problem take_program_fails_at(Annotations& a, const std::string& text) {
  return take(parse_instants(text), a.behaviour.program_fails_at);
}
Problem take_gpu_utilization(Annotations& a, const std::string& text) {
  return take(Course::parse(text, percent_of), a.behaviour.gpu_utilization);
}

Problem take_load(Annotations& a, const std::string& text) {
  return take(Course::parse(text, load_of), a.behaviour.load);
}

constexpr std::array kKnown = {
    Known{"at", kAny, take_duration<&Annotations::at>},
    Known{"delete-at", kAny, take_duration<&Annotations::delete_at>},
    Known{"age", kWorkload, take_behaviour<&Behaviour::age>},
    Known{"runs-for", kWorkload, take_behaviour<&Behaviour::runs_for>},
    Known{"running-for", kRunning, take_behaviour<&Behaviour::running_for>},
    Known{"checkpoint-age", kRunning, take_behaviour<&Behaviour::checkpoint_age>},
    Known{"saves-in", kWorkload, take_behaviour<&Behaviour::saves_in>},
    Known{"starts-in", kWorkload, take_behaviour<&Behaviour::starts_in>},
    Known{"resizes-in", kJob, take_behaviour<&Behaviour::resizes_in>},
    Known{"program-fails-at", kWorkload, take_program_fails_at},
    Known{"gpu-utilization", kJob, take_gpu_utilization},
    Known{"load", kService, take_load},
    Known{"fail-at", kNode, take_duration<&Annotations::fail_at>},
    Known{"recover-at", kNode, take_duration<&Annotations::recover_at>},
};

unsigned kind_of(const crds::Json& object) {
  const std::string kind = text(find(object, "kind"));
  if (kind == "Node") return kNode;
  if (kind == "InferenceService") return kService;
  if (kind != "TrainingJob") return kOther;
  return kJob | (find(&object, "status", "assignment") != nullptr ? kRunning : 0U);
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
    if (auto problem = known->take(result, value.get<std::string>())) fail(*std::move(problem));
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
