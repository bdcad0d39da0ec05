// What changes the size of a gang, or the pods it is made of: members that join and leave, and edits of the
// spec.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lifecycle/refusals.h"
#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace {

using ConditionStatus = crds::ConditionStatus;

std::size_t order_of(const std::vector<crds::Role>& roles, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(roles, name, &crds::Role::name) - roles.begin());
}

bool is_at(const crds::PodAssignment& mine, const Place& place) {
  return mine.role == place.role && mine.index == place.index;
}

// Its members may join and leave while the others run.
bool is_in_place(const JobStep& s) {
  return crds::resizes_in_place(s.spec);
}

// The member that all others connect to. Without it they cannot go on.
bool is_leader(const JobStep& s, std::size_t i) {
  const auto& p = s.status.assignment.pods[i];
  return s.spec.framework != crds::Framework::kGeneric && p.index == 0 && p.role == s.spec.roles.front().name;
}

// The highest indexes of each role that has more pods than it is wished to have.
std::vector<std::size_t> beyond_wish(const JobStep& s) {
  const auto most = most_by_role(s.spec);
  std::map<std::string_view, std::int32_t> left;
  for (std::size_t r = 0; r < s.spec.roles.size(); ++r) left[s.spec.roles[r].name] = most[r];
  std::vector<std::size_t> beyond;
  for (std::size_t i = 0; i < s.status.assignment.pods.size(); ++i) {
    if (left[s.status.assignment.pods[i].role]-- <= 0) beyond.push_back(i);
  }
  return beyond;
}

// Without these (ascending) every role still has what it cannot run without.
bool has_minimums(const JobStep& s, const std::vector<std::size_t>& without) {
  std::map<std::string_view, std::int32_t> there;
  const auto& pods = s.status.assignment.pods;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    if (!std::ranges::binary_search(without, i)) ++there[pods[i].role];
  }
  return std::ranges::all_of(s.spec.roles,
                             [&](const crds::Role& r) { return there[r.name] >= crds::least_replicas(r); });
}

void erase_places(JobStep& s, const std::vector<std::size_t>& gone) {
  if (gone.empty()) return;
  count_run(s);
  auto& a = s.status.assignment;
  std::vector<crds::PodAssignment> kept;
  std::vector<std::int32_t> succeeded;
  for (std::size_t i = 0; i < a.pods.size(); ++i) {
    if (std::ranges::binary_search(gone, i)) continue;
    if (s.gang.succeeded[i]) succeeded.push_back(static_cast<std::int32_t>(kept.size()));
    kept.push_back(std::move(a.pods[i]));
  }
  a.pods = std::move(kept);
  a.succeeded = std::move(succeeded);
  a.resized_at = s.seen.now;
  match_pods(s);
}

// The other members run on when these go.
bool goes_on_without(const JobStep& s, const std::vector<std::size_t>& gone) {
  return is_in_place(s) && std::ranges::none_of(gone, [&](std::size_t i) { return is_leader(s, i); });
}

// `gone`: ascending; the minimums stay.
void drop_members(JobStep& s, const std::vector<std::size_t>& gone, const std::string& why,
                  const std::string& reason, client::EventType type) {
  const auto& a = s.status.assignment;
  const std::string text =
      cut(fmt::format("shrinks from {} to {} pods: {}; {} leave", a.pods.size(), a.pods.size() - gone.size(),
                      why, say_members(a, gone, s.seen.charge)),
          kMaxMessage / 2);
  const bool stays = goes_on_without(s, gone);
  if (!stays) {
    add_run_time(s);
    ask_to_save(s);
  }
  erase_places(s, gone);
  if (stays) {
    s.set("Admitted", ConditionStatus::kTrue, "Admitted", say_admitted(a));
    return s.note(type, reason, "Shrink", text);
  }
  renumber_places(s);
  begin_attempt(s, text, reason, "Shrink", type);
}

// The number in the name of the next pod at this place. A pod from before may still be there, and no name is
// used twice within an attempt.
std::int32_t next_try(const JobStep& s, const Place& place) {
  std::int32_t next = 0;
  for (const auto& pod : s.seen.pods) {
    const auto id = identity_of(*pod);
    if (id && id->attempt == s.status.assignment.attempt && id->role == place.role &&
        id->index == place.index)
      next = std::max(next, id->tries + 1);
  }
  return next;
}

// The gang has given this very member up since, and its pod still has these GPUs.
bool is_leaving(const JobStep& s, const Place& place) {
  return std::ranges::any_of(s.seen.pods, [&](const auto& pod) {
    const auto id = identity_of(*pod);
    if (!id || id->attempt != s.status.assignment.attempt || id->role != place.role ||
        id->index != place.index || is_terminal(*pod) || pod->node_name != place.node)
      return false;
    return std::ranges::any_of(gpus_of(*pod), [&](std::int32_t gpu) {
      return std::ranges::find(place.gpus, gpu) != place.gpus.end();
    });
  });
}

// Why the gang cannot take the edited spec up where it is, without those `beyond` it (ascending); "": it can.
std::string why_not_in_its_places(JobStep& s, bool same_places, const std::vector<std::size_t>& beyond,
                                  bool begins_anew) {
  if (!same_places) return "the edited spec asks for pods that need other places";
  if (!has_minimums(s, beyond)) return "the edited spec asks for more pods at least than it has";
  if (!begins_anew) return "";
  const bool is_short = has_displaced(s);
  if (const auto node = unusable_node(s, beyond); !node.empty())
    return "the edited spec asks for other pods, and node " + node + " is not to be used any more";
  return is_short ? "the edited spec asks for other pods, and places were lost" : "";
}

}  // namespace

bool follow_spec(JobStep& s) {
  auto& a = s.status.assignment;
  const auto generation = s.seen.job.metadata.generation;
  if (s.seen.invalid || a.generation == generation) return false;
  const MadeFrom now = made_from(s.spec);
  const bool same_pods = a.made_from.empty() || a.made_from == now.text();
  const bool same_places = same_pods || a.made_from.starts_with(now.places + "-");
  const auto beyond = beyond_wish(s);
  const bool begins_anew = !same_pods || (!beyond.empty() && !is_in_place(s));
  if (const auto why = why_not_in_its_places(s, same_places, beyond, begins_anew); !why.empty()) {
    requeue(s, "SpecChanged", why, client::EventType::kNormal);
    return true;
  }
  a.generation = generation;
  a.made_from = now.text();
  if (!crds::is_preemptible(s.spec) && a.preemptible.value_or(false))
    s.note(client::EventType::kNormal, "PreemptibleYet", "Edit",
           "it was started as preemptible, and counts as that until it starts again");
  if (!crds::is_preemptible(s.spec) && crds::has_been_lengthened(s.spec, a))
    s.note(
        client::EventType::kNormal, "MaxRuntimeLengthened", "Edit",
        fmt::format(
            "it said at its start that it ends after {}. If a Queue lends quota to work that ends in time, "
            "it counts as preemptible until it starts again",
            crds::to_string(*a.max_runtime)));
  if (same_pods && beyond.empty()) return false;
  if (same_pods) {
    drop_members(s, beyond, "the spec asks for fewer", "Scaled", client::EventType::kNormal);
    return !is_in_place(s);
  }
  add_run_time(s);
  ask_to_save(s);
  erase_places(s, beyond);
  renumber_places(s);
  begin_attempt(s, "the edited spec asks for other pods", "SpecChanged", "Restart",
                client::EventType::kNormal);
  return true;
}

void shrink(JobStep& s, const JobDecision& to) {
  const auto& pods = s.status.assignment.pods;
  std::vector<std::size_t> gone;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    if (order_of(s.spec.roles, pods[i].role) == s.spec.roles.size())
      continue;  // nothing is decided about these
    if (std::ranges::none_of(to.places, [&](const Place& p) { return is_at(pods[i], p); })) gone.push_back(i);
  }
  if (gone.empty()) return;
  const bool begins_anew = has_minimums(s, gone) && !goes_on_without(s, gone);
  if (begins_anew && has_displaced(s, gone)) return;  // that is dealt with first
  count_loss(s, to);
  if (!has_minimums(s, gone)) return requeue(s, to.reason, to.message);
  drop_members(s, gone, to.message, to.reason, client::EventType::kWarning);
}

void renumber_places(JobStep& s) {
  if (std::ranges::any_of(s.spec.roles, [](const crds::Role& r) { return !r.colocate_with.empty(); })) return;
  std::map<std::string_view, std::int32_t> next;
  for (auto& p : s.status.assignment.pods) p.index = next[p.role]++;
}

void go_on_without(JobStep& s) {
  if (!s.status.started_at || program_fault(s.gang) != nullptr) return;
  bool may = is_in_place(s) && s.spec.topology.groups.empty();
  std::vector<std::size_t> gone;
  std::string why, late;
  for (std::size_t i = 0; i < s.gang.pods.size(); ++i) {
    auto lost = lost_at(s, i);
    const auto& joining = s.status.assignment.pods[i].joining;
    if (lost.empty() && joining && (s.gang.pods[i] == nullptr || !s.gang.pods[i]->ready)) {
      const auto due = *joining + s.spec.start_timeout;
      if (s.seen.now >= due)
        late = lost =
            fmt::format("it was not ready after startTimeout {}", crds::to_string(s.spec.start_timeout));
      else
        s.wake(due);
    }
    if (lost.empty()) continue;
    if (may && s.gang.pods[i] != nullptr && is_refusal(*s.gang.pods[i]))
      remember_refusal_of(s, *s.gang.pods[i]);
    if (may && s.gang.pods[i] == nullptr) remember_refusal_of(s, i);
    if (why.empty()) why = std::move(lost);
    may = may && !is_leader(s, i);
    gone.push_back(i);
  }
  if (gone.empty()) return;
  if (may && has_minimums(s, gone)) {
    drop_members(s, gone, why, "MemberLost", client::EventType::kWarning);
    return find_lost(s);
  }
  if (!late.empty() && lost_pod(s).empty()) back_off(s, "StartTimeout", late);
}

void grow(JobStep& s, const JobDecision& to) {
  auto& a = s.status.assignment;
  std::vector<crds::PodAssignment> added;
  for (const Place& p : to.places) {
    const bool here = std::ranges::any_of(a.pods, [&](const auto& mine) { return is_at(mine, p); });
    // The decision names the whole gang. It may be older than the loss of one of its members.
    if (!here && is_leaving(s, p)) return;
    if (!here) added.push_back({p.role, p.index, p.node, p.gpus, next_try(s, p)});
  }
  if (added.empty() || !a.succeeded.empty() || s.seen.invalid) return;
  if (!is_in_place(s) && has_displaced(s)) return;  // that is dealt with first
  count_run(s);
  count_loss(s, to);
  if (is_in_place(s) && s.status.started_at) {
    for (auto& p : added) p.joining = s.seen.now;
  }
  const auto before = a.pods.size();
  a.pods.insert(a.pods.end(), added.begin(), added.end());
  std::ranges::sort(a.pods, {}, [&](const crds::PodAssignment& p) {
    return std::pair(order_of(s.spec.roles, p.role), p.index);
  });
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < a.pods.size(); ++i) {
    if (std::ranges::find(added, a.pods[i]) != added.end()) which.push_back(i);
  }
  const auto text = fmt::format("grows from {} to {} pods: there is room; {} join", before, a.pods.size(),
                                say_members(a, which, s.seen.charge));
  a.resized_at = s.seen.now;
  match_pods(s);
  if (is_in_place(s)) {
    s.set("Admitted", ConditionStatus::kTrue, "Admitted", say_admitted(a));
    return s.note(client::EventType::kNormal, "Grown", "Grow", text);
  }
  add_run_time(s);
  ask_to_save(s);
  renumber_places(s);
  begin_attempt(s, text, "Grown", "Grow", client::EventType::kNormal);
}

bool replace_members(JobStep& s, const JobDecision& replace) {
  if (!is_in_place(s) || !s.status.started_at || program_fault(s.gang) != nullptr) return false;
  const bool headless = std::ranges::any_of(replace.places, [&](const Place& p) {
    return p.index == 0 && p.role == s.spec.roles.front().name &&
           s.spec.framework != crds::Framework::kGeneric;
  });
  if (headless) return false;
  const auto why = why_lost(s);
  replace_pods(s, replace);
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < s.status.assignment.pods.size(); ++i) {
    auto& mine = s.status.assignment.pods[i];
    if (std::ranges::none_of(replace.places, [&](const Place& p) { return is_at(mine, p); })) continue;
    mine.joining = s.seen.now;
    which.push_back(i);
  }
  s.note(client::EventType::kWarning, "Replaced", "Replace",
         fmt::format("{}; {} have other places, the others run on", why.empty() ? "places were lost" : why,
                     say_members(s.status.assignment, which, s.seen.charge)));
  match_pods(s);
  find_lost(s);
  return true;
}

void welcome_members(JobStep& s) {
  bool all = true, has_grown = false;
  for (std::size_t i = 0; i < s.gang.pods.size(); ++i) {
    auto& joining = s.status.assignment.pods[i].joining;
    if (joining && (s.gang.succeeded[i] || (s.gang.pods[i] != nullptr && s.gang.pods[i]->ready))) {
      has_grown = has_grown || joining == s.status.assignment.resized_at;  // else it has replaced a lost one
      joining.reset();
    }
    all = all && !joining;
  }
  if (all && has_grown) note_resize(s);
  if (all && s.status.started_at && is_in_place(s))
    s.set("PodsReady", ConditionStatus::kTrue, "PodsReady",
          fmt::format("all {} pods are ready", s.gang.pods.size()));
}

bool is_resizing(const JobStep& s) {
  const bool joins =
      std::ranges::any_of(s.status.assignment.pods, [](const auto& p) { return p.joining.has_value(); });
  return joins || (s.status.started_at && is_in_place(s) && s.gang.stale.count > 0);
}

}  // namespace muster::reconcilers
