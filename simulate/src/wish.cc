// What gangs ask of placement: what their workloads state, what they take from their Projects, and what
// becomes of those that run when that changes.
#include <algorithm>
#include <map>

#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/projects/job_policy.h"
#include "world.h"

namespace muster::simulate {
namespace {

constexpr std::string_view kServiceClass = "inference";

bool differ_in_more_than_numbers(std::vector<pl::RoleSpec> before, const std::vector<pl::RoleSpec>& now) {
  if (before.size() != now.size()) return true;
  for (std::size_t r = 0; r < now.size(); ++r) {
    before[r].replicas = now[r].replicas;
    before[r].max_replicas = now[r].max_replicas;
  }
  return before != now;
}

// Where a running gang stays after an edit: the lowest indexes of each role, as many as it now may have.
// nullopt: it asks for other pods than these, or for more at least.
std::optional<pl::Assignment> kept_under(const std::vector<pl::RoleSpec>& before,
                                         const std::vector<pl::RoleSpec>& now, const pl::Assignment& held) {
  if (differ_in_more_than_numbers(before, now)) return std::nullopt;
  std::vector<std::vector<std::int32_t>> indexes(now.size());
  for (const pl::PodPlace& p : held.pods) indexes[static_cast<std::size_t>(p.role)].push_back(p.index);
  pl::Assignment kept = held;
  for (std::size_t r = 0; r < now.size(); ++r) {
    auto& mine = indexes[r];
    if (mine.size() < static_cast<std::size_t>(now[r].replicas)) return std::nullopt;
    const auto most = static_cast<std::size_t>(now[r].most());
    if (mine.size() <= most) continue;
    std::ranges::sort(mine);
    const std::int32_t first_gone = mine[most];
    std::erase_if(kept.pods, [&](const pl::PodPlace& p) {
      return p.role == static_cast<std::int32_t>(r) && p.index >= first_gone;
    });
  }
  return kept;
}

}  // namespace

std::optional<std::int32_t> World::priority_of(const std::string& name) const {
  if (!name.empty()) {
    const auto found = priorities_.find(name);
    return found == priorities_.end() ? std::nullopt : std::optional(found->second.value);
  }
  for (const auto& [key, c] : priorities_) {
    if (c.global_default) return c.value;
  }
  return 0;
}

const crds::Project* World::project_at(const std::string& ns) const {
  const auto found = projects.find(project_of(ns));
  return found == projects.end() ? nullptr : found->second;
}

// Nothing is judged anew, or taken from a Project, of what has places; nor of what its status says runs.
bool World::has_place(const Gang& g) const {
  if (g.state == Gang::State::kRunning || g.state == Gang::State::kBroken) return true;
  const Workload& w = *g.owner;
  return !w.is_service && g.attempt == 0 && !w.job().job.status.assignment.pods.empty();
}

void World::refresh_all(const std::string* ns) {
  for (const auto& [key, w] : workloads_) {
    if (ns != nullptr && w->ns != *ns) continue;
    for (const auto& g : w->gangs) refresh(*g);
  }
}

// What a policy says of pools depends on which is the default.
void World::refresh_under_policies() {
  for (const auto& [ns, owner] : owner_of_) {
    if (projects.at(owner)->spec.policy) refresh_all(&ns);
  }
}

Asked World::asked_by(Gang& g, const crds::Project* project) {
  const Workload& w = *g.owner;
  Asked asked;
  if (w.is_service) {
    asked = {w.service().replica, {w.service().needs}};
    auto& class_name = asked.job.spec.priority_class_name;
    if (class_name.empty() && priorities_.contains(std::string(kServiceClass))) class_name = kServiceClass;
  } else {
    asked = {w.job().job, w.job().needs};
  }
  auto& job = asked.job;
  if (g.state != Gang::State::kRunning && g.state != Gang::State::kBroken) {
    g.taken = has_place(g) ? job.status.effective : crds::Effective{};
    if (g.taken == crds::Effective{} && project != nullptr)
      g.taken = reconcilers::taken_from(*project, job.spec);
    if (w.is_service) {  // these are of jobs: a server has no end
      g.taken.max_runtime.reset();
      g.taken.idle_timeout.reset();
    }
  }
  job.spec = reconcilers::with(g.taken, std::move(job.spec));
  if (g.taken.roles.empty()) return asked;
  if (auto needs = reconcilers::pod_needs(job)) asked.needs = *std::move(needs);
  return asked;
}

// What the gang asks for, as its workload is now; nothing where it is not to run.
void World::refresh(Gang& g) {
  Workload& w = *g.owner;
  if (w.finished || (!g.ends_as.empty() && g.ends_as != "Suspended")) return;
  const crds::Project* project = project_at(w.ns);
  const Asked asked = asked_by(g, project);
  const auto priority = priority_of(asked.job.spec.priority_class_name);
  w.invalid = w.is_service ? w.service().invalid : w.job().invalid;
  if (w.invalid.empty() && !priority) {
    w.invalid =
        "spec.priorityClassName: there is no PriorityClass \"" + asked.job.spec.priority_class_name + "\"";
  }
  g.violation.clear();
  if (w.invalid.empty() && project != nullptr && !has_place(g))
    g.violation =
        reconcilers::violation(*project, asked.job.spec, cluster.default_pool()).value_or(std::string());
  const std::string owner = project_of(w.ns);
  const bool placed = g.state == Gang::State::kRunning || g.state == Gang::State::kBroken;
  const bool suspended = !w.is_service && w.job().job.spec.suspend;
  if (suspended && placed) {
    g.ends_as = "Suspended";
    return let_go(g, EventType::kEvicted, "Suspended", "", nullptr);
  }
  if (owner.empty() && placed) {
    let_go(g, EventType::kEvicted, "ProjectNotFound", "", nullptr);
    return refresh(g);
  }
  const bool refused = !w.invalid.empty() || !g.violation.empty();
  if (suspended || (refused && !placed)) return stand_aside(g, suspended);
  if (refused) return;  // what runs is not judged anew
  if (g.ends_as == "Suspended") g.ends_as.clear();
  pl::JobSpec wanted = spec_of(g, asked, *priority, owner);
  const bool other_pods = g.known && differ_in_more_than_numbers(g.spec.roles, wanted.roles);
  auto kept = std::optional(g.assignment);
  if (g.known && g.state == Gang::State::kRunning)
    kept = kept_under(g.spec.roles, wanted.roles, g.assignment);
  if (placed && (!kept || other_pods)) {
    let_go(g, EventType::kEvicted, "SpecChanged", "", nullptr);
    return refresh(g);
  }
  if (other_pods && !g.leaving.empty()) {
    // What leaves is charged as what it was until it is gone. What is asked for now has its turn then.
    give_up_kept_place(g);
    wanted = g.spec;
    wanted.project = owner;
  }
  const auto limit = g.spec.max_runtime;
  g.spec = std::move(wanted);
  cluster.upsert_job(g.spec);
  g.known = true;
  gangs_[g.id] = &g;
  if (g.state == Gang::State::kOut) g.state = Gang::State::kWaiting;
  if (placed && g.spec.max_runtime != limit) follow_limit(g);
  if (kept->pods.size() < g.assignment.pods.size()) resize(g, *kept, EventType::kShrunk, "Scaled", "");
}

pl::JobSpec World::spec_of(const Gang& g, const Asked& asked, std::int32_t priority,
                           const std::string& project) {
  const Workload& w = *g.owner;
  pl::JobSpec spec;
  if (w.is_service) {
    crds::InferenceService service = w.service().service;
    service.spec.pools = asked.job.spec.pools;
    spec = reconcilers::replica_spec(service, g.id, project, priority, asked.needs.front());
  } else {
    spec = reconcilers::job_spec(asked.job, project, priority, asked.needs, {});
  }
  spec.id = g.id;
  spec.submitted = g.submitted;
  if (spec.max_runtime) spec.max_runtime->ms = std::max<std::int64_t>(spec.max_runtime->ms - g.ran_ms, 0);
  return spec;
}

// It ends when this attempt has run for what is left of its maxRuntime.
void World::follow_limit(Gang& g) {
  ++g.limit_version;
  if (g.spec.max_runtime)
    agenda_add(std::max(g.began + *g.spec.max_runtime, now), Due::kMaxRuntime, &g, 0, g.limit_version);
}

// Of a gang whose pods leave: the place that it was to have next.
void World::give_up_kept_place(Gang& g) {
  g.moving_to.reset();
  if (!cluster.nominated(g.id)) return;
  cluster.clear_assignment(g.id);
  cluster.set_leaving(g.id, g.leaving);
  changed_ = true;
}

// It is not to run: suspended, or not as it is.
void World::stand_aside(Gang& g, bool suspended) {
  if (g.known && g.leaving.empty()) {
    cluster.remove_job(g.id);
    g.known = false;
  } else if (g.known) {
    give_up_kept_place(g);
    if (suspended) g.ends_as = "Suspended";
  }
  const std::string why = !g.owner->invalid.empty() ? "InvalidSpec"
                          : suspended               ? ""
                          : !g.violation.empty()    ? "PolicyViolation"
                                                    : "";
  if (!why.empty() && g.refused_as != why) tell(EventType::kWaiting, *g.owner, why);
  g.refused_as = why;
  g.waits_for = pl::Reason::kNone;
  g.state = Gang::State::kOut;
}

}  // namespace muster::simulate
