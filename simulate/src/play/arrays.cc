// Arrays. Which indexes get a job and which jobs go is decided by what decides it on a cluster: plan_array().
// Here these jobs come and go, each a workload of its own.
#include <algorithm>

#include "muster/reconcilers/arrays/array_objects.h"
#include "muster/reconcilers/arrays/array_plan.h"
#include "muster/reconcilers/arrays/array_status.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/requests.h"
#include "muster/reconcilers/projects/job_policy.h"
#include "world/world.h"

namespace muster::simulate {
namespace {

std::string key_of_job(const std::string& ns, const std::string& name) {
  return "TrainingJob " + client::make_key(ns, name);
}

}  // namespace

// What a reconciler does.
void World::play_array(Workload& w) {
  const auto ended = reconcilers::ended_as(w.array.status);
  const std::int32_t retried = w.array.status.array ? w.array.status.array->retried : 0;
  if (w.finished && !reconcilers::is_retry_due(*w.job().job.spec.array, retried, ended)) return;
  const auto& spec = *w.job().job.spec.array;
  follow_statement(w);
  crds::TrainingJob& array = w.array;
  std::vector<Workload*> jobs;
  std::vector<const crds::TrainingJob*> objects;
  std::vector<reconcilers::IndexJob> seen;
  for (const auto& [index, job] : w.indexes) {
    jobs.push_back(job);
    objects.push_back(&job->gangs.front()->job);
    seen.push_back(reconcilers::seen_as_index(*objects.back(), index));
    const auto& began = job->gangs.front()->first_started;
    if (began && (!w.array_began || *began < *w.array_began)) w.array_began = began;
  }
  const reconcilers::ArrayRefusal refused = refusal_of(w);
  auto plan = reconcilers::plan_array(spec, array.spec.suspend, ended,
                                      reconcilers::record_of(spec, array.status), seen);
  if (plan.reopened) {
    w.finished.reset();
    w.failed = false;
    w.end_reason.clear();
  }
  if (!refused.reason.empty()) plan.create.clear();
  auto met = verdict_on_dependencies(array, w.ns).met;
  array.status = reconcilers::array_status(array, plan, objects, refused, to_stamp(now));
  array.status.met_dependencies = std::move(met);
  if (!refused.reason.empty() && w.refused_as != refused.reason) tell(EventType::kWaiting, w, refused.reason);
  w.refused_as = refused.reason;
  const auto saves = reconcilers::to_duration(w.behaviour().saves_in);
  for (const std::size_t i : plan.remove) remove_index(w, *jobs[i], saves);
  suspend_indexes(w);
  if (!plan.remove.empty() && !w.finished) to_serve_.insert(w.source->key);  // indexes that were in the way
  for (const std::int32_t index : plan.create) add_index(w, index);
  if (w.finished || !plan.end) return;
  w.finished = now;
  w.failed = plan.end->kind == reconcilers::ArrayEnd::Kind::kFailed;
  w.end_reason = plan.end->reason;
  tell(EventType::kFinished, w, w.end_reason);
  look_at_dependents(w);
}

// The array as an API server has it.
void World::follow_statement(Workload& w) {
  crds::TrainingJob& array = w.array;
  const bool is_new = array.metadata.name.empty();
  const auto status = is_new ? w.job().job.status : array.status;
  array.metadata = w.job().job.metadata;
  array.metadata.ns = w.ns;
  array.metadata.generation = w.generation;
  array.spec = w.job().job.spec;
  array.status = status;
}

// The array of which it is an index; nullptr: it is none.
const Workload* World::array_of(const Workload& w) const {
  if (w.is_service) return nullptr;
  const auto& labels = w.job().job.metadata.labels;
  const auto label = labels.find(std::string(reconcilers::kArrayLabel));
  if (label == labels.end()) return nullptr;
  const auto array = workloads_.find(key_of_job(w.ns, label->second));
  return array != workloads_.end() && !array->second->is_service ? array->second.get() : nullptr;
}

// Why no index of it is made; an empty reason: they are.
reconcilers::ArrayRefusal World::refusal_of(const Workload& w) const {
  if (!w.invalid.empty()) return {"InvalidSpec", w.invalid, true};
  const auto waits_for_others = reconcilers::refusal_of(verdict_on_dependencies(w.array, w.ns));
  auto spec = w.job().job.spec;
  const crds::Project* project = project_at(w.ns);
  if (project != nullptr) spec = reconcilers::with(reconcilers::taken_from(*project, spec), std::move(spec));
  if (!priority_of(spec.priority_class_name)) {
    return {"InvalidSpec",
            "spec.priorityClassName: there is no PriorityClass \"" + spec.priority_class_name + "\"", true};
  }
  if (project == nullptr) return waits_for_others;
  const auto& labels = w.job().job.metadata.labels;
  const auto violation = reconcilers::violation(*project, {spec, labels, false}, cluster.default_pool());
  return violation ? reconcilers::ArrayRefusal{"PolicyViolation", *violation, true} : waits_for_others;
}

// A workload like any other, from a statement that nobody has written.
void World::add_index(Workload& w, std::int32_t index) {
  const std::string key = key_of_job(w.ns, reconcilers::index_job_name(w.name, index));
  if (workloads_.contains(key)) return;  // somebody else has the name
  JobObject job{reconcilers::index_job(w.array, index), w.behaviour(), {}, {}};
  job.behaviour.age = {};
  job.behaviour.program_fails_at.clear();
  if (auto needs = reconcilers::pod_needs(job.job)) {
    job.needs = *std::move(needs);
  } else {
    job.invalid = needs.error().field + ": " + needs.error().message;
  }
  Change& statement = index_statements_.emplace_back();
  statement.at = to_instant(now);
  statement.key = key;
  statement.object = std::make_shared<const Object>(std::move(job));
  Gang* const g = state_workload(statement, now);
  changed_ = true;
  if (g != nullptr) refresh(*g);
}

// It takes its time to save, and holds what it holds until then.
void World::remove_index(Workload& array, Workload& job, pl::Duration saves) {
  const bool has_ended = job.finished.has_value();
  array.indexes.erase(job.array_index);
  job.array_key.clear();
  changed_ = true;
  remove_workload(job, has_ended ? pl::Duration{} : saves);
}

// Those that are to hold nothing, and those that may go on.
void World::suspend_indexes(Workload& w) {
  std::vector<Gang*> others;
  for (const auto& [index, job] : w.indexes) {
    Gang& g = *job->gangs.front();
    const bool is_to_be = job->job().job.spec.suspend || reconcilers::is_suspended_by(w.array, index);
    if (!job->finished && g.job.spec.suspend != is_to_be) others.push_back(&g);
  }
  for (Gang* g : others) {
    refresh(*g);
    changed_ = true;
  }
}

bool World::is_suspended_by_array(const Workload& w) const {
  const auto array = w.array_key.empty() ? workloads_.end() : workloads_.find(w.array_key);
  return array != workloads_.end() && reconcilers::is_suspended_by(array->second->array, w.array_index);
}

// A job of an array that is there belongs to it, also one that an input brings.
void World::join_array(Workload& w) {
  const auto& labels = w.job().job.metadata.labels;
  const auto label = labels.find(std::string(reconcilers::kArrayLabel));
  if (label == labels.end() || w.is_array()) return;
  const auto found = workloads_.find(key_of_job(w.ns, label->second));
  if (found == workloads_.end() || !found->second->is_array()) return;
  const auto index = reconcilers::index_in(found->second->job().job, w.job().job);
  if (!index) return;
  w.array_key = found->first;
  w.array_index = *index;
  found->second->indexes[*index] = &w;
}

}  // namespace muster::simulate
