// What gangs ask for: what their workloads state, and what they take from their Projects.
#include <algorithm>
#include <map>
#include <ranges>

#include "muster/reconcilers/jobs/translate.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/requests.h"
#include "muster/reconcilers/projects/job_policy.h"
#include "world/world.h"

namespace muster::simulate {
namespace {

bool differ_in_more_than_numbers(std::vector<pl::RoleSpec> before, const std::vector<pl::RoleSpec>& now) {
  if (before.size() != now.size()) return true;
  for (std::size_t r = 0; r < now.size(); ++r) {
    before[r].replicas = now[r].replicas;
    before[r].max_replicas = now[r].max_replicas;
  }
  return before != now;
}

}  // namespace

std::optional<std::int32_t> World::priority_of(const std::string& name) const {
  if (!name.empty()) {
    const auto found = priorities_.find(name);
    return found == priorities_.end() ? std::nullopt : std::optional(found->second.value);
  }
  return reconcilers::default_priority(priorities_ | std::views::values);
}

const crds::Project* World::project_at(const std::string& ns) const {
  const auto found = projects.find(project_of(ns));
  return found == projects.end() ? nullptr : found->second;
}

void World::refresh_all(const std::string* ns) {
  for (const auto& [key, w] : workloads_) {
    if (ns != nullptr && w->ns != *ns) continue;
    if (w->is_array()) to_serve_.insert(key);  // what it was refused for may hold no more
    for (const auto& g : w->gangs) refresh(*g);
  }
}

// What a policy says of pools depends on which is the default.
void World::refresh_under_policies() {
  for (const auto& [ns, owner] : owner_of_) {
    if (projects.at(owner)->spec.policy) refresh_all(&ns);
  }
}

// What holds places keeps what it took when it got them.
void World::take_from_project(Gang& g, const crds::Project* project) {
  const Workload& w = *g.owner;
  auto& taken = g.job.status.effective;
  const bool is_placed = g.job.status.assignment.attempt != 0;
  // One that its status says runs has taken what that says.
  const bool comes_placed = !w.is_service && g.attempt == 0 && !w.job().job.status.assignment.pods.empty();
  if (is_placed) return;
  if (!comes_placed || taken == crds::Effective{})
    taken = project == nullptr ? crds::Effective{} : reconcilers::taken_from(*project, g.job.spec);
  if (w.is_service) {  // these are of jobs: a server has no end
    taken.max_runtime.reset();
    taken.idle_timeout.reset();
  }
}

// What it asks for, as its workload and its Project are now. An edit that asks for other pods has its turn
// when those that leave are gone.
void World::restate(Gang& g) {
  const bool is_leaving = g.leaves_whole && !g.pods.empty();
  const auto spec_before = g.spec;
  const auto job_before = is_leaving ? g.job.spec : crds::TrainingJobSpec{};
  const auto wish_before = is_leaving ? g.wish : reconcilers::Translation{};
  Workload& w = *g.owner;
  const crds::Project* project = project_at(w.ns);
  const auto& stated = w.is_service ? g.replica_of->replica : w.job().job;
  g.job.metadata.ns = w.ns;
  g.job.metadata.uid = g.id;
  if (!w.is_service) {
    if (!w.array_key.empty()) {  // which index it is, and of which retry
      g.job.metadata.labels = stated.metadata.labels;
      g.job.metadata.annotations = stated.metadata.annotations;
    }
    g.job.metadata.name = w.name;
    g.job.metadata.creation_timestamp = to_stamp(g.submitted);
  }
  g.job.spec = stated.spec;
  g.job.spec.suspend = stated.spec.suspend || is_suspended_by_array(w);
  auto& class_name = g.job.spec.priority_class_name;
  if (class_name.empty()) class_name = g.class_name;
  take_from_project(g, project);
  const auto& taken = g.job.status.effective;
  g.job.spec = reconcilers::with(taken, std::move(g.job.spec));
  auto& wish = g.wish;
  wish = {};
  wish.needs = w.is_service ? g.replica_of->needs : w.job().needs;
  if (!taken.roles.empty()) {
    if (auto needs = reconcilers::pod_needs(g.job)) wish.needs = *std::move(needs);
  }
  g.invalid = w.is_service ? g.replica_of->invalid : w.job().invalid;
  if (!g.invalid.empty()) wish.needs.clear();
  const auto priority = priority_of(class_name);
  if (g.invalid.empty() && !priority)
    g.invalid = "spec.priorityClassName: there is no PriorityClass \"" + class_name + "\"";
  wish.priority = priority.value_or(0);
  wish.serves = w.is_service;
  if (w.is_service) {
    wish.service = w.key;
    wish.max_surge = w.service().service.spec.rollout.max_surge;
    wish.spread = w.service().service.spec.placement;
  }
  g.violation.clear();
  const bool has_place = g.job.status.assignment.attempt != 0;  // what has one is not judged anew
  if (g.invalid.empty() && project != nullptr && !has_place) {
    const Workload* array = array_of(w);
    const auto& labels = w.is_service       ? w.service().service.metadata.labels
                         : array != nullptr ? array->job().job.metadata.labels
                                            : stated.metadata.labels;
    g.violation = reconcilers::violation(*project, {g.job.spec, labels, w.is_service}, cluster.default_pool())
                      .value_or(std::string());
  }
  if (!w.is_service || g.replica_of->revision == w.service().revision) w.invalid = g.invalid;
  if (!g.invalid.empty()) {
    wish.invalid = g.invalid;
  } else if (!g.violation.empty()) {
    wish.invalid = g.violation;
    wish.invalid_reason = "PolicyViolation";
  }
  const bool is_to_run = !wish.invalid && !g.job.spec.suspend;
  if (wish.needs.empty() || (!has_place && !is_to_run)) return;
  auto spec = reconcilers::job_spec(g.job, placed_.project_of(w.ns), wish.priority, wish.needs, {});
  spec.preemptible = crds::counts_as_preemptible(g.job.spec, g.job.status.assignment, cluster.lends());
  g.spec = std::make_shared<const pl::JobSpec>(std::move(spec));
  const bool may_wait = is_leaving && !wish.invalid && !g.job.spec.suspend;
  if (!may_wait || !differ_in_more_than_numbers(spec_before->roles, g.spec->roles)) return;
  g.job.spec = job_before;
  wish = wish_before;
  g.spec = spec_before;
}

// Its workload, its Project or its class is another.
void World::refresh(Gang& g) {
  if (g.owner->finished) return;
  gangs_[g.id] = &g;
  restate(g);
  reconcile(g);
}

}  // namespace muster::simulate
