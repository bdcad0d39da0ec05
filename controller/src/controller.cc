#include "controller.h"

#include <algorithm>
#include <array>
#include <set>

#include "muster/client/leader_election.h"
#include "muster/client/waiter.h"
#include "muster/reconcilers/capacity.h"
#include "muster/reconcilers/gpu_endpoints.h"
#include "muster/reconcilers/gpu_holder.h"
#include "muster/reconcilers/gpu_reservation.h"
#include "muster/reconcilers/gpu_share.h"
#include "muster/reconcilers/inference_service.h"
#include "muster/reconcilers/job_status.h"
#include "muster/reconcilers/log.h"
#include "muster/reconcilers/names.h"
#include "muster/reconcilers/pod_identity.h"
#include "muster/reconcilers/project.h"
#include "muster/reconcilers/training_job.h"
#include "muster/reconcilers/volumes.h"
#include "runner.h"

namespace muster::controller {
namespace {

using client::Duration;
using client::Key;
using client::spawn;
using reconcilers::log_info;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Reservation pods that are made or deleted at once.
constexpr int kReserving = 16;
// Changes that come together are planned together.
constexpr Duration kDebounce = milliseconds{4};
// So long at least from one plan to the next that only time has made necessary.
constexpr Duration kLeastAhead = milliseconds{100};
// Of the 30 s that a stop may take: for reconciles under way, then for events not yet sent, then
// for the lease.
constexpr Duration kStopDeadline = seconds{24};
constexpr Duration kEventsDeadline = kStopDeadline + seconds{3};
constexpr Duration kLeaseDeadline = kEventsDeadline + milliseconds{2500};

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

}  // namespace

struct Controller::Impl {
  Impl(client::Environment e, client::Transport& transport, client::Transport& pods, const Options& o,
       Metrics& m)
      : env(e),
        options(o),
        metrics(m),
        api(e, transport, api_options(o)),
        lease_api(e, transport, lease_options(o)),
        recorder(api, "muster.dev/controller", o.identity),
        caches(api),
        placement([this] { dirty.notify(); }),
        world{e, api, recorder, caches, placement, seconds{o.status_interval}},
        gpus(e, pods,
             {.job = [this](const Key& key) { job_runner.add(key); },
              .node = [this](const std::string& node) { gpus_changed(node); },
              .pool = [this](const std::string& pool) { pool_runner.add(pool); }}),
        holder(world, holder_options(o), [this](const Key& key) { job_runner.add(key); }),
        jobs(world),
        capacity(world),
        projects(world, capacity),
        services(world, pods, [this](const Key& key) { service_runner.add(key); }),
        dirty(e.executor),
        wake(e.executor),
        job_runner(
            e, m, "trainingjob", [this](Key key) { return jobs.reconcile(std::move(key)); },
            cached_in(caches.jobs)),
        queue_runner(
            e, m, "queue", [this](Key key) { return capacity.queue(std::move(key)); },
            cached_in(caches.queues)),
        project_runner(
            e, m, "project", [this](Key key) { return projects.reconcile(std::move(key)); },
            cached_in(caches.projects)),
        pool_runner(
            e, m, "nodepool", [this](Key key) { return reconcile_pool(std::move(key)); },
            cached_in(caches.node_pools)),
        service_runner(
            e, m, "inferenceservice", [this](Key key) { return services.reconcile(std::move(key)); },
            cached_in(caches.services)),
        gpu_runner(
            e, m, "gpu", [this](Key key) { return holder.reconcile(std::move(key)); },
            [](const Key&) { return true; }) {
    world.node_grace = seconds{o.node_grace};
    world.own_namespace = o.lease_namespace;
    world.gpus = &gpus;
    world.holder = &holder;
    observe(api);
    observe(lease_api);
    listen();
    listen_while_waiting();
  }

  static client::ApiOptions api_options(const Options& o) {
    client::ApiOptions a;
    a.max_in_flight = o.max_in_flight;
    a.user_agent = "muster/" MUSTER_VERSION;
    return a;
  }
  static client::ApiOptions lease_options(const Options& o) {
    auto a = api_options(o);
    a.timeout = seconds{5};  // a renewal that takes longer is a failed one
    a.max_repeats = 0;       // the election has its own
    return a;
  }

  static reconcilers::GpuHolder::Options holder_options(const Options& o) {
    return {.pods = {.ns = o.reservation_namespace, .image = o.reservation_image, .pull_secrets = {}},
            .own_pod = o.own_pod,
            .fallback_image = "muster:" MUSTER_VERSION};
  }

  void observe(client::ApiClient& a) {
    a.set_observer([this](std::string_view verb, const client::Resource& r, int status, Duration took) {
      metrics.request(verb, r.plural, status, took);
    });
  }

  template <class T>
  static Runner::Exists cached_in(const client::Informer<T>& informer) {
    return [&informer](const Key& key) { return informer.store().find(key) != nullptr; };
  }

  std::array<Runner*, 6> runners() {
    return {&job_runner, &queue_runner, &project_runner, &pool_runner, &service_runner, &gpu_runner};
  }

  // --- watch -> cache -> keys

  void listen() {
    using namespace reconcilers;
    on_change(caches.nodes,
              [this](const client::Ptr<client::Node>& before, const client::Ptr<client::Node>& now) {
                if (now)
                  placement.node(*now);
                else
                  placement.node_gone(*before);
                if (before && (!now || is_other_health(*before, *now))) add_jobs_on(before->meta.name);
              });
    on_change(caches.pods, [this](const client::Ptr<client::Pod>& before,
                                  const client::Ptr<client::Pod>& now) { pod_changed(before, now); });
    on_change(caches.queues, [this](const auto& before, const auto& now) {
      if (now)
        placement.queue(now->value);
      else
        placement.queue_gone(before->value);
      queue_runner.add((now ? now : before)->meta.key());
    });
    on_change(caches.projects, [this](const auto& before, const auto& now) {
      project_changed(before ? &before->value : nullptr, now ? &now->value : nullptr);
      project_runner.add((now ? now : before)->meta.key());
    });
    on_change(caches.node_pools, [this](const auto& before, const auto& now) {
      if (now)
        placement.pool(now->value);
      else
        placement.pool_gone(before->value);
      if (now && now->value.spec.gpu_metrics) gpus.restore(now->meta.name, now->value.status.failing_gpus);
      pool_runner.add((now ? now : before)->meta.key());
    });
    on_change(caches.jobs, [this](const auto& before, const auto& now) {
      const auto key = (now ? now : before)->meta.key();
      if (now && (!before || before->value.status.assignment != now->value.status.assignment))
        jobs.charge(key);
      job_runner.add(key);
      for (const auto* job : {before.get(), now.get()}) {
        if (job == nullptr) continue;
        add_service_of(job->meta.ns, job->value.metadata.labels);
        if (!job->status_unreadable) add_gpus(gpus_shared_by(job->value));
      }
    });
    on_change(caches.services, [this](const auto& before, const auto& now) {
      service_runner.add((now ? now : before)->meta.key());
    });
    const auto volume_changed = [this](const auto&, const auto&) {
      stir([](Stirred& s) { s.volumes = true; });
    };
    on_change(caches.volumes, volume_changed);
    on_change(caches.storage_classes, volume_changed);
    on_change(caches.claims, [this](const auto& before, const auto& now) {
      stir([&](Stirred& s) { s.claims_in.insert((now ? now : before)->meta.ns); });
    });
    on_change(caches.priority_classes,
              [this](const auto&, const auto&) { stir([](Stirred& s) { s.classes = true; }); });
    on_change(caches.namespaces,
              [this](const auto& before, const auto& now) { namespace_changed(before.get(), now.get()); });
    for (auto* kept : {&caches.service_accounts, &caches.role_bindings, &caches.network_policies}) {
      on_change(*kept, [this](const auto& before, const auto& now) {
        for (const auto* o : {before.get(), now.get()}) {
          if (o != nullptr && !o->project.empty()) project_runner.add(o->project);
        }
        if (!before && now->meta.name == kJobAccount) add_jobs_in(now->meta.ns);  // they waited for it
      });
    }
  }

  // Of each change of an object, as (before, now); nullptr: it was not, or is not, there.
  template <class T, class F>
  void hear(client::Informer<T>& informer, F fn) {
    informer.store().add_handler([this, fn](const client::StoreEvent<T>& event) {
      std::visit(Overloaded{[&](const client::Added<T>& e) { fn(client::Ptr<T>(), e.now); },
                            [&](const client::Updated<T>& e) { fn(e.before, e.now); },
                            [&](const client::Deleted<T>& e) { fn(e.last, client::Ptr<T>()); },
                            [&](const client::Synced&) { wake.notify(); }},
                 event);
    });
  }

  // Handlers act only while this process leads; start_acting() replays everything once.
  template <class T, class F>
  void on_change(client::Informer<T>& informer, F fn) {
    hear(informer, [this, fn](const client::Ptr<T>& before, const client::Ptr<T>& now) {
      if (is_acting) fn(before, now);
    });
    replays.push_back([&informer, fn] {
      for (const auto& [key, object] : informer.store().all()) fn(client::Ptr<T>(), object);
    });
  }

  // While another process leads. A pod's last words may stand in its last event and nowhere else; they must
  // be known to whoever leads next.
  void listen_while_waiting() {
    hear(caches.pods, [this](const auto& before, const auto& now) {
      if (is_acting) return;
      const client::Pod& pod = now ? *now : *before;
      if (const auto job = followed_job_of(pod)) jobs.note(*job, pod);
    });
    hear(caches.jobs, [this](const auto& before, const auto&) {
      if (!is_acting && before) jobs.follow(before->meta.key());
    });
  }

  // A Project's namespace may pass to or from another Project that claims it too.
  void project_changed(const crds::Project* before, const crds::Project* now) {
    const bool numbers_only = before != nullptr && now != nullptr && before->spec == now->spec &&
                              before->metadata.uid == now->metadata.uid &&
                              before->metadata.deletion_timestamp == now->metadata.deletion_timestamp &&
                              before->status.ns_uid == now->status.ns_uid;
    if (numbers_only) return;
    if (now != nullptr) {
      placement.project(*now);
    } else if (before != nullptr) {
      placement.project_gone(before->metadata.name);
    }
    std::set<std::string> touched;
    for (const auto* p : {before, now}) {
      if (p != nullptr) touched.insert(crds::namespace_of(*p));
    }
    for (const auto& ns : touched) claims_changed(ns);
  }
  // Heard of often (its status, finalizers), asked about seldom.
  void namespace_changed(const reconcilers::Namespace* before, const reconcilers::Namespace* now) {
    const bool same = before != nullptr && now != nullptr && before->labels == now->labels &&
                      before->meta.uid == now->meta.uid && before->terminating == now->terminating;
    if (same) return;
    for (const auto* ns : {before, now}) {
      if (ns != nullptr && !ns->project().empty()) project_runner.add(ns->project());
    }
    claims_changed((now != nullptr ? now : before)->meta.name);
  }
  void claims_changed(const std::string& ns) {
    placement.charge_namespace(ns, reconcilers::owner_of_namespace(caches, ns));
    add_jobs_in(ns);
    const auto claims = caches.projects.store().by_index(reconcilers::kByNamespace, ns);
    for (const auto& p : claims) project_runner.add(p->meta.key());
  }

  void pod_changed(const client::Ptr<client::Pod>& before, const client::Ptr<client::Pod>& now) {
    const auto& pod = now ? *now : *before;
    for (const auto* p : {before.get(), now.get()}) {
      if (p != nullptr) add_gpus(reconcilers::gpus_shared_by(*p));
    }
    if (holder.is_own(pod)) return reservation_changed(pod, !now);
    add_service_of(pod);
    if (const auto job = followed_job_of(pod)) {
      placement.foreign_pod_gone(pod);
      jobs.note(*job, pod);
      job_runner.add(*job);
      return;
    }
    // Not Muster's, or of a job that is gone, goes or cannot be read: it holds what it holds
    // until it is gone.
    if (now)
      placement.foreign_pod(now);
    else
      placement.foreign_pod_gone(*before);
    const auto* label = client::find_value(pod.labels, reconcilers::kJobLabel);
    if (label != nullptr && !now) job_runner.add(client::make_key(pod.meta.ns, *label));  // its name is free
  }

  // The job that the pod is one of; nullopt: none, or one that is gone, goes or cannot be read.
  std::optional<Key> followed_job_of(const client::Pod& pod) const {
    const auto* label = client::find_value(pod.labels, reconcilers::kJobLabel);
    if (label == nullptr) return std::nullopt;
    auto key = client::make_key(pod.meta.ns, *label);
    const auto job = caches.jobs.store().find(key);
    const bool follows = job && job->meta.uid == pod.owner_uid && !job->value.metadata.deletion_timestamp &&
                         !job->status_unreadable;
    return follows ? std::optional(std::move(key)) : std::nullopt;
  }

  void reservation_changed(const client::Pod& pod, bool is_gone) {
    holder.note(pod, is_gone);
    gpu_runner.add(reconcilers::key_of(*reconcilers::reserved_by(pod)));
    if (is_gone)
      placement.foreign_pod_gone(pod);
    else
      placement.reservation_pod(pod);
  }

  void add_gpus(const std::vector<std::string>& keys) {
    for (const auto& key : keys) gpu_runner.add(key);
  }
  void add_service_of(const std::string& ns, const crds::StringMap& labels) {
    const auto found = labels.find(std::string(reconcilers::kServiceLabel));
    if (found != labels.end()) service_runner.add(client::make_key(ns, found->second));
  }
  void add_service_of(const client::Pod& pod) {
    const auto* label = client::find_value(pod.labels, reconcilers::kServiceLabel);
    if (label != nullptr) service_runner.add(client::make_key(pod.meta.ns, *label));
  }

  // Whether a pod there is to be looked at differently.
  static bool is_other_health(const client::Node& a, const client::Node& b) {
    return a.ready != b.ready || a.unschedulable != b.unschedulable || a.deleting != b.deleting ||
           a.taints != b.taints || a.annotations != b.annotations;
  }
  void add_jobs_on(const std::string& node) {
    for (const auto& pod : caches.pods.store().by_index(reconcilers::kByNode, node))
      job_runner.add(
          client::make_key(pod->meta.ns, *client::find_value(pod->labels, reconcilers::kJobLabel)));
  }

  void gpus_changed(const std::string& node) {
    placement.failing_gpus(node, gpus.failing_gpus(node));
    add_jobs_on(node);
  }
  client::Task<reconcilers::Outcome> reconcile_pool(Key key) {
    const auto again = reconcilers::follow_gpus(key, caches, gpus);
    auto outcome = co_await capacity.node_pool(key);
    if (again && !outcome.failed) outcome.no_later_than(*again);
    co_return outcome;
  }

  template <class F>
  void stir(F mark) {
    mark(stirred);
    dirty.notify();
  }
  void add_stirred_jobs() {
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
  void add_jobs_in(const std::string& ns) {
    const auto& all = caches.jobs.store().all();
    for (auto it = all.lower_bound(ns + "/"); it != all.end() && it->second->meta.ns == ns; ++it)
      job_runner.add(it->first);
  }

  // --- the scheduling loop

  client::Task<void> schedule() {
    while (is_acting && !stopping) {
      const client::Wake why = co_await dirty.wait_until(env.clock, next_plan());
      if (why == client::Wake::kCancelled || stopping) break;
      if (why == client::Wake::kNotified) co_await env.clock.sleep_for(kDebounce);
      if (stopping || api.writes_stopped()) break;
      add_stirred_jobs();
      if (why == client::Wake::kTimeout && !plan_is_due()) continue;
      const auto began = std::chrono::steady_clock::now();
      const auto news = placement.plan(world.now());
      metrics.planned(
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began));
      for (const auto& key : news) job_runner.add(key);
      capacity_stale = true;
    }
    schedule_ended = true;
    wake.notify();
  }

  // When to plan though nothing changes; looked at again in a minute at the latest, should the wall clock be
  // set meanwhile.
  client::TimePoint next_plan() const {
    Duration ahead = std::chrono::minutes{1};
    if (const auto wake_at = placement.wake_at())
      ahead = std::clamp(std::chrono::ceil<Duration>(*wake_at - env.clock.wall()), kLeastAhead, ahead);
    return env.clock.now() + ahead;
  }
  bool plan_is_due() const {
    const auto wake_at = placement.wake_at();
    return wake_at && world.now() >= *wake_at;
  }

  // Status numbers of Queues, Projects and NodePools: after the dust has settled, never in the way of pods.
  client::Task<void> refresh_capacity() {
    while (is_acting && !stopping) {
      const bool slept = co_await env.clock.sleep_for(world.status_interval);
      if (!slept || stopping) break;
      if (!capacity_stale) continue;
      capacity_stale = false;
      for (const auto& [key, object] : caches.queues.store().all()) queue_runner.add(key);
      for (const auto& [key, object] : caches.projects.store().all()) project_runner.add(key);
      for (const auto& [key, object] : caches.node_pools.store().all()) pool_runner.add(key);
    }
  }

  // --- leading

  void start_acting() {
    if (is_acting || stopping) return;
    is_acting = true;
    log_info("acting", {{"identity", options.identity}});
    for (const auto& replay : replays) replay();
    stirred = {};  // all jobs stand in the queue
    // A job that was never seen by a handler of ours but whose pods outlived it is covered by pod_changed.
    for (Runner* r : runners())
      r->start(r == &job_runner ? options.workers : r == &gpu_runner ? kReserving : 2);
    spawn(env.executor, schedule());
    spawn(env.executor, refresh_capacity(), &refresh_signal);
    dirty.notify();
  }

  client::Task<void> elect() {
    client::LeaderElectionOptions o;
    o.lease = {options.lease_namespace, options.lease_name};
    o.identity = options.identity;
    client::LeaderElection::Callbacks callbacks;
    callbacks.on_started = [this] {
      metrics.leader(options.lease_name, true);
      start_acting();
    };
    callbacks.on_stopped = [this] {
      metrics.leader(options.lease_name, false);
      api.stop_writes();
    };
    callbacks.on_new_leader = [](const std::string& who) { log_info("leader is", {{"identity", who}}); };
    metrics.leader(options.lease_name, false);
    client::LeaderElection election(lease_api, o, callbacks);
    const bool kept = co_await election.run();
    if (!kept) lost = true;
    election_ended = true;
    wake.notify();
  }

  template <class T>
  void watch(client::Informer<T>& informer) {
    auto& signal = *watch_signals.emplace_back(std::make_unique<boost::asio::cancellation_signal>());
    spawn(env.executor, informer.run(), &signal);
    watched.push_back({informer.watcher(), [&informer] { return informer.store().synced(); }});
  }

  void start_watches() {
    watch(caches.nodes);
    watch(caches.pods);
    watch(caches.queues);
    watch(caches.projects);
    watch(caches.node_pools);
    watch(caches.jobs);
    watch(caches.services);
    watch(caches.priority_classes);
    watch(caches.claims);
    watch(caches.volumes);
    watch(caches.storage_classes);
    watch(caches.namespaces);
    watch(caches.service_accounts);
    watch(caches.role_bindings);
    watch(caches.network_policies);
  }

  client::Task<void> record_events() {
    co_await recorder.run();
    recorder_ended = true;
  }

  client::Task<Ended> run() {
    start_watches();
    spawn(env.executor, record_events(), &recorder_signal);
    while (!caches.synced() && !stopping) {
      const bool waited = co_await wake.wait();
      if (!waited) break;
    }
    if (!stopping) {
      log_info("caches are synced", {{"pods", std::to_string(caches.pods.store().size())},
                                     {"nodes", std::to_string(caches.nodes.store().size())}});
      if (options.leader_elect) {
        spawn(env.executor, elect(), &election_signal);
      } else {
        election_ended = true;
        start_acting();
      }
    }
    while (!stopping && !lost) {
      const bool waited = co_await wake.wait();
      if (!waited) break;
    }
    co_await wind_down();
    co_return lost ? Ended::kLostLease : Ended::kAsked;
  }

  // No new work; what is under way ends or is let go at the deadline; then the events are sent; the lease
  // goes last.
  client::Task<void> wind_down() {
    stopping = true;
    log_info("stopping", {});
    for (Runner* r : runners()) r->stop();
    services.stop();
    gpus.stop();
    dirty.notify();
    refresh_signal.emit(boost::asio::cancellation_type::terminal);
    const auto began = env.clock.now();
    while (env.clock.now() < began + kStopDeadline) {
      bool idle = services.idle() && gpus.idle();
      for (Runner* r : runners()) idle = idle && r->idle();
      if (idle && (!is_acting || schedule_ended)) break;
      co_await env.clock.sleep_for(milliseconds{20});
    }
    recorder_signal.emit(boost::asio::cancellation_type::terminal);
    while (!recorder_ended && env.clock.now() < began + kEventsDeadline)
      co_await env.clock.sleep_for(milliseconds{20});
    api.stop_writes();
    if (!election_ended && options.leader_elect) {
      election_signal.emit(boost::asio::cancellation_type::terminal);
      while (!election_ended && env.clock.now() < began + kLeaseDeadline)
        co_await env.clock.sleep_for(milliseconds{20});
    }
    for (auto& signal : watch_signals) signal->emit(boost::asio::cancellation_type::terminal);
    co_await env.clock.sleep_for(milliseconds{20});
  }

  client::Environment env;
  Options options;
  Metrics& metrics;
  client::ApiClient api;
  client::ApiClient lease_api;  // renewals do not queue behind pods
  client::EventRecorder recorder;
  reconcilers::Caches caches;
  reconcilers::PlacementModel placement;
  reconcilers::World world;
  reconcilers::GpuMonitor gpus;
  reconcilers::GpuHolder holder;
  reconcilers::TrainingJobReconciler jobs;
  reconcilers::CapacityReconciler capacity;
  reconcilers::ProjectReconciler projects;
  reconcilers::InferenceServiceReconciler services;
  client::Waiter dirty;  // placement's inputs changed
  client::Waiter wake;   // run() has something to look at
  Runner job_runner, queue_runner, project_runner, pool_runner, service_runner, gpu_runner;
  // What changed that any job may mention: it comes in swarms, a thousand claims bound at once, and who is
  // concerned is looked up once for all that came together.
  struct Stirred {
    std::set<std::string> claims_in;  // namespaces
    bool volumes = false;             // or storage classes
    bool classes = false;             // PriorityClasses
    bool operator==(const Stirred&) const = default;
  };
  Stirred stirred;
  struct Watched {
    const client::Watcher& watcher;
    std::function<bool()> synced;
  };
  std::vector<Watched> watched;
  std::vector<std::function<void()>> replays;
  std::vector<std::unique_ptr<boost::asio::cancellation_signal>> watch_signals;
  boost::asio::cancellation_signal recorder_signal, election_signal, refresh_signal;
  bool is_acting = false, stopping = false, lost = false;
  bool election_ended = false, schedule_ended = false, recorder_ended = false, capacity_stale = true;
};

Controller::Controller(client::Environment env, client::Transport& transport, client::Transport& pods,
                       const Options& options, Metrics& metrics)
    : impl_(std::make_unique<Impl>(env, transport, pods, options, metrics)) {}
Controller::~Controller() = default;

client::Task<Ended> Controller::run() {
  return impl_->run();
}
void Controller::request_stop() {
  impl_->stopping = true;
  impl_->wake.notify();
}
bool Controller::synced() const {
  return impl_->caches.synced();
}
std::string Controller::unsynced() const {
  std::string lines;
  for (const auto& [watcher, synced] : impl_->watched) {
    if (synced()) continue;
    const auto& error = watcher.last_error();
    lines += watcher.resource().plural + ": " + (error ? client::to_string(*error) : "no error") + "\n";
  }
  return lines;
}
bool Controller::acting() const {
  return impl_->is_acting && !impl_->stopping;
}

void Controller::sample_metrics() {
  auto& m = impl_->metrics;
  for (Runner* r : impl_->runners()) r->sample();
  const auto cache = [&m](const char* name, const auto& informer) {
    m.cached_objects(name, informer.store().size());
    m.decode_errors(name, static_cast<double>(informer.decode_errors()));
    m.watch_event_total(name, static_cast<double>(informer.watcher().stats().events));
    m.watch_restarts(name, static_cast<double>(informer.watcher().stats().watches));
  };
  cache("pods", impl_->caches.pods);
  cache("nodes", impl_->caches.nodes);
  cache("queues", impl_->caches.queues);
  cache("projects", impl_->caches.projects);
  cache("nodepools", impl_->caches.node_pools);
  cache("trainingjobs", impl_->caches.jobs);
  cache("inferenceservices", impl_->caches.services);
  for (const auto& [watcher, synced] : impl_->watched)
    m.watch_errors(watcher.resource().plural, static_cast<double>(watcher.stats().errors));
  std::map<std::string_view, int> phases;
  for (const auto name : names_of(crds::Phase{})) phases[name] = 0;
  for (const auto& [key, job] : impl_->caches.jobs.store().all()) {
    if (job->value.status.phase) ++phases[crds::to_string(*job->value.status.phase)];
  }
  for (const auto& [phase, n] : phases) m.jobs(phase, n);
  const auto& t = impl_->world.totals;
  m.pods_created(static_cast<double>(t.pods_created));
  m.pods_deleted(static_cast<double>(t.pods_deleted));
  m.decisions("start", static_cast<double>(t.starts));
  m.decisions("evict", static_cast<double>(t.evictions));
  m.decisions("reclaim", static_cast<double>(t.reclaims));
  m.decisions("preempt", static_cast<double>(t.preemptions));
  m.decisions("move", static_cast<double>(t.moves));
  m.decisions("replace", static_cast<double>(t.replacements));
  m.decisions("shrink", static_cast<double>(t.shrinks));
  m.decisions("grow", static_cast<double>(t.grows));
  m.endpoint_reads("gpus", static_cast<double>(impl_->gpus.counts().read),
                   static_cast<double>(impl_->gpus.counts().failed));
  m.endpoint_reads("replicas", static_cast<double>(impl_->services.counts().read),
                   static_cast<double>(impl_->services.counts().failed));
  m.events_dropped(static_cast<double>(impl_->recorder.dropped()));
  m.sample_process();
}

}  // namespace muster::controller
