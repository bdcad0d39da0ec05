// Replicas of services. How many there are to be, and which gives its place to another, is decided by what
// decides it on a cluster: plan_replicas() and judge(). Here replicas come and go, and the load is told.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/projects/job_policy.h"
#include "muster/reconcilers/schedules/scheduled_minimum.h"
#include "muster/reconcilers/services/autoscaler.h"
#include "muster/reconcilers/services/service_status.h"
#include "world/world.h"

namespace muster::simulate {
namespace {

// A service comes to rest after a few looks; one that does not never will.
constexpr int kMaxServiceLooks = 1000;
constexpr std::string_view kServiceClass = "inference";

pl::Duration interval_of(const crds::Autoscaling& rule) {
  return {std::chrono::duration_cast<std::chrono::milliseconds>(reconcilers::reading_interval(rule)).count()};
}

// When load, size and replicas have been the same for so long, the rule has come to its end: the means have
// forgotten what was before, and then scaleDownDelay has passed.
pl::Duration settling_time(const crds::Autoscaling& rule) {
  const auto window = std::max(rule.window, rule.panic_window);
  auto delay = rule.scale_down_delay;
  if (rule.min_replicas == 0) delay = std::max(delay, crds::scale_to_zero_after_of(rule));
  crds::Duration limited{0};  // it goes on when that is over
  for (const auto& limit : {rule.scale_up_limit, rule.scale_down_limit})
    limited = std::max(limited, limit ? limit->period : crds::Duration{0});
  return {reconcilers::to_duration(window + delay + limited).ms + 2 * interval_of(rule).ms};
}

}  // namespace

// Those about which something has changed.
void World::serve_all() {
  for (int looks = 0; !to_serve_.empty(); ++looks) {
    if (looks == kMaxServiceLooks) throw std::logic_error(*to_serve_.begin() + " does not come to rest");
    for (const std::string& key : std::exchange(to_serve_, {})) {
      const auto found = workloads_.find(key);
      if (found == workloads_.end()) continue;
      found->second->is_array() ? play_array(*found->second) : serve(*found->second);
    }
  }
}

// What a reconciler does.
void World::serve(Workload& w) {
  const std::string& revision = w.service().revision;
  crds::InferenceService wanted = sized(w);
  const auto views = replicas_of(w);
  std::vector<reconcilers::Replica> states;
  std::int32_t serving = 0;
  for (const auto& view : views) {
    states.push_back(view.state);
    serving += view.state.is_ready ? 1 : 0;
  }
  bool pods_leave = false;
  for (const auto* list : {&w.gangs, &w.retired}) {
    for (const auto& g : *list) pods_leave = pods_leave || std::ranges::any_of(g->pods, &GangPod::leaves);
  }
  const auto plan = reconcilers::plan_replicas(
      {crds::size_of(wanted), crds::guaranteed_of(wanted)}, wanted.spec.rollout, states,
      reconcilers::rollout_before(w.status, revision), w.room.look(pods_leave, to_stamp(now)), to_stamp(now));
  std::vector<std::pair<Gang*, bool>> unwanted;
  for (const std::size_t i : plan.remove) unwanted.emplace_back(w.gangs[i].get(), states[i].is_current);
  for (const auto& [g, is_current] : unwanted) remove_replica(w, *g, is_current ? "Scaled" : "RolledOut");
  for (std::int32_t i = 0; i < plan.create; ++i) add_replica(w, i < plan.create_guaranteed);
  auto status = reconcilers::status_of(wanted, replicas_of(w), revision, {}, plan.rollout, to_stamp(now),
                                       w.scaling.verdict);
  if (status != w.status) to_serve_.insert(w.source->key);
  w.status = std::move(status);
  if (plan.wake_at && reconcilers::to_time(*plan.wake_at) > now)
    agenda_add(reconcilers::to_time(*plan.wake_at), Due::kServe, nullptr, 0, 0, w.source->key);
  follow_load(w, serving);
}

// The service with its status, and the size that is in force.
crds::InferenceService World::sized(const Workload& w) const {
  crds::InferenceService wanted = w.service().service;
  wanted.metadata.generation = w.generation;
  wanted.status = w.status;
  if (w.scaling.verdict) wanted.status.desired_replicas = w.scaling.verdict->size;
  if (wanted.spec.autoscaling) wanted.status.desired_replicas = crds::size_of(wanted);
  return wanted;
}

std::vector<reconcilers::ReplicaView> World::replicas_of(const Workload& w) const {
  std::vector<reconcilers::ReplicaView> views;
  for (const auto& g : w.gangs) {
    std::vector<client::Ptr<client::Pod>> pods;
    for (const GangPod& p : g->pods) pods.push_back(p.pod);
    views.push_back(reconcilers::view_of(g->job, pods, w.service().revision));
  }
  return views;
}

void World::add_replica(Workload& w, bool is_guaranteed) {
  // The lowest number that nobody has. Pods that still leave have theirs.
  std::set<std::int32_t> taken;
  for (const auto& g : w.gangs) taken.insert(g->number);
  for (const auto& g : w.retired) {
    if (!g->pods.empty()) taken.insert(g->number);
  }
  auto g = std::make_unique<Gang>();
  g->owner = &w;
  g->replica_of = &w.service();
  while (taken.contains(g->number)) ++g->number;
  g->id = w.key + "/" + std::to_string(g->number);
  g->submitted = w.submitted;  // it stands in the queue since its service does
  g->asked = w.source->at == to_instant(now) ? w.asked : now;
  g->job = w.service().replica;
  g->job.spec.preemptible = !is_guaranteed;
  g->job.metadata.name = reconcilers::replica_name(w.name, w.service().revision, g->number);
  g->job.metadata.generation = 1;
  g->job.metadata.creation_timestamp = to_stamp(now);
  const crds::Project* project = project_at(w.ns);
  if (w.service().replica.spec.priority_class_name.empty() &&
      priorities_.contains(std::string(kServiceClass)) &&
      (project == nullptr || reconcilers::allows_class(*project, kServiceClass)))
    g->class_name = kServiceClass;
  g->work.set(std::nullopt, crds::pods_of_replica(w.service().service.spec), std::nullopt);
  w.gangs.push_back(std::move(g));
  changed_ = true;
  refresh(*w.gangs.back());
}

void World::remove_replica(Workload& w, Gang& g, const char* why) {
  const bool ran = g.first_admitted.has_value();
  retire(g, reconcilers::to_duration(w.behaviour().saves_in));
  const auto slot = std::ranges::find_if(w.gangs, [&](const auto& one) { return one.get() == &g; });
  w.retired.push_back(std::move(*slot));
  w.gangs.erase(slot);
  changed_ = true;
  if (ran) tell(EventType::kShrunk, w, why);
}

// --- load

// The rule with the minimum that its schedules say now.
crds::Autoscaling World::rule_now(const Workload& w) const {
  crds::Autoscaling rule = *w.service().service.spec.autoscaling;
  rule.min_replicas = reconcilers::minimum_now(rule, wall()).replicas;
  return rule;
}

// `serving`: replicas that are ready. They are read for as long as what they say can change anything.
void World::follow_load(Workload& w, std::int32_t serving) {
  const auto& rule = w.service().service.spec.autoscaling;
  Scaling& s = w.scaling;
  if (!rule || !w.behaviour().load) {
    s = {.version = s.version + 1};
    return;
  }
  if (s.told_by != nullptr && s.sources != reconcilers::sources_of(*rule)) s = {.version = s.version + 1};
  if (s.told_by != w.source || s.serving != serving) {
    s.changed_at = now;
    s.due.reset();
  }
  s.told_by = w.source;
  s.sources = reconcilers::sources_of(*rule);
  s.serving = serving;
  if (s.due) return;
  s.by_schedule.reset();
  const bool has_settled = s.read_at && *s.read_at - s.changed_at > settling_time(*rule);
  const auto next = w.behaviour().load->next(to_instant(now));
  if (has_settled && !next) {
    const auto changes_at = reconcilers::minimum_now(*rule, wall()).changes_at;
    if (!changes_at) return;
    s.due = s.by_schedule = now + reconcilers::to_duration(*changes_at - wall());
  } else {
    s.due = s.read_at ? std::max(now, *s.read_at + interval_of(*rule)) : now;
  }
  // Requests at zero are held, and seen as they come.
  if (next && rule->min_replicas == 0 && serving == 0) s.due = std::min(*s.due, to_time(*next));
  ++s.version;
  agenda_add(*s.due, Due::kRound, nullptr, 0, s.version, w.source->key);
}

// One reading of all replicas that serve.
void World::read_load(Workload& w) {
  Scaling& s = w.scaling;
  const crds::Autoscaling rule = rule_now(w);
  const std::int32_t size = crds::size_of(sized(w));
  const auto judged = [&](pl::Time at) {
    reconcilers::LoadRound round{.at = to_point(at), .serving = s.serving, .read = s.serving};
    const crds::MilliLoad load{s.serving == 0 ? 0 : s.load};
    for (const auto& source : s.sources)  // of TimeToFirstToken one request in each
      round.loads.push_back({load, crds::MilliLoad{source.is_share_of_requests() ? 1000 * s.serving : 0}});
    round.is_idle = s.load == 0;
    return reconcilers::judge(rule, size, round, s.history, to_point(at));
  };
  // A schedule never ends: see follow_schedules().
  if (s.by_schedule == now && now > last_stated_) {
    ++scheduled_alone_;
    is_left_to_schedules_ = !anything_waits();
  }
  // Readings that were left out, because they would have changed nothing, are the past of this one.
  const pl::Duration interval = interval_of(rule);
  if (s.read_at) {
    for (pl::Time t = std::max(*s.read_at + interval, now - settling_time(rule)); t < now; t = t + interval)
      judged(t);
  }
  const std::int64_t load = w.behaviour().load->at(to_instant(now), 0);
  if (load != s.load) s.changed_at = now;
  s.load = load;
  s.read_at = now;
  s.due.reset();
  s.verdict = judged(now);
  if (rule.min_replicas == 0 && s.serving == 0) {
    // Activators hold what there is: of what counts no requests only that there is some.
    const bool counts = s.sources.front().counts_requests();
    const std::int64_t requests = counts ? (load + 999) / 1000 : (load > 0 ? 1 : 0);
    if (auto more = reconcilers::size_for_held(rule, size, requests)) s.verdict = std::move(more);
  }
  if (s.verdict->size != size || s.by_schedule == now) s.changed_at = now;
  if (s.verdict->size != size) {
    to_serve_.insert(w.source->key);
  } else {
    follow_load(w, s.serving);
  }
}

}  // namespace muster::simulate
