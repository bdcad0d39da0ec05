#include "muster/reconcilers/schedules/effective_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/common/quantity.h"
#include "muster/crds/codec.h"
#include "muster/crds/validate.h"
#include "muster/reconcilers/schedules/scheduled_minimum.h"
#include "muster/reconcilers/schedules/window.h"

namespace muster::reconcilers {
namespace {

using crds::Time;

// So many beginnings and ends are looked at for the next one that changes anything.
constexpr int kMaxBoundaries = 200;

template <class Spec>
std::vector<Window> windows_of(const Spec& spec, std::vector<std::string>& problems) {
  std::vector<Window> windows;
  for (std::size_t i = 0; i < spec.schedules.size(); ++i) {
    if (auto window = window_of(spec.schedules[i], "spec.schedules", i, problems))
      windows.push_back(std::move(*window));
  }
  return windows;
}

template <class Amount>
void overlay(std::optional<Amount>& amount, const std::optional<Amount>& set) {
  if (set) amount = set;
}
void overlay(crds::Amounts& amounts, const crds::Amounts& set) {
  overlay(amounts.gpu, set.gpu);
  overlay(amounts.cpu, set.cpu);
  overlay(amounts.memory, set.memory);
  for (const auto& [name, amount] : set.resources) amounts.resources[name] = amount;
}
void overlay(crds::AmountsByModel& amounts, const crds::AmountsByModel& set) {
  overlay(static_cast<crds::Amounts&>(amounts), static_cast<const crds::Amounts&>(set));
  for (const auto& [model, amount] : set.models) amounts.models[model] = amount;
}

template <class Spec>
Spec spec_at(const Spec& stated, const std::vector<Window>& windows, Time now) {
  Spec spec = stated;
  for (const Window& window : windows) {
    if (!window.holds(now)) continue;
    const auto& set = stated.schedules[window.entry].set;
    overlay(spec.quota, set.quota);
    overlay(spec.reserved, set.reserved);
    overlay(spec.limit, set.limit);
    if (set.weight) spec.weight = *set.weight;
    if (set.admission) spec.admission = *set.admission;
  }
  return spec;
}

template <class Amount>
std::string text_of(const std::optional<Amount>& amount) {
  return amount ? crds::to_string(*amount) : "none";
}

std::string text_of(const crds::NamedAmounts& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? "none" : common::format_resource(name, found->second);
}
std::string text_of(const crds::ModelAmounts& amounts, const std::string& model) {
  const auto found = amounts.find(model);
  return found == amounts.end() ? "none" : crds::to_string(found->second);
}

// "limit.gpu 64 (32 before), admission Hold (Open before)". `than`: what the second of each is.
template <class Spec>
std::string differences(const Spec& now, const Spec& other, const char* than) {
  std::string text;
  const auto add = [&](const std::string& field, const std::string& is, const std::string& was) {
    if (is != was) text += fmt::format("{}{} {} ({} {})", text.empty() ? "" : ", ", field, is, than, was);
  };
  const auto add_amounts = [&](const std::string& field, const crds::Amounts& is, const crds::Amounts& was) {
    add(field + ".gpu", text_of(is.gpu), text_of(was.gpu));
    add(field + ".cpu", text_of(is.cpu), text_of(was.cpu));
    add(field + ".memory", text_of(is.memory), text_of(was.memory));
    std::set<std::string> names;
    for (const auto* list : {&is.resources, &was.resources}) {
      for (const auto& [name, amount] : *list) names.insert(name);
    }
    for (const auto& name : names)
      add(field + "." + name, text_of(is.resources, name), text_of(was.resources, name));
  };
  add_amounts("quota", now.quota, other.quota);
  std::set<std::string> models;
  for (const auto* list : {&now.quota.models, &other.quota.models}) {
    for (const auto& [model, amount] : *list) models.insert(model);
  }
  for (const auto& model : models)
    add("quota.models." + model, text_of(now.quota.models, model), text_of(other.quota.models, model));
  add_amounts("reserved", now.reserved, other.reserved);
  add_amounts("limit", now.limit, other.limit);
  add("weight", std::to_string(now.weight), std::to_string(other.weight));
  add("admission", std::string(crds::to_string(now.admission)),
      std::string(crds::to_string(other.admission)));
  return text;
}

// Only entries that set the admission are looked at: others may change far more often.
template <class Spec>
std::optional<Drain> coming_drain(const Spec& stated, std::vector<Window> windows, Time now) {
  std::erase_if(windows, [&](const Window& w) { return !stated.schedules[w.entry].set.admission; });
  const auto drains = [&](Time at) {
    return spec_at(stated, windows, at).admission == crds::Admission::kDrain;
  };
  if (drains(now)) return std::nullopt;
  std::optional<Time> begin, end;
  Time at = now;
  for (int i = 0; i < kMaxBoundaries; ++i) {
    const auto next = first_boundary(windows, at);
    if (!next) break;
    at = *next;
    if (!drains(at)) {
      if (begin && !end) end = at;
    } else if (end) {
      return Drain{*begin, *end, at - *end};
    } else if (!begin) {
      begin = at;
    }
  }
  if (!end) return std::nullopt;  // of one that never ends nothing is to be waited for
  return Drain{*begin, *end, std::nullopt};
}

template <class Spec>
std::optional<crds::NextChange> next_change(const Spec& stated, const Spec& now_holds,
                                            const std::vector<Window>& windows, Time now) {
  Time at = now;
  for (int i = 0; i < kMaxBoundaries; ++i) {
    const auto next = first_boundary(windows, at);
    if (!next) return std::nullopt;
    at = *next;
    const Spec then = spec_at(stated, windows, at);
    if (then != now_holds) return crds::NextChange{at, differences(then, now_holds, "now")};
  }
  return crds::NextChange{at, ""};
}

// The next boundary at which `is_so` holds of the spec. Only entries that `matters` takes are looked at.
template <class Spec, class Matters, class IsSo>
std::optional<Time> next_at_which(const Spec& stated, std::vector<Window> windows, Time now, Matters matters,
                                  IsSo is_so) {
  std::erase_if(windows, [&](const Window& w) { return !matters(stated.schedules[w.entry].set); });
  Time at = now;
  for (int i = 0; i < kMaxBoundaries; ++i) {
    const auto next = first_boundary(windows, at);
    if (!next) return std::nullopt;
    at = *next;
    if (is_so(spec_at(stated, windows, at))) return at;
  }
  return std::nullopt;
}

template <class Spec>
std::optional<Time> opens(const Spec& stated, const Spec& holds, const std::vector<Window>& windows,
                          Time now) {
  if (holds.admission == crds::Admission::kOpen) return std::nullopt;
  return next_at_which(
      stated, windows, now, [](const auto& set) { return set.admission.has_value(); },
      [](const Spec& spec) { return spec.admission == crds::Admission::kOpen; });
}

template <class Spec>
std::optional<std::pair<Time, Spec>> coming_bounds(const Spec& stated, const Spec& holds,
                                                   const std::vector<Window>& windows, Time now) {
  const auto at = next_at_which(
      stated, windows, now,
      [](const auto& set) { return set.quota != crds::AmountsByModel{} || set.limit != crds::Amounts{}; },
      [&](const Spec& spec) { return spec.quota != holds.quota || spec.limit != holds.limit; });
  if (!at) return std::nullopt;
  return std::pair(*at, spec_at(stated, windows, *at));
}

template <class Spec>
EffectiveSpec<Spec> effective(const Spec& stated, Time now) {
  EffectiveSpec<Spec> result{.spec = stated};
  if (stated.schedules.empty()) return result;
  const auto windows = windows_of(stated, result.problems);
  result.spec = spec_at(stated, windows, now);
  result.next_change = next_change(stated, result.spec, windows, now);
  result.coming_bounds = coming_bounds(stated, result.spec, windows, now);
  result.coming_drain = coming_drain(stated, windows, now);
  result.opens = opens(stated, result.spec, windows, now);
  for (const Window& window : windows) {
    if (window.holds(now))
      result.in_force +=
          fmt::format("{}spec.schedules[{}]", result.in_force.empty() ? "" : ", ", window.entry);
  }
  if (!result.in_force.empty()) {
    const auto what = differences(result.spec, stated, "otherwise");
    result.in_force += what.empty() ? ": nothing differs" : ": " + what;
  }
  return result;
}

}  // namespace

EffectiveSpec<crds::QueueSpec> effective_spec(const crds::QueueSpec& spec, Time now) {
  return effective(spec, now);
}
EffectiveSpec<crds::ProjectSpec> effective_spec(const crds::ProjectSpec& spec, Time now) {
  return effective(spec, now);
}

std::vector<crds::FieldError> schedule_errors(const crds::Json& object) {
  std::vector<crds::FieldError> errors;
  const auto note = [&](const std::vector<std::string>& problems) {
    for (const auto& problem : problems) {
      const auto colon = problem.find(": ");
      errors.push_back({crds::object_name(object), problem.substr(0, colon), problem.substr(colon + 2), ""});
    }
  };
  const auto find = [&]<class Kind>(const crds::Result<Kind>& read) {
    if (read) note(effective_spec(read->spec, crds::Time{}).problems);
  };
  const std::string kind = object.value("kind", std::string());
  if (kind == "Queue") find(crds::from_json<crds::Queue>(object));
  if (kind == "Project") find(crds::from_json<crds::Project>(object));
  if (kind == "InferenceService") {
    const auto service = crds::from_json<crds::InferenceService>(object);
    if (service && service->spec.autoscaling)
      note(minimum_now(*service->spec.autoscaling, crds::Time{}).problems);
  }
  return errors;
}

}  // namespace muster::reconcilers
