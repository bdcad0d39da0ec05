// Watch -> cache -> keys: who is to look again at what, when an object has changed.
#include <algorithm>
#include <chrono>
#include <utility>

#include "controller_impl.h"
#include "muster/reconcilers/arrays/array_objects.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_identity.h"
#include "muster/reconcilers/pods/volumes.h"
#include "muster/reconcilers/projects/gpu_endpoints.h"
#include "muster/reconcilers/sharing/holder_pod.h"

namespace muster::controller {
namespace {

using client::Key;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

// Whether a pod there is to be looked at differently.
bool is_other_health(const client::Node& a, const client::Node& b) {
  return a.ready != b.ready || a.unschedulable != b.unschedulable || a.deleting != b.deleting ||
         a.taints != b.taints || a.annotations != b.annotations;
}

// How often it is looked whether the API server has a kind that it may do without.
constexpr client::Duration kDiscoverAgain = std::chrono::seconds{30};

}  // namespace

// When this process begins to lead, the caches are replayed in this order.
void Controller::Impl::listen() {
  listen_to_nodes_and_pods();
  listen_to_shares();
  listen_to_workloads();
  listen_to_what_workloads_mention();
}

void Controller::Impl::listen_to_nodes_and_pods() {
  on_change(caches.nodes,
            [this](const client::Ptr<client::Node>& before, const client::Ptr<client::Node>& now) {
              if (now)
                placement.node(*now);
              else
                placement.node_gone(*before);
              if (before && (!now || is_other_health(*before, *now))) add_jobs_on(before->meta.name);
            });
  on_change(topologies, [this](const client::Ptr<reconcilers::NodeTopology>& before,
                               const client::Ptr<reconcilers::NodeTopology>& now) {
    placement.topology((now ? now : before)->meta.name, now);
  });
  on_change(caches.pods, [this](const client::Ptr<client::Pod>& before, const client::Ptr<client::Pod>& now) {
    pod_changed(before, now);
  });
}

void Controller::Impl::listen_to_shares() {
  on_change(
      caches.queues,
      [this](const auto& before, const auto& now) {
        if (now)
          placement.queue(now->value, context.now());
        else
          placement.queue_gone(before->value);
        queue_runner.add((now ? now : before)->meta.key());
      },
      &queue_runner);
  on_change(
      caches.projects,
      [this](const auto& before, const auto& now) {
        project_changed(before ? &before->value : nullptr, now ? &now->value : nullptr);
        project_runner.add((now ? now : before)->meta.key());
      },
      &project_runner);
  on_change(
      caches.node_pools,
      [this](const auto& before, const auto& now) {
        if (now)
          placement.pool(now->value);
        else
          placement.pool_gone(before->value);
        if (now && now->value.spec.gpu_metrics) gpus.restore(now->meta.name, now->value.status.failing_gpus);
        pool_runner.add((now ? now : before)->meta.key());
      },
      &pool_runner);
}

void Controller::Impl::listen_to_workloads() {
  on_change(
      caches.jobs,
      [this](const auto& before, const auto& now) {
        const auto key = (now ? now : before)->meta.key();
        if (now && (!before || before->value.status.assignment != now->value.status.assignment))
          jobs.charge(key);
        if (now && options.ledger &&
            (!before || before->value.status.disruptions != now->value.status.disruptions))
          disruptions.note(now->value);
        job_runner.add(key);
        if (!before || !now || reconcilers::is_other_dependency(before->value, now->value))
          add_dependents_of(key);
        for (const auto* job : {before.get(), now.get()}) {
          if (job == nullptr) continue;
          add_service_of(job->meta.ns, job->value.metadata.labels);
          if (!job->status_unreadable) add_gpus(reconcilers::gpus_shared_by(job->value));
        }
        add_array_of(before.get(), now.get());
      },
      &job_runner);
  on_change(
      caches.services,
      [this](const auto& before, const auto& now) {
        service_runner.add((now ? now : before)->meta.key());
        // Its labels are its replicas': a Project may require some.
        if (!before || !now || before->value.metadata.labels == now->value.metadata.labels) return;
        for (const auto& job : caches.jobs.store().by_index(reconcilers::kByOwner, now->meta.uid))
          job_runner.add(job->meta.key());
      },
      &service_runner);
}

void Controller::Impl::listen_to_what_workloads_mention() {
  const auto volume_changed = [this](const auto&, const auto&) {
    stir([](Stirred& s) { s.volumes = true; });
  };
  on_change(caches.volumes, volume_changed);
  on_change(caches.storage_classes, volume_changed);
  on_change(caches.claims, [this](const auto& before, const auto& now) {
    stir([&](Stirred& s) { s.claims_in.insert((now ? now : before)->meta.ns); });
  });
  const auto class_changed = [this](const auto&, const auto&) { stir([](Stirred& s) { s.classes = true; }); };
  on_change(caches.priority_classes, class_changed);
  on_change(caches.runtime_classes, class_changed);
  on_change(caches.namespaces,
            [this](const auto& before, const auto& now) { namespace_changed(before.get(), now.get()); });
  for (auto* kept : {&caches.service_accounts, &caches.role_bindings, &caches.network_policies}) {
    on_change(*kept, [this](const auto& before, const auto& now) {
      for (const auto* o : {before.get(), now.get()}) {
        if (o != nullptr && !o->project.empty()) project_runner.add(o->project);
      }
      if (!before && now->meta.name == reconcilers::kJobAccount)
        add_jobs_in(now->meta.ns);  // they waited for it
    });
  }
}

template <class T, class F>
void Controller::Impl::guarded(client::Informer<T>& informer, F fn, Runner* runner,
                               const client::Ptr<T>& before, const client::Ptr<T>& now) {
  const std::string& resource = informer.watcher().resource().plural;
  const Key key = (now ? now : before)->meta.key();
  // What is not all taken in yet is told as if it were new: of what a handler skips because it has not
  // changed, nobody may know.
  const bool is_known = runner == nullptr || runner->is_taken_in(key);
  try {
    if (probe) probe(resource, key);
    fn(is_known || !now ? before : client::Ptr<T>(), now);
    if (!is_known) runner->taken_in(key);
  } catch (const std::exception& e) {
    reconcilers::log_error("a change could not be taken in",
                           {{"resource", resource}, {"object", key}, {"error", e.what()}});
    metrics.panicked(runner == nullptr ? resource : runner->name());
    if (runner == nullptr) return;
    runner->take_in_again(key, [this, &informer, fn, resource, key] {
      if (probe) probe(resource, key);
      fn(client::Ptr<T>(), informer.store().find(key));
    });
  }
}

template <class T, class F>
void Controller::Impl::hear(client::Informer<T>& informer, F fn, Runner* runner) {
  const auto tell = [this, &informer, fn, runner](const client::Ptr<T>& before, const client::Ptr<T>& now) {
    guarded(informer, fn, runner, before, now);
  };
  informer.store().add_handler([this, tell](const client::StoreEvent<T>& event) {
    std::visit(Overloaded{[&](const client::Added<T>& e) { tell(client::Ptr<T>(), e.now); },
                          [&](const client::Updated<T>& e) { tell(e.before, e.now); },
                          [&](const client::Deleted<T>& e) { tell(e.last, client::Ptr<T>()); },
                          [&](const client::Synced&) { wake.notify(); }},
               event);
  });
}

template <class T, class F>
void Controller::Impl::on_change(client::Informer<T>& informer, F fn, Runner* runner) {
  const auto while_acting = [this, fn](const client::Ptr<T>& before, const client::Ptr<T>& now) {
    if (is_acting) fn(before, now);
  };
  hear(informer, while_acting, runner);
  replays.push_back([this, &informer, fn, runner] {
    for (const auto& [key, object] : informer.store().all())
      guarded(informer, fn, runner, client::Ptr<T>(), object);
  });
}

void Controller::Impl::listen_while_waiting() {
  hear(caches.pods, [this](const auto& before, const auto& now) {
    if (is_acting) return;
    const client::Pod& pod = now ? *now : *before;
    if (const auto job = followed_job_of(pod)) jobs.note(job->meta.key(), pod);
  });
  hear(caches.jobs, [this](const auto& before, const auto&) {
    if (!is_acting && before) jobs.follow(before->meta.key());
  });
}

void Controller::Impl::project_changed(const crds::Project* before, const crds::Project* now) {
  const bool numbers_only = before != nullptr && now != nullptr && before->spec == now->spec &&
                            before->metadata.uid == now->metadata.uid &&
                            before->metadata.deletion_timestamp == now->metadata.deletion_timestamp &&
                            before->status.ns_uid == now->status.ns_uid;
  if (numbers_only) return;
  if (now != nullptr) {
    placement.project(*now, context.now());
  } else if (before != nullptr) {
    placement.project_gone(before->metadata.name);
  }
  std::set<std::string> touched;
  for (const auto* p : {before, now}) {
    if (p != nullptr) touched.insert(crds::namespace_of(*p));
  }
  for (const auto& ns : touched) claims_changed(ns);
}

void Controller::Impl::namespace_changed(const reconcilers::Namespace* before,
                                         const reconcilers::Namespace* now) {
  const bool same = before != nullptr && now != nullptr && before->labels == now->labels &&
                    before->meta.uid == now->meta.uid && before->terminating == now->terminating;
  if (same) return;
  for (const auto* ns : {before, now}) {
    if (ns != nullptr && !ns->project().empty()) project_runner.add(ns->project());
  }
  claims_changed((now != nullptr ? now : before)->meta.name);
}

void Controller::Impl::claims_changed(const std::string& ns) {
  placement.charge_namespace(ns, reconcilers::owner_of_namespace(caches, ns));
  // Pods of jobs that are gone may have been charged before it was known that the namespace is a Project's:
  // without the part of a GPU that they have.
  const auto& pods = caches.pods.store().all();
  for (auto it = pods.lower_bound(ns + "/"); it != pods.end() && it->second->meta.ns == ns; ++it) {
    if (!holder.is_own(*it->second) && !followed_job_of(*it->second)) placement.foreign_pod(it->second);
  }
  add_jobs_in(ns);
  const auto claims = caches.projects.store().by_index(reconcilers::kByNamespace, ns);
  for (const auto& p : claims) project_runner.add(p->meta.key());
}

void Controller::Impl::pod_changed(const client::Ptr<client::Pod>& before,
                                   const client::Ptr<client::Pod>& now) {
  const auto& pod = now ? *now : *before;
  for (const auto* p : {before.get(), now.get()}) {
    if (p != nullptr) add_gpus(reconcilers::gpus_shared_by(*p));
  }
  if (holder.is_own(pod)) return holder_pod_changed(pod, !now);
  if (pod.meta.ns == context.own_namespace &&
      client::find_value(pod.labels, reconcilers::kActivatorLabel) != nullptr)
    services.activators().note(pod, !now);
  add_service_of(pod);
  if (!now) placement.pod_gone(*before);
  if (const auto job = followed_job_of(pod)) {
    const auto key = job->meta.key();
    const bool is_new = !before || (now && before->meta.uid != now->meta.uid);
    if (now) placement.job_pod(key, job->value.status.assignment, now, is_new);
    jobs.note(key, pod);
    job_runner.add(key);
    return;
  }
  // Not Muster's, or of a job that is gone, goes or cannot be read: it holds what it holds
  // until it is gone.
  if (now) placement.foreign_pod(now);
  const auto* label = client::find_value(pod.labels, reconcilers::kJobLabel);
  // Its name is free, or it is to go.
  if (label != nullptr) job_runner.add(client::make_key(pod.meta.ns, *label));
}

reconcilers::JobPtr Controller::Impl::followed_job_of(const client::Pod& pod) const {
  const auto* label = client::find_value(pod.labels, reconcilers::kJobLabel);
  if (label == nullptr) return nullptr;
  const auto job = caches.jobs.store().find(client::make_key(pod.meta.ns, *label));
  const bool follows = job && job->meta.uid == pod.owner_uid && !job->value.metadata.deletion_timestamp &&
                       !job->status_unreadable;
  return follows ? job : nullptr;
}

void Controller::Impl::holder_pod_changed(const client::Pod& pod, bool is_gone) {
  holder.note(pod, is_gone);
  gpu_runner.add(reconcilers::key_of(*reconcilers::gpu_held_by(pod)));
  if (is_gone)
    placement.pod_gone(pod);
  else
    placement.holder_pod(pod);
}

void Controller::Impl::add_gpus(const std::vector<std::string>& keys) {
  for (const auto& key : keys) gpu_runner.add(key);
}

void Controller::Impl::add_service_of(const std::string& ns, const crds::StringMap& labels) {
  const auto found = labels.find(std::string(reconcilers::kServiceLabel));
  if (found != labels.end()) service_runner.add(client::make_key(ns, found->second));
}

// An array follows its indexes; and they follow it when it suspends them, or lets them go on.
void Controller::Impl::add_array_of(const reconcilers::Object<crds::TrainingJob>* before,
                                    const reconcilers::Object<crds::TrainingJob>* now) {
  const auto& job = now != nullptr ? *now : *before;
  const auto label = job.value.metadata.labels.find(std::string(reconcilers::kArrayLabel));
  if (reconcilers::is_index_job(job) && label != job.value.metadata.labels.end())
    job_runner.add(client::make_key(job.meta.ns, label->second));
  if (now == nullptr || !now->value.spec.array) return;
  const auto held = [](const auto& array) {
    return array.value.status.array ? array.value.status.array->held_indexes : std::string();
  };
  const bool same = before != nullptr && before->value.spec.suspend == now->value.spec.suspend &&
                    held(*before) == held(*now) && before->meta.uid == now->meta.uid;
  if (same) return;
  for (const auto& index : caches.jobs.store().by_index(reconcilers::kByOwner, now->meta.uid))
    job_runner.add(index->meta.key());
}

void Controller::Impl::add_service_of(const client::Pod& pod) {
  const auto* label = client::find_value(pod.labels, reconcilers::kServiceLabel);
  if (label != nullptr) service_runner.add(client::make_key(pod.meta.ns, *label));
}

void Controller::Impl::add_jobs_on(const std::string& node) {
  for (const auto& pod : caches.pods.store().by_index(reconcilers::kByNode, node)) {
    job_runner.add(client::make_key(pod->meta.ns, *client::find_value(pod->labels, reconcilers::kJobLabel)));
    add_service_of(*pod);  // its replica leaves a node that is cordoned
  }
}

void Controller::Impl::gpus_changed(const std::string& node) {
  placement.failing_gpus(node, gpus.failing_gpus(node));
  add_jobs_on(node);
}

client::Task<reconcilers::Outcome> Controller::Impl::reconcile_pool(Key key) {
  const auto again = reconcilers::follow_gpus(key, caches, gpus);
  auto outcome = co_await capacity.node_pool(key);
  if (again && !outcome.failed) outcome.no_later_than(*again);
  co_return outcome;
}

template <class F>
void Controller::Impl::stir(F mark) {
  mark(stirred);
  dirty.notify();
}

void Controller::Impl::add_stirred_jobs() {
  if (stirred == Stirred{}) return;
  const auto changed = std::exchange(stirred, {});
  for (const auto& [key, job] : caches.jobs.store().all()) {
    const auto& status = job->value.status;
    const bool waits = status.assignment.attempt == 0 && !reconcilers::is_finished(status);
    const bool maybe_volumes = (changed.volumes && waits) || changed.claims_in.contains(job->meta.ns);
    if ((changed.classes && waits) || (maybe_volumes && reconcilers::has_volumes(job->value)))
      job_runner.add(key);
  }
}

void Controller::Impl::add_dependents_of(const Key& job) {
  for (const auto& waiting : caches.jobs.store().by_index(reconcilers::kByDependency, job))
    job_runner.add(waiting->meta.key());
}

void Controller::Impl::add_jobs_in(const std::string& ns) {
  const auto& all = caches.jobs.store().all();
  for (auto it = all.lower_bound(ns + "/"); it != all.end() && it->second->meta.ns == ns; ++it)
    job_runner.add(it->first);
}

client::Task<void> Controller::Impl::follow_topologies() {
  const auto& kind = reconcilers::kNodeTopologies;
  const std::string group = "/apis/" + kind.group + "/" + kind.version;
  bool slept = true;
  while (slept && !stopping) {
    client::HttpRequest question;
    question.target = group;
    const auto answer = co_await api.raw(std::move(question));
    const bool is_known = answer && (answer->status == 200 || answer->status == 404);
    const bool is_served = is_known && answer->body.contains('"' + kind.plural + '"');
    // What it knew goes with the kind: the API server deletes the objects first.
    if (is_known && !is_served) watching_topologies.cancel();
    if (is_served && watching_topologies.empty() && !stopping) watching_topologies.spawn(topologies.run());
    slept = co_await env.clock.sleep_for(kDiscoverAgain);
  }
}

}  // namespace muster::controller
