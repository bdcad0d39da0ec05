#include "muster/reconcilers/lifecycle/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "muster/reconcilers/lifecycle/job_status.h"

namespace muster::reconcilers {
namespace {

// A message names so many jobs, and says how many more there are.
constexpr std::size_t kMaxNamed = 5;

// The worst of them gives the reason.
enum class Standing : std::uint8_t { kNotComplete, kNotFound, kFailed };

std::string_view reason_of(Standing standing) {
  switch (standing) {
    case Standing::kFailed:
      return "DependencyFailed";
    case Standing::kNotFound:
      return "DependencyNotFound";
    case Standing::kNotComplete:
      break;
  }
  return "DependencyNotComplete";
}

Standing standing_of(const crds::TrainingJob* other) {
  if (other == nullptr) return Standing::kNotFound;
  return crds::is_true(other->status.conditions, "Failed") ? Standing::kFailed : Standing::kNotComplete;
}

std::string say_where(const crds::TrainingJob& other) {
  const auto& status = other.status;
  if (!status.phase) return "is new";
  const bool waits = *status.phase == crds::Phase::kQueued && !status.queue.reason.empty();
  return fmt::format("is {}{}", crds::to_string(*status.phase),
                     waits ? " (" + status.queue.reason + ")" : std::string());
}

std::string say(const crds::Dependency& dependency, const crds::TrainingJob* other, const std::string& ns) {
  const std::string_view wanted =
      dependency.condition == crds::DependencyCondition::kFinished ? "Complete or Failed" : "Complete";
  if (other == nullptr) {
    return fmt::format(
        "TrainingJob {} has to be {}, and does not exist in namespace {}: make it, or take it out of "
        "spec.dependsOn",
        dependency.name, wanted, ns);
  }
  const auto* failed = crds::find_condition(other->status.conditions, "Failed");
  if (failed != nullptr && failed->status == crds::ConditionStatus::kTrue) {
    return fmt::format(
        "TrainingJob {} has to be {}, and has Failed ({}): delete it and make it anew, or take it out of "
        "spec.dependsOn",
        dependency.name, wanted, failed->reason);
  }
  return fmt::format("TrainingJob {} has to be {}, and {}", dependency.name, wanted, say_where(*other));
}

// The shortest way from the job through those that it waits for and back to it: its name first. Empty: there
// is none.
std::vector<std::string> circle_through(const crds::TrainingJob& job, const FindJob& find) {
  const std::string& name = job.metadata.name;
  std::map<std::string, std::string> reached_from;
  std::deque<std::string> to_look_at{name};
  while (!to_look_at.empty()) {
    const std::string at = std::move(to_look_at.front());
    to_look_at.pop_front();
    const crds::TrainingJob* there = at == name ? &job : find(at);
    if (there == nullptr) continue;
    for (const auto& next : awaited_by(*there)) {
      if (next.name == name) {
        std::vector<std::string> way;
        for (std::string step = at; step != name; step = reached_from.at(step)) way.push_back(step);
        way.push_back(name);
        std::ranges::reverse(way);
        return way;
      }
      if (reached_from.emplace(next.name, at).second) to_look_at.push_back(next.name);
    }
  }
  return {};
}

std::string say_circle(const std::vector<std::string>& circle) {
  std::string way;
  const bool is_long = circle.size() > 2 * kMaxNamed;
  for (std::size_t i = 0; i < circle.size() && i < 2 * kMaxNamed; ++i) way += circle[i] + " -> ";
  return fmt::format(
      "spec.dependsOn goes round in a circle: {}{}{}; none of these jobs can ever start, so one "
      "of them has to wait for less",
      way, is_long ? "… -> " : "", circle.front());
}

}  // namespace

bool has_begun(const crds::TrainingJobStatus& status) {
  if (status.attempt != 0) return true;
  const auto& a = status.array;
  return a && (a->waiting + a->running + a->succeeded + a->failed > 0 || !a->retry_indexes.empty());
}

bool is_met(const crds::Dependency& dependency, const crds::TrainingJobStatus& other) {
  if (crds::is_true(other.conditions, "Complete")) return true;
  return dependency.condition == crds::DependencyCondition::kFinished &&
         crds::is_true(other.conditions, "Failed");
}

std::vector<crds::Dependency> awaited_by(const crds::TrainingJob& job) {
  std::vector<crds::Dependency> awaited;
  if (has_begun(job.status) || is_finished(job.status)) return awaited;
  const auto& met = job.status.met_dependencies;
  for (const auto& dependency : job.spec.depends_on) {
    if (std::ranges::find(met, dependency) == met.end()) awaited.push_back(dependency);
  }
  return awaited;
}

DependencyVerdict judge_dependencies(const crds::TrainingJob& job, const FindJob& find) {
  DependencyVerdict verdict;
  if (job.spec.depends_on.empty() || has_begun(job.status) || is_finished(job.status)) return verdict;
  const auto awaited = awaited_by(job);
  Standing worst = Standing::kNotComplete;
  std::size_t missing = 0;
  for (const auto& dependency : job.spec.depends_on) {
    const bool is_awaited = std::ranges::find(awaited, dependency) != awaited.end();
    const crds::TrainingJob* other = is_awaited ? find(dependency.name) : nullptr;
    if (!is_awaited || (other != nullptr && is_met(dependency, other->status))) {
      verdict.met.push_back(dependency);
      continue;
    }
    worst = std::max(worst, standing_of(other));
    if (++missing > kMaxNamed) continue;
    verdict.message += (missing == 1 ? "" : "; ") + say(dependency, other, job.metadata.ns);
  }
  if (missing == 0) return verdict;
  if (missing > kMaxNamed) verdict.message += fmt::format("; and {} more", missing - kMaxNamed);
  verdict.reason = reason_of(worst);
  if (const auto circle = circle_through(job, find); !circle.empty()) {
    verdict.is_circle = true;
    verdict.reason = "DependencyCycle";
    verdict.message = say_circle(circle);
  }
  return verdict;
}

bool is_other_dependency(const crds::TrainingJob& before, const crds::TrainingJob& now) {
  const auto& a = before.status;
  const auto& b = now.status;
  return a.phase != b.phase || a.queue.reason != b.queue.reason || is_finished(a) != is_finished(b) ||
         has_begun(a) != has_begun(b) || a.met_dependencies != b.met_dependencies ||
         before.spec.depends_on != now.spec.depends_on || before.metadata.uid != now.metadata.uid;
}

}  // namespace muster::reconcilers
