#include "muster/reconcilers/lifecycle/lifecycle_texts.h"

#include <fmt/format.h>

#include <set>

namespace muster::reconcilers {
namespace {

// What others wrote is quoted up to here.
constexpr std::size_t kMaxQuote = 256;
constexpr std::string_view kLastToGo = "; the last to go is pod ";

// ": what it said", or nothing.
std::string in_quotes(std::string_view text) {
  return text.empty() ? std::string() : ": " + cut(text, kMaxQuote);
}
// " (reason)", or nothing.
std::string in_brackets(std::string_view reason) {
  return reason.empty() ? std::string() : fmt::format(" ({})", reason);
}

// "8 GPUs", "500m GPU"
std::string gpus_text(crds::MilliGpu gpus) {
  return fmt::format("{} GPU{}", crds::to_string(gpus), gpus.value > 0 && gpus.value <= 1000 ? "" : "s");
}

// Why the gang is not whole; empty: nobody says.
std::string why_not_whole(const Gang& gang) {
  if (gang.stale.count > 0) {
    return fmt::format("; {} pods of earlier attempts have not ended, among them {}", gang.stale.count,
                       gang.stale.example);
  }
  for (const auto* pod : gang.pods) {
    if (pod == nullptr || pod->ready) continue;
    if (pod->phase == client::PodPhase::kFailed) return "; " + say_refused(*pod);
    if (pod->phase != client::PodPhase::kSucceeded && !pod->waiting_reason.empty()) {
      return fmt::format("; pod {} on node {}: {}{}", pod->meta.name, pod->node_name, pod->waiting_reason,
                         in_quotes(pod->waiting_message));
    }
  }
  return {};
}

}  // namespace

std::string say_admitted(const crds::Assignment& assignment) {
  std::string from;
  if (assignment.resume.step) {
    from = fmt::format(", from step {}{}", *assignment.resume.step, in_brackets(assignment.resume.uri));
  } else if (assignment.attempt > 1) {
    from = ", from the beginning: no checkpoint was reported";
  }
  return fmt::format("attempt {}: {} pods in pool {}{}", assignment.attempt, assignment.pods.size(),
                     assignment.pool, from);
}

std::string say_grace_too_short(std::int64_t grace, std::int64_t took) {
  return fmt::format(
      "pods get {} s from SIGTERM to SIGKILL and one took {} s or more to save; what it had not saved by "
      "then is lost: set checkpoint.gracePeriod to more",
      grace, took);
}

std::string say_nominated(const crds::Nomination& nomination, const std::string& why) {
  std::set<std::string> nodes;
  for (const auto& p : nomination.pods) nodes.insert(p.node);
  return fmt::format("places in pool {} on {} nodes, the first of them {}, are kept for it: {}",
                     nomination.pool, nodes.size(), *nodes.begin(), why);
}

std::string say_members(const crds::Assignment& assignment, const std::vector<std::size_t>& which,
                        const PlaceCost& cost) {
  std::string names;
  crds::MilliGpu gpus{};
  for (std::size_t at = 0; at < which.size();) {
    const auto& first = assignment.pods[which[at]];
    std::size_t end = at;
    while (end < which.size() && assignment.pods[which[end]].role == first.role &&
           assignment.pods[which[end]].index == first.index + static_cast<std::int32_t>(end - at)) {
      gpus.value += cost_of(assignment.pods[which[end]], cost).value;
      ++end;
    }
    names += fmt::format("{}{}-{}", names.empty() ? "" : ", ", first.role, first.index);
    if (end - at > 1) names += fmt::format(" to {}-{}", first.role, assignment.pods[which[end - 1]].index);
    at = end;
  }
  return fmt::format("{} with {}", cut(names, kMaxQuote), gpus_text(gpus));
}

std::string say_given_back(const crds::Assignment& assignment, const PlaceCost& cost) {
  crds::MilliGpu gpus{};
  for (const auto& p : assignment.pods) gpus.value += cost_of(p, cost).value;
  const auto n = assignment.pods.size();
  return fmt::format("{} pod{} with {}", n, n == 1 ? "" : "s", gpus_text(gpus));
}

std::string say_deadline(const Lingering& left, crds::Time now) {
  if (left.deadline == crds::Time{}) return {};
  const auto by = crds::to_string(left.deadline);
  if (now < left.overdue_at()) return fmt::format(", which has until {} to save", by);
  return fmt::format(
      ", which should have ended by {}: look at its node, and at its finalizers; it holds its place until "
      "its "
      "object is gone",
      by);
}

std::string say_lingering(const Lingering& left, std::int32_t attempt, std::int64_t grace, crds::Time now) {
  const bool in_time = left.deadline == crds::Time{} || now < left.overdue_at();
  return fmt::format("{} pods of attempts up to {} have not ended yet, among them {}{}", left.count, attempt,
                     left.example,
                     in_time ? fmt::format("; they get {} s to save", grace) : say_deadline(left, now));
}

std::string say_last_to_go(const Lingering& left, crds::Time now) {
  return fmt::format("{}{}{}", kLastToGo, left.example, say_deadline(left, now));
}

std::string_view last_to_go_in(std::string_view message) {
  const auto at = message.rfind(kLastToGo);
  return at == std::string_view::npos ? std::string_view() : message.substr(at);
}

std::string say_failed(const client::Pod& pod) {
  for (const auto& end : pod.ended) {
    if (end.exit_code == 0) continue;
    return fmt::format("pod {}: container {} ended with exit code {}{}{}", pod.meta.name, end.name,
                       end.exit_code, in_brackets(end.reason), in_quotes(end.message));
  }
  return fmt::format("pod {} failed{}{}", pod.meta.name, in_brackets(pod.reason), in_quotes(pod.message));
}

std::string say_refused(const client::Pod& pod) {
  return fmt::format("node {} refused pod {}: {}{}", pod.node_name, pod.meta.name, pod.reason,
                     in_quotes(pod.message));
}

std::string say_not_held(const crds::PodAssignment& place, const Holding& holding) {
  return fmt::format("node {} does not give pod {}-{} its GPUs: {}{}", place.node, place.role, place.index,
                     holding.refused, in_quotes(holding.message));
}

std::string say_gone(const crds::PodAssignment& place) {
  return fmt::format("pod {}-{} of node {} is gone", place.role, place.index, place.node);
}

std::string say_deleted(const client::Pod& pod) {
  return fmt::format("pod {} on node {} was deleted", pod.meta.name, pod.node_name);
}

std::string say_ended_by_node(const client::Pod& pod) {
  return fmt::format("pod {} was ended by node {}: {}{}", pod.meta.name, pod.node_name, pod.reason,
                     in_quotes(pod.message));
}

std::string say_start_timed_out(const Gang& gang, crds::Duration start_timeout) {
  return fmt::format("{} of {} pods were ready after startTimeout {}{}", count_there(gang), gang.pods.size(),
                     crds::to_string(start_timeout), why_not_whole(gang));
}

}  // namespace muster::reconcilers
