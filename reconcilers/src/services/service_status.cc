#include "muster/reconcilers/services/service_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "muster/crds/text.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/start_problem.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_identity.h"
#include "muster/reconcilers/pods/role_groups.h"
#include "muster/reconcilers/services/service_objects.h"

namespace muster::reconcilers {
namespace {

using crds::ConditionStatus;

constexpr std::string_view kGaveWay = "SurgeNotPlaced";
constexpr const char* kCanaryServes = "CanaryServes";
constexpr const char* kCanaryWaits = "CanaryWaits";
constexpr std::size_t kMaxSaid = 2048;
constexpr std::size_t kMaxRevisions = 64;  // the schema's

// The reasons that another replica can cure by giving its place back. WaitingForVictims is not one of them:
// such a replica is about to get its places.
constexpr std::array<std::string_view, 7> kShortages = {
    "InsufficientCapacity", "Fragmented", "TopologyUnsatisfiable", "FairShareReached", "LimitReached",
    "QuotaExceeded",        "Reserved"};

std::int32_t ordinal_of(std::string_view name) {
  const auto dash = name.rfind('-');
  std::int32_t n = 0;
  for (const char c : dash == std::string_view::npos ? std::string_view{} : name.substr(dash + 1)) {
    if (c < '0' || c > '9' || n > 1'000'000) return 0;
    n = n * 10 + (c - '0');
  }
  return n;
}

// The first in the queue of those that wait; nullptr: none does.
const ReplicaView* first_waiting(const std::vector<ReplicaView>& replicas) {
  const ReplicaView* first = nullptr;
  for (const auto& r : replicas) {
    if (r.state.is_placed || r.job->status.queue.reason.empty()) continue;
    if (first == nullptr || r.job->status.queue.position < first->job->status.queue.position) first = &r;
  }
  return first;
}

const crds::Condition* unready(const ReplicaView& r) {
  const auto* ready = crds::find_condition(r.job->status.conditions, "PodsReady");
  return r.state.is_ready || ready == nullptr || ready->status == ConditionStatus::kTrue ? nullptr : ready;
}

// What is wrong with the first replica that cannot start; "": nobody says.
std::string start_problem(const std::vector<ReplicaView>& replicas) {
  for (const auto& r : replicas) {
    const auto* why = unready(r);
    if (why != nullptr && is_start_problem(why->reason)) return why->reason;
  }
  return {};
}

// The replica that is told of among those that have their places and do not serve: one that cannot start
// before one that is merely not there yet.
const ReplicaView* first_starting(const std::vector<ReplicaView>& replicas) {
  const ReplicaView* first = nullptr;
  for (const auto& r : replicas) {
    const auto* why = unready(r);
    if (!r.state.is_placed || why == nullptr) continue;
    if (is_start_problem(why->reason)) return &r;
    if (first == nullptr) first = &r;
  }
  return first;
}

// How far its start is, and what is wrong with it. Instants, and no ages: those would be news every minute.
std::string why_not_ready(const std::vector<ReplicaView>& replicas) {
  const ReplicaView* r = first_starting(replicas);
  if (r == nullptr) return {};
  std::string text = "replica " + r->job->metadata.name;
  if (const auto since = starts_since(r->job->status)) {
    const auto timeout = r->job->spec.start_timeout;
    text += fmt::format(" starts since {}, until {} at most (startTimeout {})", crds::to_string(*since),
                        crds::to_string(*since + timeout), crds::to_string(timeout));
  }
  const auto* why = unready(*r);
  if (is_start_problem(why->reason)) text += ": " + why->reason;
  if (!why->message.empty()) text += ": " + why->message;
  return text;
}

// `ready`: the indexes, within their role, of the pods that are ready.
std::map<std::string, std::int32_t> whole_groups(const crds::TrainingJob& job,
                                                 const std::map<std::string, std::set<std::int32_t>>& ready) {
  std::map<std::string, std::int32_t> whole;
  for (const crds::Role& role : job.spec.roles) {
    const std::int32_t size = group_size_of(job, role.name);
    if (size == 0) continue;
    std::map<std::int32_t, std::int32_t> pods;  // by group
    if (const auto found = ready.find(role.name); found != ready.end()) {
      for (const std::int32_t index : found->second) ++pods[index / size];
    }
    whole[role.name] = static_cast<std::int32_t>(
        std::ranges::count_if(pods, [&](const auto& group) { return group.second >= size; }));
  }
  return whole;
}

// With roles. One that only earlier revisions have is told until its last replica has gone.
std::vector<crds::ServiceRoleStatus> role_counts(const crds::InferenceServiceSpec& spec, std::int32_t desired,
                                                 const std::vector<ReplicaView>& replicas) {
  constexpr std::size_t kMost = 64;  // the schema's
  std::vector<crds::ServiceRoleStatus> all;
  for (const crds::ServiceRole& role : spec.roles) all.push_back({role.name, 0, desired * role.replicas});
  for (const ReplicaView& r : replicas) {
    for (const auto& [name, ready] : r.ready_groups) {
      auto one = std::ranges::find(all, name, &crds::ServiceRoleStatus::name);
      if (one == all.end()) {
        if (all.size() == kMost) continue;
        one = all.insert(all.end(), {name, 0, 0});
      }
      one->ready += ready;
    }
  }
  return all;
}

class Writer {
 public:
  Writer(const crds::InferenceService& service, const std::vector<ReplicaView>& replicas,
         const RevisionsView* revisions, crds::Time now)
      : service_(service),
        replicas_(replicas),
        revisions_(revisions),
        now_(now),
        status_(service.status),
        desired_(crds::size_of(service)) {}

  crds::InferenceServiceStatus write(std::string_view revision, const Refused& refused, RolloutMemory rollout,
                                     const std::optional<ScalingVerdict>& scaling) {
    count(revision);
    accepted(refused);
    waiting();
    ready(refused);
    if (!refused.reason.empty()) {
      // It is this that its owner can mend, whatever its replicas wait for.
      status_.queue = {};
      status_.queue.reason = refused.reason;
      status_.queue.message = crds::cut(refused.message, kMaxSaid);
    }
    scaled(scaling);
    rolled_out(revision, rollout.gives_way);
    progress();
    violated();
    tell_revisions(revision);
    status_.rollout_places = rollout.places;
    status_.revision = revision;
    return std::move(status_);
  }

 private:
  void count(std::string_view revision) {
    const auto& spec = service_.spec;
    status_.observed_generation = service_.metadata.generation;
    // A job's checkpoint that was served counts until there is another.
    if (!spec.model || !spec.model->uri.starts_with("trainingjob://"))
      status_.model = spec.model ? spec.model->uri : "";
    status_.desired_replicas = desired_;
    status_.replicas = static_cast<std::int32_t>(replicas_.size());
    status_.ready_replicas = 0;
    status_.updated_replicas = 0;
    if (!crds::scales_to_zero(spec)) status_.activator_port = 0;
    status_.selector = pod_selector(service_);
    status_.url = url_of(service_);
    std::int32_t pods = 0;
    crds::MilliGpu gpus{0};
    crds::Amounts held;
    for (const auto& r : replicas_) {
      status_.ready_replicas += r.state.is_ready ? 1 : 0;
      status_.updated_replicas += r.state.is_current ? 1 : 0;
      updated_ready_ += r.state.is_current && r.state.is_ready ? 1 : 0;
      placed_ += r.state.is_placed ? 1 : 0;
      pods += r.ready_pods;
      if (r.job->status.allocated.gpu) gpus += *r.job->status.allocated.gpu;
      held.add_resources(r.job->status.allocated.resources);
    }
    is_known_ = status_.revision == revision;
    status_.pods = fmt::format("{}/{}", pods, desired_ * crds::pods_of_replica(spec));
    status_.roles = role_counts(spec, desired_, replicas_);
    status_.allocated = std::move(held);
    if (placed_ > 0) status_.allocated.gpu = gpus;
  }

  void accepted(const Refused& refused) {
    if (!refused.reason.empty())
      return set("Accepted", false, refused.reason, crds::cut(refused.message, kMaxSaid));
    for (const auto& r : replicas_) {
      const auto* c = crds::find_condition(r.job->status.conditions, "Accepted");
      if (r.state.is_current && c != nullptr && c->status == ConditionStatus::kFalse)
        return set("Accepted", false, c->reason, in_terms_of_service(c->message, service_.spec));
    }
    set("Accepted", true, "Valid", "");
  }

  void waiting() {
    status_.queue = {};
    const ReplicaView* first = first_waiting(replicas_);
    if (first == nullptr) return;
    status_.queue = first->job->status.queue;
    const auto n = std::ranges::count_if(replicas_, [](const auto& r) { return !r.state.is_placed; });
    status_.queue.message =
        crds::cut(fmt::format("{} of {} replicas wait, the first of them {}: {}", n, replicas_.size(),
                              first->job->metadata.name,
                              in_terms_of_service(first->job->status.queue.message, service_.spec)),
                  kMaxSaid);
  }

  void ready(const Refused& refused) {
    std::string text = fmt::format("{} of {} replicas are ready", status_.ready_replicas, asked());
    if (!refused.reason.empty())
      text += fmt::format("; {} is made: {}", replicas_.empty() ? "no replica" : "no other", refused.message);
    for (const auto& more : {status_.queue.message, why_not_ready(replicas_)}) {
      if (!more.empty()) text += "; " + more;
    }
    text = crds::cut(text, kMaxSaid);
    if (status_.ready_replicas > 0) return set("Ready", true, "Serving", text);
    // It is as it is wanted, though nothing answers. With False GitOps tools would wait for it for ever.
    if (desired_ == 0 && service_.spec.autoscaling)
      return set("Ready", true, "ScaledToZero", "no replica serves: the first request makes one");
    if (desired_ == 0) return set("Ready", true, "NoReplicas", "spec.replicas is 0: nothing answers");
    const std::string& waits = refused.reason.empty() ? status_.queue.reason : refused.reason;
    const std::string problem = start_problem(replicas_);
    const bool is_starting = waits.empty() || placed_ > 0;
    if (refused.reason.empty() && !problem.empty() && (is_starting || waits == "BackingOff"))
      return set("Ready", false, problem, text);
    set("Ready", false, is_starting ? "Starting" : waits, text);
  }

  // Until this process has read its replicas, what the process before has said stands.
  void scaled(const std::optional<ScalingVerdict>& scaling) {
    constexpr const char* kDisabled = "ScalingDisabled";
    if (!service_.spec.autoscaling)
      return set("ScalingActive", false, kDisabled, "spec.autoscaling is not set: spec.replicas is the size");
    if (scaling)
      return set("ScalingActive", scaling->is_active, scaling->reason, crds::cut(scaling->message, kMaxSaid));
    const auto* before = crds::find_condition(service_.status.conditions, "ScalingActive");
    if (before != nullptr && before->reason != kDisabled) return;
    crds::set_condition(status_.conditions,
                        {"ScalingActive", ConditionStatus::kUnknown, service_.metadata.generation, now_,
                         "NotReadYet", "no replica was read yet"});
  }

  // Once True for a revision, the condition stays True. A replica that restarts is no rollout, and neither is
  // one more that is asked for, or one that there is no room for.
  void rolled_out(std::string_view revision, bool gives_way) {
    const std::int32_t old = status_.replicas - status_.updated_replicas;
    const bool was = is_known_ && crds::is_true(status_.conditions, "RolledOut");
    const bool all_serve =
        status_.replicas >= desired_ && std::ranges::all_of(replicas_, [](const ReplicaView& r) {
          return r.state.is_ready || r.state.lacks_room;
        });
    std::string text = fmt::format("all replicas are of revision {}", revision);
    const auto lack = std::ranges::count_if(replicas_, [](const auto& r) { return r.state.lacks_room; });
    if (lack > 0) text += fmt::format(", and {} of {} have no place", lack, replicas_.size());
    const RolloutDecision none;
    const RolloutDecision& decided = revisions_ != nullptr ? revisions_->decision : none;
    const std::string why = decided.why_not_own.empty() ? "" : "; " + decided.why_not_own;
    if (!decided.canary && old == 0 && (was || (all_serve && (updated_ready_ > 0 || desired_ == 0))))
      return set("RolledOut", true, why.empty() ? "RolledOut" : "RolledBack", text + why);
    if (decided.canary && canary_stands(*decided.canary)) return canary_serves(*decided.canary);
    text = fmt::format("{} replicas of revision {} are ready, {} of {} are left", updated_ready_, revision,
                       old, decided.canary ? "others" : "earlier ones");
    if (decided.canary) text += fmt::format(", for a canary of {} of {}", decided.canary->replicas, asked());
    if (decided.canary && status_.ready_replicas == 0 && decided.canary->replicas < asked())
      text += fmt::format("; it begins when a replica of revision {} is ready", decided.stable);
    text += why;
    if (!gives_way) return set("RolledOut", false, decided.is_aborted ? "CanaryAborted" : "RollingOut", text);
    text +=
        "; no place was found for a replica beyond those wanted (rollout.maxSurge), so they give way one "
        "at a time, as with rollout.maxUnavailable 1";
    set("RolledOut", false, std::string(kGaveWay), text);
  }

  // Each of the two revisions has as many replicas as it is to have.
  bool canary_stands(const crds::CanaryStatus& canary) const {
    const auto stable = std::ranges::count_if(
        replicas_, [this](const ReplicaView& r) { return r.revision == revisions_->decision.stable; });
    return updated_ready_ == canary.replicas && status_.updated_replicas == canary.replicas &&
           stable == asked() - canary.replicas && status_.replicas == asked();
  }

  // With one that a canary has beside the only replica.
  std::int32_t asked() const { return desired_ + (revisions_ != nullptr ? revisions_->decision.beside : 0); }

  void canary_serves(const crds::CanaryStatus& canary) {
    if (const std::string& why = revisions_->decision.why_no_canary; !why.empty())
      return set("RolledOut", false, kCanaryWaits,
                 fmt::format("no replica is of revision {}: {}; `kubectl muster rollout promote {}` gives it "
                             "all",
                             canary.revision, why, service_.metadata.name));
    std::string text = fmt::format("{} of {} replicas are of revision {}, and the others of revision {}",
                                   canary.replicas, asked(), canary.revision, revisions_->decision.stable);
    if (const auto next = revisions_->decision.wake_at)
      text += fmt::format("; step {} ends at {}", canary.step + 1, crds::to_string(*next));
    else
      text += fmt::format("; `kubectl muster rollout promote {}` gives it all, and `abort` takes it back",
                          service_.metadata.name);
    if (!revisions_->decision.why_no_step.empty())
      text += "; analysis lets no step pass: " + revisions_->decision.why_no_step;
    set("RolledOut", false, kCanaryServes, crds::cut(text, kMaxSaid));
  }

  // A revision that has all replicas, and has served, is stable.
  void tell_revisions(std::string_view revision) {
    if (revisions_ == nullptr) return;
    const RolloutDecision& decided = revisions_->decision;
    status_.canary = decided.canary;
    status_.aborted_canary = decided.aborted;
    status_.stable_revision = decided.stable;
    if (!decided.canary && crds::is_true(status_.conditions, "RolledOut")) status_.stable_revision = revision;
    status_.revisions.clear();
    std::vector<const KeptRevision*> all;
    for (const auto& one : revisions_->kept) all.push_back(&one);
    std::ranges::sort(all, std::ranges::greater{}, &KeptRevision::number);
    if (all.size() > kMaxRevisions) all.resize(kMaxRevisions);
    for (const KeptRevision* one : all) {
      crds::ServiceRevision said;
      said.name = one->name;
      said.number = one->number;
      said.created_at = one->created;
      said.images = images_of(one->spec);
      for (const auto& r : replicas_) {
        if (r.revision != one->name) continue;
        ++said.replicas;
        said.ready_replicas += r.state.is_ready ? 1 : 0;
      }
      status_.revisions.push_back(std::move(said));
    }
  }

  // The same for tools that know no other condition: kstatus reads these two. They are never both True.
  void progress() {
    const crds::Condition accepted = *crds::find_condition(status_.conditions, "Accepted");
    const crds::Condition rollout = *crds::find_condition(status_.conditions, "RolledOut");
    const bool is_stalled = accepted.status == ConditionStatus::kFalse;
    // A canary that stands is what was asked for. Tools would wait for its end.
    const bool rolls = !is_stalled && rollout.status == ConditionStatus::kFalse &&
                       rollout.reason != kCanaryServes && rollout.reason != kCanaryWaits;
    set("Stalled", is_stalled, accepted.reason, is_stalled ? accepted.message : "");
    set("Reconciling", rolls, is_stalled ? "Stalled" : rollout.reason, rolls ? rollout.message : "");
  }

  // A replica that runs and is not allowed any more speaks for all: they are made of the same spec.
  void violated() {
    constexpr const char* kType = "PolicyViolation";
    for (const auto& r : replicas_) {
      const auto* c = crds::find_condition(r.job->status.conditions, kType);
      if (c != nullptr && c->status == ConditionStatus::kTrue)
        return set(kType, true, c->reason,
                   crds::cut(in_terms_of_service(c->message, service_.spec), kMaxSaid));
    }
    if (crds::is_true(status_.conditions, kType)) set(kType, false, "Allowed", "");
  }

  void set(std::string type, bool value, std::string reason, std::string message) {
    crds::set_condition(status_.conditions,
                        {std::move(type), value ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                         service_.metadata.generation, now_, std::move(reason), std::move(message)});
  }

  const crds::InferenceService& service_;
  const std::vector<ReplicaView>& replicas_;
  const RevisionsView* revisions_;
  crds::Time now_;
  crds::InferenceServiceStatus status_;
  std::int32_t desired_;
  std::int32_t updated_ready_ = 0, placed_ = 0;
  bool is_known_ = false;  // the status was about this revision before
};

crds::InferenceServiceStatus without_numbers(crds::InferenceServiceStatus s) {
  s.replicas = s.ready_replicas = s.updated_replicas = 0;
  s.pods.clear();
  for (auto& role : s.roles) role.ready = 0;
  s.allocated = {};
  for (auto& one : s.revisions) one.replicas = one.ready_replicas = 0;
  s.queue.position = s.queue.project_position = 0;
  s.queue.estimated_start.reset();
  s.queue.estimated_start_from.reset();
  s.queue.message.clear();
  s.queue.blocking.clear();
  for (auto& c : s.conditions) c.message.clear();
  return s;
}

}  // namespace

ReplicaView view_of(const crds::TrainingJob& job, const std::vector<client::Ptr<client::Pod>>& pods,
                    std::string_view revision) {
  ReplicaView view;
  view.job = &job;
  const auto label = job.metadata.labels.find(std::string(kRevisionLabel));
  if (label != job.metadata.labels.end()) view.revision = label->second;
  view.state.is_current = label != job.metadata.labels.end() && label->second == revision;
  view.state.is_placed = job.status.assignment.attempt != 0;
  view.state.is_guaranteed = !crds::is_preemptible(job.spec);
  view.state.lacks_room =
      !view.state.is_placed && std::ranges::find(kShortages, job.status.queue.reason) != kShortages.end();
  const auto* admitted = crds::find_condition(job.status.conditions, "Admitted");
  if (admitted != nullptr && admitted->status == ConditionStatus::kFalse)
    view.state.waits_since = admitted->last_transition_time;
  view.state.ordinal = ordinal_of(job.metadata.name);
  view.state.created = job.metadata.creation_timestamp.value_or(crds::Time{});
  std::map<std::string, std::set<std::int32_t>> ready;
  for (const auto& pod : pods) {
    const auto id = identity_of(*pod);
    if (!id || id->attempt != serving_attempt(job.status.assignment) || !pod->ready || pod->deleting)
      continue;
    ++view.ready_pods;
    ready[id->role].insert(id->index);
  }
  view.ready_groups = whole_groups(job, ready);
  view.state.is_ready = view.state.is_placed && view.ready_pods >= crds::replicas_of(job.spec);
  return view;
}

bool is_leaving(const client::Pod& pod, bool has_replica, crds::Time now) {
  if (pod.phase == client::PodPhase::kSucceeded || pod.phase == client::PodPhase::kFailed) return false;
  if (!pod.deleting) return !has_replica;
  return now < crds::Time{std::chrono::seconds{pod.deleted_at}};
}

crds::InferenceServiceStatus status_of(const crds::InferenceService& service,
                                       const std::vector<ReplicaView>& replicas, std::string_view revision,
                                       const Refused& refused, RolloutMemory rollout, crds::Time now,
                                       const std::optional<ScalingVerdict>& scaling,
                                       const RevisionsView* revisions) {
  return Writer(service, replicas, revisions, now).write(revision, refused, rollout, scaling);
}

RolloutMemory rollout_before(const crds::InferenceServiceStatus& status, std::string_view revision) {
  const auto* c = crds::find_condition(status.conditions, "RolledOut");
  return {status.rollout_places, status.revision == revision && c != nullptr && c->reason == kGaveWay};
}

bool only_numbers_differ(const crds::InferenceServiceStatus& a, const crds::InferenceServiceStatus& b) {
  return without_numbers(a) == without_numbers(b);
}

}  // namespace muster::reconcilers
