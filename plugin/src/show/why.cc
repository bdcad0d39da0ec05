#include "show/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/ui/wanted_gpus.h"
#include "output/text.h"
#include "show/queue.h"

namespace muster::plugin {
namespace {

using crds::Time;

// The path of a field stays as it is written in a spec.
std::string capital(std::string text) {
  if (!text.starts_with("spec.") && !text.empty() && text.front() >= 'a' && text.front() <= 'z')
    text.front() -= 'a' - 'A';
  return text;
}

std::string sentence(std::string text) {
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  return text.empty() ? text : capital(std::move(text)) + ". ";
}

std::string since(std::optional<Time> then, Time now) {
  return then ? fmt::format(" since {} ({})", crds::to_string(*then), for_people(now - *then))
              : std::string();
}

std::string place_in_order(const crds::Waiting& w) {
  if (w.position == 0) return {};
  if (w.project_position == 0) return fmt::format("It is number {} in the order of its pool. ", w.position);
  return fmt::format("It is number {} in the order of its pool, and number {} of its project. ", w.position,
                     w.project_position);
}

// "Ahead of it wait nlp/a (8 GPUs), cv/b (16 GPUs) and 3 others. "
std::string say_ahead(const crds::Waiting& w, const std::vector<Ahead>& ahead) {
  constexpr std::size_t kMostNamed = 3;
  if (ahead.empty() || w.position <= 1) return {};
  const std::size_t named = std::min(ahead.size(), kMostNamed);
  const std::int64_t others = std::max<std::int64_t>(w.position - 1 - static_cast<std::int64_t>(named), 0);
  std::string text =
      named + static_cast<std::size_t>(others) == 1 ? "Ahead of it waits " : "Ahead of it wait ";
  for (std::size_t i = 0; i < named; ++i) {
    const bool is_last = i + 1 == named && others == 0;
    const auto& one = ahead[i];
    text += fmt::format("{}{} ({} GPU{})",
                        i == 0    ? ""
                        : is_last ? " and "
                                  : ", ",
                        one.job, crds::to_string(one.gpus), one.gpus.value == 1000 ? "" : "s");
  }
  if (others > 0) text += fmt::format(" and {} other{}", others, others == 1 ? "" : "s");
  return text + ". ";
}

std::string waits(const std::string& who, std::optional<Time> then, const crds::Waiting& w, Time now,
                  const std::vector<Ahead>& ahead = {}) {
  std::string text = fmt::format("{} waits{}: {}. ", who, since(then, now), w.reason);
  text += sentence(w.message) + place_in_order(w) + say_ahead(w, ahead);
  if (w.estimated_start) {
    text += fmt::format("It is likely to start by {}, in {}, {}. ", crds::to_string(*w.estimated_start),
                        for_people(*w.estimated_start - now), premise_of(w));
  }
  if (const auto helps = what_helps(w.reason); !helps.empty())
    text += fmt::format("What would help: {}. ", helps);
  return text;
}

std::string condition_text(const crds::Conditions& conditions, std::string_view type) {
  const auto* c = crds::find_condition(conditions, type);
  return c == nullptr ? std::string() : c->reason + (c->message.empty() ? "" : ": " + c->message);
}

std::optional<Time> changed(const crds::Conditions& conditions, std::string_view type) {
  const auto* c = crds::find_condition(conditions, type);
  return c == nullptr ? std::nullopt : std::optional(c->last_transition_time);
}

// What was taken from it, and what it kept.
std::string past(const crds::TrainingJobStatus& s, Time now) {
  std::string text;
  if (crds::is_true(s.conditions, "Evicted"))
    text += fmt::format("It had to give its place back{}: {}", since(changed(s.conditions, "Evicted"), now),
                        sentence(condition_text(s.conditions, "Evicted")));
  if (s.preemptions > 0)
    text +=
        fmt::format("It has yielded to other jobs {} time{}. ", s.preemptions, s.preemptions == 1 ? "" : "s");
  if (s.restarts.count > 0)
    text +=
        fmt::format("Its program has failed {} time{}. ", s.restarts.count, s.restarts.count == 1 ? "" : "s");
  if (s.checkpoint.step && s.checkpoint.saved_at) {
    text += fmt::format("Its last checkpoint is step {}, saved {} ago. ", *s.checkpoint.step,
                        for_people(now - *s.checkpoint.saved_at));
  } else if (s.phase != crds::Phase::kFailed && s.phase != crds::Phase::kSucceeded &&
             (s.attempt > 1 || crds::is_true(s.conditions, "Evicted"))) {
    text += "No checkpoint of it is known: it begins anew. ";
  }
  return text;
}

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// What its program has found out. The end of an array that waited for a result says it already.
std::string result_of(const crds::TrainingJobStatus& s) {
  if (s.result.empty()) return {};
  const auto* complete = crds::find_condition(s.conditions, "Complete");
  if (complete != nullptr && complete->reason == "ResultFound") return {};
  if (!s.array) return fmt::format("Its result: {}. ", s.result);
  return fmt::format("The first result is that of index {}: {}. ", s.array->result_index.value_or(0),
                     s.result);
}

// What its indexes are at.
std::string of_array(const crds::TrainingJob& job, const std::string& who, Time now) {
  const auto& s = job.status;
  const crds::ArrayStatus& a = *s.array;
  std::string text;
  if (s.phase == crds::Phase::kSucceeded) {
    text = fmt::format("{} has succeeded{}: {}", who, since(s.finished_at, now),
                       sentence(condition_text(s.conditions, "Complete")));
  } else if (s.phase == crds::Phase::kFailed) {
    text = fmt::format("{} has failed{}. {}", who, since(s.finished_at, now),
                       sentence(condition_text(s.conditions, "Failed")));
  } else if (s.phase == crds::Phase::kSuspended) {
    text = who + " is suspended. What would help: spec.suspend: false. ";
  } else {
    text = fmt::format("{} is an array of {} indexes: {} run with {} GPUs, {} wait, {} have not begun. ", who,
                       job.spec.array->count, a.running, gpus(s.allocated), a.waiting, a.pending);
  }
  text += fmt::format("{} have succeeded, {} have failed. ", a.succeeded, a.failed);
  if (!a.failed_indexes.empty()) text += fmt::format("Failed: {}. ", a.failed_indexes);
  if (!a.held_indexes.empty())
    text += fmt::format("Suspended because spec.array.parallelism was lowered: {}. ", a.held_indexes);
  text += result_of(s);
  if (!s.queue.reason.empty()) text += waits("An index of it", std::nullopt, s.queue, now);
  return text;
}

std::string present(const crds::TrainingJob& job, const std::string& who, Time now,
                    const std::vector<Ahead>& ahead) {
  const auto& s = job.status;
  if (job.spec.array && s.array && s.phase) return of_array(job, who, now);
  if (job.metadata.deletion_timestamp)
    return who + " is being deleted. Its pods are told to go, and it stays until its finalizers are gone. ";
  if (!s.phase) return who + " was not looked at yet. Is the operator running? ";
  const std::string held =
      fmt::format("{} GPUs in pool {}, attempt {}", gpus(s.allocated), s.assignment.pool, s.attempt);
  switch (*s.phase) {
    case crds::Phase::kQueued:
      return waits(who, changed(s.conditions, "Admitted"), s.queue, now, ahead);
    case crds::Phase::kSuspended:
      return fmt::format("{} is suspended. {}", who,
                         job.spec.suspend || !crds::is_true(s.conditions, "Suspended")
                             ? "What would help: spec.suspend: false. "
                             : sentence(crds::find_condition(s.conditions, "Suspended")->message));
    case crds::Phase::kStarting:
      return fmt::format("{} starts{} with {}. {}", who, since(s.assignment.admitted_at, now), held,
                         sentence(condition_text(s.conditions, "PodsReady")));
    case crds::Phase::kRunning:
    case crds::Phase::kResizing:
      return fmt::format("{} {}{} with {}. {}", who,
                         *s.phase == crds::Phase::kRunning ? "runs" : "changes its size and runs",
                         since(s.started_at, now), held,
                         !crds::is_preemptible(job.spec) && s.assignment.preemptible.value_or(false)
                             ? "It was started as preemptible, and counts as that until it starts again. "
                             : "");
    case crds::Phase::kCheckpointing:
      return who + " saves and gives its place back. ";
    case crds::Phase::kSucceeded:
      return fmt::format("{} has succeeded{}. ", who, since(s.finished_at, now)) + result_of(s);
    case crds::Phase::kFailed:
      return fmt::format("{} has failed{}. {}", who, since(s.finished_at, now),
                         sentence(condition_text(s.conditions, "Failed")));
  }
  return {};
}

}  // namespace

std::vector<Ahead> ahead_of(const crds::TrainingJob& job, const std::vector<crds::TrainingJob>& jobs) {
  const auto mine = job.status.queue.position;
  const std::string pool = pool_of(job);
  std::map<std::int32_t, Ahead> in_order;
  for (const auto& other : jobs) {
    const auto position = other.status.queue.position;
    if (other.status.phase != crds::Phase::kQueued || other.spec.array || position == 0 || position >= mine ||
        pool_of(other) != pool)
      continue;
    in_order[position] = {name_of(other.metadata), ui::wanted_gpus(other)};
  }
  std::vector<Ahead> ahead;
  for (auto& [position, one] : in_order) ahead.push_back(std::move(one));
  return ahead;
}

std::string why(const crds::TrainingJob& job, Time now, const std::vector<Ahead>& ahead) {
  const std::string text = trimmed(present(job, name_of(job.metadata), now, ahead));
  const std::string before = trimmed(past(job.status, now));
  return before.empty() ? text : text + "\n" + before;
}

std::string why(const crds::InferenceService& service, Time now) {
  const auto& s = service.status;
  const std::string who = name_of(service.metadata);
  std::string text;
  if (s.desired_replicas == 0 && s.replicas == 0 && s.conditions.empty()) {
    text = who + " was not looked at yet. Is the operator running? ";
  } else {
    text = fmt::format("{} has {} of {} replicas ready, with {} GPUs. ", who, s.ready_replicas,
                       s.desired_replicas, gpus(s.allocated));
    if (!s.queue.reason.empty()) text += waits("A replica of it", std::nullopt, s.queue, now);
    for (const char* type : {"Accepted", "RolledOut", "ScalingActive"}) {
      const auto* c = crds::find_condition(s.conditions, type);
      if (c != nullptr && c->status == crds::ConditionStatus::kFalse)
        text += fmt::format("{} is False: {}", type, sentence(condition_text(s.conditions, type)));
    }
  }
  return trimmed(text);
}

Data why_data(const Workload& workload, Time now, const std::vector<Ahead>& ahead) {
  return std::visit(
      [&]<class Kind>(const Kind& object) {
        const crds::Json whole = crds::to_json(object);
        const crds::Waiting& w = object.status.queue;
        Data data = {{"kind", Kind::kKind},
                     {"namespace", object.metadata.ns},
                     {"name", object.metadata.name},
                     {"text", why(workload, now, ahead)}};
        const crds::Json& status = whole.value("status", crds::Json::object());
        if (status.contains("phase")) data["phase"] = status["phase"];
        if (status.contains("result")) data["result"] = status["result"];
        if (!w.reason.empty()) data["waiting"] = status["queue"];
        if (const auto helps = what_helps(w.reason); !helps.empty()) data["helps"] = helps;
        for (const auto& one : ahead)
          data["ahead"].push_back({{"job", one.job}, {"gpus", crds::to_string(one.gpus)}});
        return data;
      },
      workload);
}

std::string why(const Workload& workload, Time now, const std::vector<Ahead>& ahead) {
  if (const auto* job = std::get_if<crds::TrainingJob>(&workload)) return why(*job, now, ahead);
  return why(std::get<crds::InferenceService>(workload), now);
}

}  // namespace muster::plugin
