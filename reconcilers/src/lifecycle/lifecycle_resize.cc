// What changes the size of a gang, or the pods it is made of: members that join and leave, and edits
// of the spec.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lifecycle_texts.h"
#include "machine.h"
#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace {

std::size_t order_of(const std::vector<crds::Role>& roles, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(roles, name, &crds::Role::name) - roles.begin());
}

bool is_at(const crds::PodAssignment& mine, const Place& place) {
  return mine.role == place.role && mine.index == place.index;
}

}  // namespace

// The one that the others look for: without it they cannot go on.
bool Machine::leads(std::size_t i) const {
  const auto& p = status_.assignment.pods[i];
  return spec_.framework != crds::Framework::kGeneric && p.index == 0 && p.role == spec_.roles.front().name;
}

// Its members may join and leave while the others run.
bool Machine::is_in_place() const {
  return crds::resizes_in_place(spec_);
}

// --- edits of the spec

// True: the gang is being taken back or started anew, or has become smaller, because of an edit. What needs
// other pods restarts the gang from its checkpoint: where it stands if the same places will do, else from the
// queue. Everything else acts without its doing.
bool Machine::follow_spec() {
  auto& a = status_.assignment;
  const auto generation = seen_.job.metadata.generation;
  if (seen_.invalid || a.generation == generation) return false;
  const MadeFrom now = made_from(spec_);
  const bool same_pods = a.made_from.empty() || a.made_from == now.text();
  const bool same_places = same_pods || a.made_from.starts_with(now.places + "-");
  const auto beyond = beyond_wish();
  if (!same_places || !has_minimums(beyond)) {
    requeue("SpecChanged",
            same_places ? "the edited spec asks for more pods at least than it has"
                        : "the edited spec asks for pods that need other places",
            client::EventType::kNormal);
    return true;
  }
  a.generation = generation;
  a.made_from = now.text();
  if (same_pods && beyond.empty()) return false;
  if (same_pods) {
    drop_members(beyond, "the spec asks for fewer", "Scaled", client::EventType::kNormal);
    return !is_in_place();
  }
  add_run_time();
  erase_places(beyond);
  renumber();
  begin_attempt("the edited spec asks for other pods", "SpecChanged", "Restart", client::EventType::kNormal);
  return true;
}

// The highest indexes of each role that has more pods than it is wished to have.
std::vector<std::size_t> Machine::beyond_wish() const {
  const auto most = most_by_role(spec_);
  std::map<std::string_view, std::int32_t> left;
  for (std::size_t r = 0; r < spec_.roles.size(); ++r) left[spec_.roles[r].name] = most[r];
  std::vector<std::size_t> beyond;
  for (std::size_t i = 0; i < status_.assignment.pods.size(); ++i) {
    if (left[status_.assignment.pods[i].role]-- <= 0) beyond.push_back(i);
  }
  return beyond;
}

// Without these (ascending) every role still has what it cannot run without.
bool Machine::has_minimums(const std::vector<std::size_t>& without) const {
  std::map<std::string_view, std::int32_t> there;
  const auto& pods = status_.assignment.pods;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    if (!std::ranges::binary_search(without, i)) ++there[pods[i].role];
  }
  return std::ranges::all_of(spec_.roles,
                             [&](const crds::Role& r) { return there[r.name] >= crds::least_replicas(r); });
}

// --- members leave

void Machine::shrink(const Decision& to) {
  const auto& pods = status_.assignment.pods;
  std::vector<std::size_t> gone;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    if (order_of(spec_.roles, pods[i].role) == spec_.roles.size())
      continue;  // nothing is decided about these
    if (std::ranges::none_of(to.places, [&](const Place& p) { return is_at(pods[i], p); })) gone.push_back(i);
  }
  if (gone.empty()) return;
  if (!has_minimums(gone)) return requeue(to.reason, to.message);
  drop_members(gone, to.message, to.reason, client::EventType::kWarning);
}

// `gone`: ascending; the minimums stay.
void Machine::drop_members(const std::vector<std::size_t>& gone, const std::string& why,
                           const std::string& reason, client::EventType type) {
  const auto& a = status_.assignment;
  const std::string text =
      cut(fmt::format("shrinks from {} to {} pods: {}; {} leave", a.pods.size(), a.pods.size() - gone.size(),
                      why, say_members(a, gone, seen_.charge)),
          kMaxMessage / 2);
  const bool stays = is_in_place() && std::ranges::none_of(gone, [&](std::size_t i) { return leads(i); });
  if (!stays) add_run_time();
  erase_places(gone);
  if (stays) {
    set("Admitted", ConditionStatus::kTrue, "Admitted", say_admitted(a));
    return note(type, reason, "Shrink", text);
  }
  renumber();
  begin_attempt(text, reason, "Shrink", type);
}

void Machine::erase_places(const std::vector<std::size_t>& gone) {
  if (gone.empty()) return;
  auto& a = status_.assignment;
  std::vector<crds::PodAssignment> kept;
  std::vector<std::int32_t> succeeded;
  for (std::size_t i = 0; i < a.pods.size(); ++i) {
    if (std::ranges::binary_search(gone, i)) continue;
    if (gang_.succeeded[i]) succeeded.push_back(static_cast<std::int32_t>(kept.size()));
    kept.push_back(std::move(a.pods[i]));
  }
  a.pods = std::move(kept);
  a.succeeded = std::move(succeeded);
  a.resized_at = seen_.now;
  match_pods();
}

// Of a gang that starts anew: indexes from 0 without a gap, as programs of a fixed size expect them. Pods
// that stand beside one of another role keep theirs.
void Machine::renumber() {
  if (std::ranges::any_of(spec_.roles, [](const crds::Role& r) { return !r.colocate_with.empty(); })) return;
  std::map<std::string_view, std::int32_t> next;
  for (auto& p : status_.assignment.pods) p.index = next[p.role]++;
}

// What is lost of a gang whose members come and go is done without, as long as the rest is enough; others
// join when there is room. Groups go whole or not at all: such a gang starts anew. Who joins and does not
// start in time, and cannot be done without, takes the gang back.
void Machine::go_on_without() {
  if (!status_.started_at || program_fault(gang_) != nullptr) return;
  bool may = is_in_place() && spec_.topology.groups.empty();
  std::vector<std::size_t> gone;
  std::string why, late;
  for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
    auto lost = lost_at(i);
    const auto& joining = status_.assignment.pods[i].joining;
    if (lost.empty() && joining && (gang_.pods[i] == nullptr || !gang_.pods[i]->ready)) {
      const auto due = *joining + spec_.start_timeout;
      if (seen_.now >= due)
        late = lost =
            fmt::format("it was not ready after startTimeout {}", crds::to_string(spec_.start_timeout));
      else
        wake(due);
    }
    if (lost.empty()) continue;
    if (may && gang_.pods[i] != nullptr && is_refusal(*gang_.pods[i])) remember_refusal_of(*gang_.pods[i]);
    if (may && gang_.pods[i] == nullptr) remember_refusal_of(i);
    if (why.empty()) why = std::move(lost);
    may = may && !leads(i);
    gone.push_back(i);
  }
  if (gone.empty()) return;
  if (may && has_minimums(gone)) {
    drop_members(gone, why, "MemberLost", client::EventType::kWarning);
    return find_lost();
  }
  if (!late.empty() && lost_pod().empty()) back_off("StartTimeout", late);
}

// --- members join

void Machine::grow(const Decision& to) {
  auto& a = status_.assignment;
  std::vector<crds::PodAssignment> added;
  for (const Place& p : to.places) {
    const bool here = std::ranges::any_of(a.pods, [&](const auto& mine) { return is_at(mine, p); });
    if (!here) added.push_back({p.role, p.index, p.node, p.gpus, next_try(p)});
  }
  if (added.empty() || !a.succeeded.empty() || seen_.invalid) return;
  if (is_in_place() && status_.started_at) {
    for (auto& p : added) p.joining = seen_.now;
  }
  const auto before = a.pods.size();
  a.pods.insert(a.pods.end(), added.begin(), added.end());
  std::ranges::sort(a.pods, {}, [&](const crds::PodAssignment& p) {
    return std::pair(order_of(spec_.roles, p.role), p.index);
  });
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < a.pods.size(); ++i) {
    if (std::ranges::find(added, a.pods[i]) != added.end()) which.push_back(i);
  }
  const auto text = fmt::format("grows from {} to {} pods: there is room; {} join", before, a.pods.size(),
                                say_members(a, which, seen_.charge));
  a.resized_at = seen_.now;
  match_pods();
  if (is_in_place()) {
    set("Admitted", ConditionStatus::kTrue, "Admitted", say_admitted(a));
    return note(client::EventType::kNormal, "Grown", "Grow", text);
  }
  add_run_time();
  renumber();
  begin_attempt(text, "Grown", "Grow", client::EventType::kNormal);
}

// A pod of this place may be there still from before: names are never used twice within an attempt.
std::int32_t Machine::next_try(const Place& place) const {
  std::int32_t next = 0;
  for (const auto& pod : seen_.pods) {
    const auto id = identity_of(*pod);
    if (id && id->attempt == status_.assignment.attempt && id->role == place.role && id->index == place.index)
      next = std::max(next, id->tries + 1);
  }
  return next;
}

// True: members that were lost have other places, and the others run on.
bool Machine::replace_members(const Decision& replace) {
  if (!is_in_place() || !status_.started_at || program_fault(gang_) != nullptr) return false;
  const bool headless = std::ranges::any_of(replace.places, [&](const Place& p) {
    return p.index == 0 && p.role == spec_.roles.front().name && spec_.framework != crds::Framework::kGeneric;
  });
  if (headless) return false;
  const auto why = why_lost();
  replace_pods(replace);
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < status_.assignment.pods.size(); ++i) {
    auto& mine = status_.assignment.pods[i];
    if (std::ranges::none_of(replace.places, [&](const Place& p) { return is_at(mine, p); })) continue;
    mine.joining = seen_.now;
    which.push_back(i);
  }
  note(client::EventType::kWarning, "Replaced", "Replace",
       fmt::format("{}; {} have other places, the others run on", why.empty() ? "places were lost" : why,
                   say_members(status_.assignment, which, seen_.charge)));
  match_pods();
  find_lost();
  return true;
}

// Who is ready has joined.
void Machine::welcome() {
  bool all = true;
  for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
    auto& joining = status_.assignment.pods[i].joining;
    if (joining && (gang_.succeeded[i] || (gang_.pods[i] != nullptr && gang_.pods[i]->ready)))
      joining.reset();
    all = all && !joining;
  }
  if (all && status_.started_at && is_in_place())
    set("PodsReady", ConditionStatus::kTrue, "PodsReady",
        fmt::format("all {} pods are ready", gang_.pods.size()));
}

bool Machine::is_resizing() const {
  const bool joins =
      std::ranges::any_of(status_.assignment.pods, [](const auto& p) { return p.joining.has_value(); });
  return joins || (status_.started_at && is_in_place() && gang_.stale.count > 0);
}

}  // namespace muster::reconcilers
