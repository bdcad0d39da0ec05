#include "process/sharing_metrics.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "muster/reconcilers/projects/capacity.h"
#include "muster/reconcilers/schedules/effective_spec.h"
#include "process/sampled_family.h"

namespace muster::controller {
namespace {

using reconcilers::Caches;
using reconcilers::PlacementModel;
using Families = std::vector<prometheus::MetricFamily>;

double gpus(crds::MilliGpu amount) {
  return static_cast<double>(amount.value) / 1000;
}
double gpus(const crds::Amounts& amounts) {
  return gpus(amounts.gpu.value_or(crds::MilliGpu{}));
}

// Calls fn(value) for each object of the store that can be read.
template <class Kind, class F>
void for_each(const reconcilers::ObjectStore<Kind>& store, F fn) {
  for (const auto& [key, object] : store.all()) {
    if (object->problem.empty()) fn(object->value);
  }
}

// --- shares

// What a Queue or Project has in each pool. `kind` is project or queue; the second label says what is above.
class Shares {
 public:
  Shares(const std::string& kind, const std::string& above, crds::Time now)
      : now_(now),
        labels_{kind, above, "pool"},
        allocated_(family(kind, "allocated", "GPUs that its work holds, until the last pod has ended.")),
        borrowed_(family(kind, "borrowed", "The part of the allocated GPUs beyond its quota.")),
        pending_(family(kind, "pending", "GPUs that its waiting work asks for.")),
        fair_share_(family(kind, "fair_share", "GPUs that it is entitled to, as demand is now.")),
        quota_(family(kind, "quota", "GPUs of its quota.")),
        limit_(family(kind, "limit", "GPUs that it may have at most; absent: no limit.")) {}

  template <class Kind>
  void add(const Kind& object, const std::string& above, const reconcilers::TreeNumbers& n,
           const std::string& main) {
    const auto& name = object.metadata.name;
    std::optional<decltype(object.spec)> holds;
    if (!object.spec.schedules.empty()) holds = reconcilers::effective_spec(object.spec, now_).spec;
    const auto& spec = holds ? *holds : object.spec;
    if (!main.empty()) {
      bound({name, above, main}, spec.quota, spec.limit);
      use({name, above, main}, {main, n.allocated, n.borrowed, n.pending, n.fair_share});
    }
    for (const auto& share : spec.pools) {
      if (share.name == main) continue;
      bound({name, above, share.name}, share.quota, share.limit);
      const bool is_used = std::ranges::find(n.pools, share.name, &crds::PoolUsage::name) != n.pools.end();
      if (!is_used) use({name, above, share.name}, {});
    }
    for (const auto& pool : n.pools) use({name, above, pool.name}, pool);
  }
  void move_to(Families& families) {
    for (SampledFamily* f : {&allocated_, &borrowed_, &pending_, &fair_share_, &quota_, &limit_})
      f->move_to(families);
  }

 private:
  SampledFamily family(const std::string& kind, const std::string& what, const char* help) const {
    return sampled_gauge("muster_" + kind + "_" + what + "_gpus", help, labels_);
  }
  void bound(SampledFamily::Values labels, const crds::Amounts& quota, const crds::Amounts& limit) {
    quota_.add(labels, gpus(quota));
    if (limit.gpu) limit_.add(labels, gpus(limit));
  }
  void use(SampledFamily::Values labels, const crds::PoolUsage& usage) {
    allocated_.add(labels, gpus(usage.allocated));
    borrowed_.add(labels, gpus(usage.borrowed));
    pending_.add(labels, gpus(usage.pending));
    fair_share_.add(labels, gpus(usage.fair_share));
  }

  crds::Time now_;
  std::vector<std::string> labels_;
  SampledFamily allocated_, borrowed_, pending_, fair_share_, quota_, limit_;
};

void append_shares(const Caches& caches, const PlacementModel& placement, crds::Time now,
                   Families& families) {
  const std::string main = reconcilers::default_pool(caches.node_pools.store());
  SampledFamily info = sampled_gauge("muster_project_info", "1, with where the Project belongs.",
                                     {"project", "queue", "project_namespace"});
  Shares projects("project", "queue", now), queues("queue", "parent", now);
  for_each(caches.projects.store(), [&](const crds::Project& project) {
    info.add({project.metadata.name, project.spec.queue, project.status.ns}, 1);
    projects.add(project, project.spec.queue, placement.numbers_of_project(project.metadata.name), main);
  });
  for_each(caches.queues.store(), [&](const crds::Queue& queue) {
    queues.add(queue, queue.spec.parent, placement.numbers_of_queue(queue.metadata.name), main);
  });
  info.move_to(families);
  projects.move_to(families);
  queues.move_to(families);
}

// --- workloads

// Of one Project.
struct Work {
  std::array<int, names_of(crds::Phase{}).size()> phases{};
  std::map<std::string_view, int> reasons;  // of jobs that wait
  std::optional<crds::Time> oldest;         // since when the one waits that waits longest
  int replicas_wanted = 0, replicas_ready = 0;
  double service_gpus = 0;
  std::map<std::string_view, int> held;  // services whose size is held, by reason
};
using WorkByProject = std::map<std::string, Work>;

// Of the Project that the namespace's work is charged to; nullptr: there is none.
class WorkByNamespace {
 public:
  WorkByNamespace(WorkByProject& work, const PlacementModel& placement)
      : work_(work), placement_(placement) {}

  Work* of(const std::string& ns) {
    const auto [known, fresh] = found_.try_emplace(ns);
    if (fresh) {
      const auto project = work_.find(placement_.project_of(ns));
      known->second = project == work_.end() ? nullptr : &project->second;
    }
    return known->second;
  }

 private:
  WorkByProject& work_;
  const PlacementModel& placement_;
  std::map<std::string, Work*> found_;
};

// Since when the job waits: it was submitted, had its places last, or was suspended last.
crds::Time waits_since(const crds::TrainingJob& job, crds::Time now) {
  crds::Time since = job.metadata.creation_timestamp.value_or(now);
  const auto no_earlier_than = [&](const char* type) {
    const auto* c = crds::find_condition(job.status.conditions, type);
    if (c != nullptr && c->status == crds::ConditionStatus::kFalse)
      since = std::max(since, c->last_transition_time);
  };
  if (job.status.attempt != 0) no_earlier_than("Admitted");
  no_earlier_than("Suspended");
  return since;
}

void note(Work& work, const crds::TrainingJob& job, crds::Time now) {
  if (job.spec.array) return;  // its indexes are jobs
  if (job.status.phase) ++work.phases[static_cast<std::size_t>(*job.status.phase)];
  const auto& reason = job.status.queue.reason;
  if (reason.empty()) return;
  ++work.reasons[reason];
  const auto since = waits_since(job, now);
  work.oldest = work.oldest ? std::min(*work.oldest, since) : since;
}

void note(Work& work, const crds::InferenceService& service) {
  work.replicas_wanted += crds::size_of(service);
  work.replicas_ready += service.status.ready_replicas;
  work.service_gpus += gpus(service.status.allocated);
  if (!service.spec.autoscaling) return;
  const auto* scaling = crds::find_condition(service.status.conditions, "ScalingActive");
  if (scaling != nullptr && scaling->status == crds::ConditionStatus::kFalse) ++work.held[scaling->reason];
}

WorkByProject work_by_project(const Caches& caches, const PlacementModel& placement, crds::Time now) {
  WorkByProject work;
  for_each(caches.projects.store(), [&](const crds::Project& project) { work[project.metadata.name]; });
  WorkByNamespace by_namespace(work, placement);
  for_each(caches.jobs.store(), [&](const crds::TrainingJob& job) {
    if (Work* w = by_namespace.of(job.metadata.ns)) note(*w, job, now);
  });
  for_each(caches.services.store(), [&](const crds::InferenceService& service) {
    if (Work* w = by_namespace.of(service.metadata.ns)) note(*w, service);
  });
  return work;
}

void append_jobs(const Caches& caches, const WorkByProject& work, crds::Time now, Families& families) {
  auto jobs = sampled_gauge("muster_project_jobs", "TrainingJobs by phase, replicas of services included.",
                            {"project", "queue", "phase"});
  auto waiting = sampled_gauge("muster_project_waiting_jobs",
                               "TrainingJobs that wait, by the reason in their status.queue.",
                               {"project", "queue", "reason"});
  auto oldest =
      sampled_gauge("muster_project_oldest_wait_seconds",
                    "How long the job waits by now that waits longest; 0: none waits.", {"project", "queue"});
  for_each(caches.projects.store(), [&](const crds::Project& p) {
    const auto& [name, queue] = std::tie(p.metadata.name, p.spec.queue);
    const Work& w = work.at(name);
    for (std::size_t i = 0; i < w.phases.size(); ++i)
      jobs.add({name, queue, names_of(crds::Phase{})[i]}, w.phases[i]);
    for (const auto& [reason, n] : w.reasons) waiting.add({name, queue, reason}, n);
    const auto seconds = w.oldest ? (now - *w.oldest).count() : 0;
    oldest.add({name, queue}, static_cast<double>(std::max<std::int64_t>(seconds, 0)));
  });
  for (SampledFamily* f : {&jobs, &waiting, &oldest}) f->move_to(families);
}

void append_services(const Caches& caches, const WorkByProject& work, Families& families) {
  auto wanted =
      sampled_gauge("muster_project_service_desired_replicas",
                    "Replicas that the Project's InferenceServices are to have.", {"project", "queue"});
  auto ready = sampled_gauge("muster_project_service_ready_replicas", "Of these, replicas that are ready.",
                             {"project", "queue"});
  auto held =
      sampled_gauge("muster_project_services_held",
                    "InferenceServices whose size is held because their load is not known, by reason.",
                    {"project", "queue", "reason"});
  auto allocated = sampled_gauge("muster_project_service_allocated_gpus",
                                 "GPUs that the Project's InferenceServices hold.", {"project", "queue"});
  for_each(caches.projects.store(), [&](const crds::Project& p) {
    const auto& [name, queue] = std::tie(p.metadata.name, p.spec.queue);
    const Work& w = work.at(name);
    wanted.add({name, queue}, w.replicas_wanted);
    ready.add({name, queue}, w.replicas_ready);
    allocated.add({name, queue}, w.service_gpus);
    for (const auto& [reason, n] : w.held) held.add({name, queue, reason}, n);
  });
  for (SampledFamily* f : {&wanted, &ready, &held, &allocated}) f->move_to(families);
}

// --- pools and nodes

void append_pools(const Caches& caches, const PlacementModel& placement, Families& families) {
  const auto family = [](const char* name, const char* help) { return sampled_gauge(name, help, {"pool"}); };
  auto nodes = family("muster_pool_nodes", "Usable nodes.");
  auto capacity = family("muster_pool_capacity_gpus", "Healthy GPUs of the usable nodes.");
  auto free = family("muster_pool_free_gpus", "Of the capacity, GPUs that nobody holds.");
  auto gang = family("muster_pool_largest_gang_gpus",
                     "GPUs of the largest gang that could start now with pods that take whole nodes.");
  auto failing = family("muster_pool_failing_gpus", "GPUs that their nodes' metrics say have failed.");
  for_each(caches.node_pools.store(), [&](const crds::NodePool& pool) {
    const auto& name = pool.metadata.name;
    const auto n = placement.numbers_of_pool(name);
    nodes.add({name}, n.nodes);
    capacity.add({name}, gpus(n.capacity));
    free.add({name}, gpus(n.free));
    gang.add({name}, gpus(n.largest_gang));
    double failed = 0;
    for (const auto& node : pool.status.failing_gpus) failed += static_cast<double>(node.gpus.size());
    failing.add({name}, failed);
  });
  for (SampledFamily* f : {&nodes, &capacity, &free, &gang, &failing}) f->move_to(families);
}

void append_nodes(const PlacementModel& placement, Families& families) {
  const auto family = [](const char* name, const char* help) {
    return sampled_gauge(name, help, {"node", "pool"});
  };
  auto capacity = family("muster_node_capacity_gpus", "Healthy GPUs of the node.");
  auto allocated = family("muster_node_allocated_gpus", "GPUs of the node that somebody holds.");
  auto usable = family("muster_node_usable", "1 where new work may come, 0 where it may not.");
  for (const auto& n : placement.numbers_of_nodes()) {
    capacity.add({n.node, n.pool}, gpus(n.capacity));
    allocated.add({n.node, n.pool}, gpus(n.allocated));
    usable.add({n.node, n.pool}, n.usable ? 1 : 0);
  }
  for (SampledFamily* f : {&capacity, &allocated, &usable}) f->move_to(families);
}

}  // namespace

std::vector<prometheus::MetricFamily> sharing_metrics(const Caches& caches, const PlacementModel& placement,
                                                      crds::Time now) {
  Families families;
  append_shares(caches, placement, now, families);
  const WorkByProject work = work_by_project(caches, placement, now);
  append_jobs(caches, work, now, families);
  append_services(caches, work, families);
  append_pools(caches, placement, families);
  append_nodes(placement, families);
  return families;
}

void append_usage(reconcilers::Ledger& ledger, crds::Time now, Families& families) {
  constexpr std::array<std::string_view, reconcilers::kDoings> kStates = {"starting", "running", "saving",
                                                                          "idle"};  // by Doing
  SampledFamily held(prometheus::MetricType::Counter, "muster_gpu_seconds_total",
                     "GPU-seconds that work held, by what it did with them.", {"project", "state"});
  SampledFamily cost(prometheus::MetricType::Counter, "muster_gpu_cost_total",
                     "What NodePools with a price took for their GPUs, in the currency of the prices.",
                     {"project"});
  SampledFamily energy(
      prometheus::MetricType::Counter, "muster_gpu_energy_joules_total",
      "What the GPUs drew that work held: as read of them, else by the watts of their NodePool.",
      {"project"});
  constexpr double kMilli = 1000, kHour = 3600;
  ledger.for_each_project(now, [&](const std::string& project, const reconcilers::Used& used) {
    for (std::size_t i = 0; i < kStates.size(); ++i)
      held.add({project, kStates[i]}, gpus(crds::MilliGpu{used.held.milli_gpus[i]}));
    cost.add({project}, static_cast<double>(used.hourly_cost) / kHour / kMilli);
    energy.add({project}, static_cast<double>(used.milliwatt_seconds) / kMilli);
  });
  for (SampledFamily* f : {&held, &cost, &energy}) f->move_to(families);
}

}  // namespace muster::controller
