#include "muster/reconcilers/jobs/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "muster/reconcilers/arrays/array_objects.h"
#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/projects/capacity.h"
#include "muster/reconcilers/projects/job_policy.h"
#include "muster/reconcilers/projects/project.h"

namespace muster::reconcilers {
namespace {

template <class T>
const T* look(const client::Informer<T>& informer, const client::Key& key) {
  const auto found = informer.store().find(key);
  return found.get();  // the store keeps it alive: nothing is changed while a translation runs
}

// False: the class that the job names does not exist.
bool priority_of(const crds::TrainingJob& job, const Caches& caches, std::int32_t& value) {
  const auto& classes = caches.priority_classes.store();
  if (!job.spec.priority_class_name.empty()) {
    const auto found = classes.find(job.spec.priority_class_name);
    if (!found) return false;
    value = found->value;
    return true;
  }
  value = default_priority(
      classes.all() | std::views::transform([](const auto& named) -> const auto& { return *named.second; }));
  return true;
}

// Adds what RuntimeClasses give to its pods, or says why they would be refused.
void apply_runtime_classes(const crds::TrainingJob& job, const Caches& caches, Translation& t) {
  for (std::size_t r = 0; r < t.needs.size() && r < job.spec.roles.size(); ++r) {
    const std::string& name = t.needs[r].runtime_class;
    if (name.empty()) continue;
    const std::string at = "spec.roles[" + std::to_string(r) + "].template.spec.";
    const auto found = caches.runtime_classes.store().find(name);
    if (!found) {
      t.blocked = at + "runtimeClassName: there is no RuntimeClass \"" + name + "\"";
    } else if (const auto problem = apply(*found, t.needs[r])) {
      t.invalid = at + *problem;
    }
  }
}

// Its pods would run as the account that Muster makes in a Project's namespace.
bool needs_job_account(const crds::TrainingJob& job) {
  return std::ranges::any_of(job.spec.roles, [](const crds::Role& role) {
    return role.pod_template.value == nullptr ||
           find(role.pod_template.value.get(), "spec", "serviceAccountName") == nullptr;
  });
}

// A pod that has the name of a pod to be made, and belongs to a job that had this name before. (That job was
// deleted, and its pod still saves, for example.) nullptr: there is none.
client::Ptr<client::Pod> pod_of_namesake(const crds::TrainingJob& job, const Caches& caches) {
  if (job.status.attempt != 0) return nullptr;
  const auto& pods = caches.pods.store();
  for (const crds::Role& role : job.spec.roles) {
    for (std::int32_t i = 0; i < crds::most_replicas(role); ++i) {
      auto pod =
          pods.find(client::make_key(job.metadata.ns, pod_name(job.metadata.name, role.name, i, 1, 0)));
      if (pod && pod->owner_uid != job.metadata.uid && client::find_value(pod->labels, kJobLabel) != nullptr)
        return pod;
    }
  }
  return nullptr;
}

// nullptr: no Project has the namespace.
client::Ptr<Object<crds::Project>> project_of(const crds::TrainingJob& job, const Caches& caches) {
  const auto name = owner_of_namespace(caches, job.metadata.ns);
  return name.empty() ? nullptr : caches.projects.store().find(name);
}

}  // namespace

client::Ptr<Object<crds::TrainingJob>> array_of(const Object<crds::TrainingJob>& job, const Caches& caches) {
  if (!is_index_job(job)) return nullptr;
  const auto label = job.value.metadata.labels.find(std::string(kArrayLabel));
  if (label == job.value.metadata.labels.end()) return nullptr;
  auto array = caches.jobs.store().find(client::make_key(job.meta.ns, label->second));
  if (!array || array->meta.uid != job.owner_uid) return nullptr;
  return index_in(array->value, job.value) ? array : nullptr;
}

crds::Effective effective_values(const crds::TrainingJob& job, const Caches& caches) {
  if (job.status.assignment.attempt != 0 || is_finished(job.status)) return job.status.effective;
  const auto project = project_of(job, caches);
  return project ? taken_from(project->value, job.spec) : crds::Effective{};
}

VolumeLookup volume_lookup(const Caches& caches, const std::string& ns) {
  VolumeLookup lookup;
  lookup.claim = [&caches, ns](std::string_view name) {
    return look(caches.claims, client::make_key(ns, name));
  };
  lookup.volume = [&caches](std::string_view name) { return look(caches.volumes, client::Key(name)); };
  lookup.storage_class = [&caches](std::string_view name) {
    return look(caches.storage_classes, client::Key(name));
  };
  return lookup;
}

Translation translate_job(const Object<crds::TrainingJob>& counts, const Caches& caches) {
  const crds::TrainingJob& job = counts.value;
  Translation t;
  t.serves = is_replica(counts);
  if (t.serves) {
    const auto of = job.metadata.labels.find(std::string(kServiceLabel));
    t.service = client::make_key(job.metadata.ns, of == job.metadata.labels.end() ? "" : of->second);
    if (const auto service = caches.services.store().find(t.service)) {
      t.max_surge = service->value.spec.rollout.max_surge;
      t.spread = service->value.spec.placement;
    }
  }
  // What it needs is said whatever else is wrong: what runs is charged by it.
  const auto needs = pod_needs(job);
  if (needs) {
    t.needs = *needs;
    t.volumes = volume_terms(job, volume_lookup(caches, job.metadata.ns));
    apply_runtime_classes(job, caches, t);
    if (t.invalid) return t;
  }
  if (!priority_of(job, caches, t.priority)) {
    t.invalid = "spec.priorityClassName: there is no PriorityClass \"" + job.spec.priority_class_name + "\"";
    return t;
  }
  if (!needs) {
    t.invalid = (needs.error().field.empty() ? "" : needs.error().field + ": ") + needs.error().message;
    return t;
  }
  for (const auto& v : t.volumes) {
    if (!v.blocked.empty() && !t.blocked) t.blocked = v.blocked;
  }
  // What it needs is said all the same: a job from before the policy may hold it.
  const auto project = project_of(job, caches);
  if (project) {
    const auto service = t.serves ? caches.services.store().find(t.service) : nullptr;
    const auto array = array_of(counts, caches);
    const auto& labels = service ? service->value.metadata.labels
                         : array ? array->value.metadata.labels
                                 : job.metadata.labels;
    t.invalid =
        violation(project->value, {job.spec, labels, t.serves}, default_pool(caches.node_pools.store()));
  }
  if (t.invalid) t.invalid_reason = "PolicyViolation";
  const auto& ns = job.metadata.ns;
  if (!t.blocked && needs_job_account(job) && project &&
      !caches.service_accounts.store().find(client::make_key(ns, kJobAccount))) {
    t.blocked = "namespace " + ns + " does not have its ServiceAccount " + std::string(kJobAccount) +
                " yet; see condition NamespaceReady of its Project";
    t.blocked_reason = "NamespaceNotReady";
  }
  if (const auto pod = t.blocked ? nullptr : pod_of_namesake(job, caches)) {
    t.blocked = fmt::format("pod {} on node {} of a job that had this name before has not ended yet",
                            pod->meta.name, pod->node_name);
    t.blocked_reason = "BackingOff";
  }
  return t;
}

}  // namespace muster::reconcilers
