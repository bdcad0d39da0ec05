#include "controller.h"

#include <algorithm>
#include <array>
#include <map>
#include <type_traits>

#include "controller_impl.h"
#include "muster/client/leader_election.h"
#include "muster/reconcilers/common/internal_error.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/usage/past_use.h"
#include "process/sharing_metrics.h"

namespace muster::controller {
namespace {

using client::Duration;
using client::Key;
using reconcilers::log_info;
using reconcilers::log_warn;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Holder pods that are made or deleted at once.
constexpr int kHolderPodWorkers = 16;
// Changes that come together are planned together.
constexpr Duration kDebounce = milliseconds{4};
// The event loop stands still while a plan is made, and a lease must be renewed every few seconds. A plan
// that takes longer than this is logged, and everything else has so much time before the next one.
constexpr Duration kLongPlan = seconds{1};
// So long at least from one plan to the next that only time has made necessary.
constexpr Duration kMinAhead = milliseconds{100};
// Of the 30 s that a stop may take: for reconciles under way, then for events not yet sent, then
// for the lease.
constexpr Duration kStopDeadline = seconds{24};
constexpr Duration kEventsDeadline = kStopDeadline + seconds{3};
constexpr Duration kLeaseDeadline = kEventsDeadline + milliseconds{2500};
// A pod whose request got no answer may come to be for so long.
constexpr Duration kMayArrive = seconds{15};

client::ApiOptions api_options(const Options& o) {
  client::ApiOptions a;
  a.max_in_flight = o.max_in_flight;
  a.user_agent = "muster/" MUSTER_VERSION;
  return a;
}

client::ApiOptions lease_options(const Options& o) {
  auto a = api_options(o);
  a.timeout = seconds{5};  // a renewal that takes longer is a failed one
  a.max_repeats = 0;       // the election has its own
  return a;
}

reconcilers::GpuHolders::Options holder_options(const Options& o) {
  return {.pods = {.ns = o.reservation_namespace, .image = o.reservation_image, .pull_secrets = {}},
          .own_pod = o.own_pod,
          .fallback_image = "muster:" MUSTER_VERSION};
}

reconcilers::ActivatorOptions activator_options(const Options& o) {
  return {o.activator_admin_port, o.activator_first_port, o.activator_last_port};
}

template <class T>
Runner::Exists cached_in(const client::Informer<T>& informer) {
  return [&informer](const Key& key) { return informer.store().find(key) != nullptr; };
}

}  // namespace

Controller::Impl::Impl(client::Environment e, client::Transport& transport, client::Transport& pods,
                       const Options& o, Metrics& m)
    : env(e),
      options(o),
      metrics(m),
      api(e, transport, api_options(o)),
      lease_api(e, transport, lease_options(o)),
      recorder(api, "muster.dev/controller", o.identity),
      caches(api),
      topologies(api, reconcilers::kNodeTopologies, reconcilers::decode_node_topology),
      placement([this] { dirty.notify(); }),
      ledger(caches.queues.store(), caches.projects.store(), caches.node_pools.store()),
      context{e, api, recorder, caches, placement, seconds{o.status_interval}},
      gpus(e, pods,
           {.job = [this](const Key& key) { job_runner.add(key); },
            .node = [this](const std::string& node) { gpus_changed(node); },
            .pool =
                [this](const std::string& pool) {
                  jobs.note_reading(pool);
                  for (const Key& key : jobs.relieve(pool)) job_runner.add(key);
                  pool_runner.add(pool);
                }}),
      sessions(e, pods, [this](const Key& key) { job_runner.add(key); }),
      holder(context, holder_options(o), [this](const Key& key) { job_runner.add(key); }),
      jobs(context),
      capacity(context),
      projects(context, capacity),
      disruptions(context),
      services(
          context, pods, [this](const Key& key) { service_runner.add(key); }, activator_options(o)),
      dirty(e.executor),
      wake(e.executor),
      job_runner(e, m, "trainingjob",
                 probed("trainingjob", [this](Key key) { return jobs.reconcile(std::move(key)); }),
                 cached_in(caches.jobs), say_on(caches.jobs)),
      queue_runner(e, m, "queue", probed("queue", [this](Key key) { return capacity.queue(std::move(key)); }),
                   cached_in(caches.queues), say_on(caches.queues)),
      project_runner(e, m, "project",
                     probed("project", [this](Key key) { return projects.reconcile(std::move(key)); }),
                     cached_in(caches.projects), say_on(caches.projects)),
      pool_runner(e, m, "nodepool",
                  probed("nodepool", [this](Key key) { return reconcile_pool(std::move(key)); }),
                  cached_in(caches.node_pools), say_on(caches.node_pools)),
      service_runner(
          e, m, "inferenceservice",
          probed("inferenceservice", [this](Key key) { return services.reconcile(std::move(key)); }),
          cached_in(caches.services), say_on(caches.services)),
      gpu_runner(
          e, m, "gpu", [this](Key key) { return holder.reconcile(std::move(key)); },
          [](const Key&) { return true; }),
      watching(e.executor),
      recording(e.executor),
      electing(e.executor),
      watching_topologies(e.executor),
      planning(e.executor),
      reconciling(e.executor) {
  context.node_grace = seconds{o.node_grace};
  context.own_namespace = o.lease_namespace;
  context.gpu_monitor = &gpus;
  context.activity_monitor = &sessions;
  context.gpu_holders = &holder;
  if (o.ledger) context.ledger = &ledger;
  placement.ask_usual_run_times([this](const auto& project, const auto& user, crds::MilliGpu size) {
    return ledger.usual_run_time(project, user, size);
  });
  context.on_step = [this](const crds::TrainingJob& before, const reconcilers::Step& step) {
    job_counts.count(placement.project_of(before.metadata.ns), before, step);
  };
  observe(api);
  observe(lease_api);
  listen();
  listen_while_waiting();
}

void Controller::Impl::observe(client::ApiClient& a) {
  a.set_observer([this](std::string_view verb, const client::Resource& r, int status, Duration took) {
    metrics.request(verb, r.plural, status, took);
    // Gateways answer 503 after the server has acted, too.
    const bool may_be_made = status == 0 || status >= 500;
    if (verb == "POST" && r.plural == "pods" && may_be_made) unanswered = env.clock.now();
  });
}

Runner::Reconcile Controller::Impl::probed(std::string controller, Runner::Reconcile reconcile) {
  return [this, controller = std::move(controller), reconcile = std::move(reconcile)](Key key) {
    if (probe) probe(controller, key);
    return reconcile(std::move(key));
  };
}

template <class Kind>
Runner::SayThrown Controller::Impl::say_on(client::Informer<reconcilers::Object<Kind>>& informer) {
  return [this, &store = informer.store()](Key key, std::string thrown) {
    return say_thrown<Kind>(store, std::move(key), std::move(thrown));
  };
}

template <class Kind>
client::Task<void> Controller::Impl::say_thrown(reconcilers::ObjectStore<Kind>& store, Key key,
                                                std::string thrown) {
  if constexpr (std::is_same_v<Kind, crds::TrainingJob>) {
    if (!thrown.empty()) jobs.set_aside(key);
  }
  const auto said =
      co_await reconcilers::say_internal_error(api, store, key, context.now(), std::move(thrown));
  if (!said) log_warn("status not written", {{"object", key}, {"error", client::to_string(said.error())}});
}

std::array<Runner*, 6> Controller::Impl::runners() {
  return {&job_runner, &queue_runner, &project_runner, &pool_runner, &service_runner, &gpu_runner};
}

// --- the scheduling loop

client::Task<void> Controller::Impl::schedule() {
  while (is_acting && !stopping) {
    const client::Wake why = co_await dirty.wait_until(env.clock, next_plan());
    if (why == client::Wake::kCancelled || stopping) break;
    if (why == client::Wake::kNotified || plan_was_long)
      co_await env.clock.sleep_for(plan_was_long ? kLongPlan : kDebounce);
    if (stopping) break;
    add_stirred_jobs();
    if (why == client::Wake::kTimeout && !plan_is_due()) continue;
    plan();
  }
}

void Controller::Impl::plan() {
  const auto began = std::chrono::steady_clock::now();
  const auto news = placement.plan(context.now());
  const auto took =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began);
  const bool is_cut_off = placement.plan_was_cut_off();
  metrics.planned(took, is_cut_off);
  plan_was_long = took > kLongPlan;
  if (plan_was_long) {
    log_warn("a plan took long; nothing else ran meanwhile",
             {{"milliseconds", std::to_string(took.count() / 1000)},
              {"jobs", std::to_string(caches.jobs.store().size())},
              {"decisions", std::to_string(news.size())}});
  }
  if (is_cut_off) log_warn("a plan reached its bound on work or rounds; the next one goes on", {});
  for (const auto& thrown : placement.thrown()) {
    // A job that runs is looked after as before: it only does not grow.
    if (!thrown.waits) {
      metrics.panicked("plan");
      reconcilers::log_error("a plan threw; the job does not grow",
                             {{"job", thrown.job}, {"error", thrown.what}});
      continue;
    }
    job_runner.threw(thrown.job, thrown.what);
  }
  for (const auto& key : news) job_runner.add(key);
  capacity_stale = true;
}

client::TimePoint Controller::Impl::next_plan() const {
  Duration ahead = std::chrono::minutes{1};
  if (const auto wake_at = placement.wake_at())
    ahead = std::clamp(std::chrono::ceil<Duration>(*wake_at - env.clock.wall()), kMinAhead, ahead);
  return env.clock.now() + ahead;
}

bool Controller::Impl::plan_is_due() const {
  const auto wake_at = placement.wake_at();
  return wake_at && context.now() >= *wake_at;
}

client::Task<void> Controller::Impl::refresh_capacity() {
  while (is_acting && !stopping) {
    const bool slept = co_await env.clock.sleep_for(context.status_interval);
    if (!slept || stopping) break;
    if (!capacity_stale) continue;
    capacity_stale = false;
    for (const auto& [key, object] : caches.queues.store().all()) queue_runner.add(key);
    for (const auto& [key, object] : caches.projects.store().all()) project_runner.add(key);
    for (const auto& [key, object] : caches.node_pools.store().all()) pool_runner.add(key);
  }
}

client::Task<void> Controller::Impl::keep_disruptions() {
  while (is_acting && !stopping) {
    co_await disruptions.keep();
    if (!co_await env.clock.sleep_for(context.status_interval)) break;
  }
}

// --- leading

void Controller::Impl::start_acting() {
  if (is_acting || stopping) return;
  is_acting = true;
  log_info("acting", {{"identity", options.identity}});
  for (const auto& replay : replays) replay();
  restore_past_use();
  stirred = {};  // all jobs stand in the queue
  // A job that was never seen by a handler of ours but whose pods outlived it is covered by pod_changed.
  for (Runner* r : runners())
    r->start(reconciling, r == &job_runner ? options.workers : r == &gpu_runner ? kHolderPodWorkers : 2);
  planning.spawn(schedule());
  planning.spawn(refresh_capacity());
  if (options.ledger) planning.spawn(keep_disruptions());
  dirty.notify();
}

void Controller::Impl::restore_past_use() {
  const std::string main = reconcilers::default_pool(caches.node_pools.store());
  const auto restore = [&](const auto& child, const std::string& parent, bool is_project) {
    const auto above = caches.queues.store().find(parent);
    if (!above || !above->value.spec.fairness) return;
    const auto past = reconcilers::past_use_of(child.metadata.name, is_project, child.status.usage,
                                               above->value.spec.fairness->half_life, main);
    for (const auto& p : past) placement.past_use(p);
  };
  for (const auto& [name, queue] : caches.queues.store().all())
    restore(queue->value, queue->value.spec.parent, false);
  for (const auto& [name, project] : caches.projects.store().all())
    restore(project->value, project->value.spec.queue, true);
}

client::Task<void> Controller::Impl::elect() {
  client::LeaderElectionOptions o;
  o.lease = {options.lease_namespace, options.lease_name};
  o.identity = options.identity;
  client::LeaderElection::Callbacks callbacks;
  callbacks.on_started = [this] {
    metrics.leader(options.lease_name, true);
    start_acting();
  };
  callbacks.on_renewed = [this](client::TimePoint deadline) { api.set_write_deadline(deadline); };
  callbacks.on_stopped = [this] {
    metrics.leader(options.lease_name, false);
    api.stop_writes();
  };
  callbacks.may_release = [this] { return may_release_lease(); };
  callbacks.on_new_leader = [](const std::string& who) { log_info("leader is", {{"identity", who}}); };
  metrics.leader(options.lease_name, false);
  client::LeaderElection election(lease_api, o, callbacks);
  if (!co_await election.run()) lost = true;
  wake.notify();
}

template <class T>
void Controller::Impl::watch(client::Informer<T>& informer) {
  watching.spawn(informer.run());
  watched.push_back({.watcher = informer.watcher(),
                     .synced = [&informer] { return informer.store().synced(); },
                     .size = [&informer] { return informer.store().size(); },
                     .decode_errors = [&informer] { return informer.decode_errors(); }});
}

void Controller::Impl::start_watches() {
  watch(caches.nodes);
  watch(caches.pods);
  watch(caches.queues);
  watch(caches.projects);
  watch(caches.node_pools);
  watch(caches.jobs);
  watch(caches.services);
  watch(caches.priority_classes);
  watch(caches.runtime_classes);
  watch(caches.claims);
  watch(caches.volumes);
  watch(caches.storage_classes);
  watch(caches.namespaces);
  watch(caches.service_accounts);
  watch(caches.role_bindings);
  watch(caches.network_policies);
}

client::Task<Ended> Controller::Impl::run() {
  start_watches();
  watching.spawn(follow_topologies());
  recording.spawn(recorder.run());
  while (!caches.synced() && !stopping) {
    if (!co_await wake.wait()) break;
  }
  if (!stopping) {
    log_info("caches are synced", {{"pods", std::to_string(caches.pods.store().size())},
                                   {"nodes", std::to_string(caches.nodes.store().size())}});
    if (options.leader_elect) {
      electing.spawn(elect());
    } else {
      start_acting();
    }
  }
  while (!stopping && !lost) {
    if (!co_await wake.wait()) break;
  }
  co_await wind_down();
  co_return lost ? Ended::kLostLease : Ended::kAsked;
}

client::Task<void> Controller::Impl::wind_down() {
  stopping = true;
  log_info("stopping", {});
  for (Runner* r : runners()) r->stop();
  services.stop();
  gpus.stop();
  sessions.stop();
  planning.cancel();
  const auto began = env.clock.now();
  for (client::TaskGroup* work : {&planning, &reconciling, &services.readings(), &services.canary_readings(),
                                  &services.activators().questions(), &gpus.readings(), &sessions.readings()})
    co_await end_by(*work, began + kStopDeadline);
  recording.cancel();  // it sends what it has
  co_await end_by(recording, began + kEventsDeadline);
  api.stop_writes();
  electing.cancel();  // it gives the lease back
  co_await end_by(electing, began + kLeaseDeadline);
  watching.cancel();
  co_await watching.join();
  watching_topologies.cancel();
  co_await watching_topologies.join();
}

bool Controller::Impl::may_release_lease() const {
  if (!unanswered || env.clock.now() - *unanswered >= kMayArrive) return true;
  log_info("the lease is kept until it ends: a pod may still be made", {});
  return false;
}

client::Task<void> Controller::Impl::end_by(client::TaskGroup& group, client::TimePoint when) {
  if (co_await group.join_until(env.clock, when)) co_return;
  group.cancel();
  co_await group.join();
}

Controller::Controller(client::Environment env, client::Transport& transport, client::Transport& pods,
                       const Options& options, Metrics& metrics)
    : impl_(std::make_unique<Impl>(env, transport, pods, options, metrics)) {}
Controller::~Controller() = default;

client::Task<Ended> Controller::run() {
  return impl_->run();
}
void Controller::set_probe(Probe probe) {
  impl_->probe = std::move(probe);
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
  for (const auto& watched : impl_->watched) {
    if (watched.synced()) continue;
    const auto& error = watched.watcher.last_error();
    lines +=
        watched.watcher.resource().plural + ": " + (error ? client::to_string(*error) : "no error") + "\n";
  }
  return lines;
}
bool Controller::acting() const {
  return impl_->is_acting && !impl_->stopping;
}

void Controller::sample_metrics() {
  auto& m = impl_->metrics;
  for (Runner* r : impl_->runners()) r->sample();
  for (const auto& watched : impl_->watched) {
    const std::string& resource = watched.watcher.resource().plural;
    const client::WatcherStats& stats = watched.watcher.stats();
    m.cached_objects(resource, watched.size());
    m.decode_errors(resource, static_cast<double>(watched.decode_errors()));
    m.watch_event_total(resource, static_cast<double>(stats.events));
    m.watch_restarts(resource, static_cast<double>(stats.watches));
    m.watch_errors(resource, static_cast<double>(stats.errors));
  }
  std::map<std::string_view, int> phases;
  for (const auto name : names_of(crds::Phase{})) phases[name] = 0;
  for (const auto& [key, job] : impl_->caches.jobs.store().all()) {
    if (job->value.status.phase && !job->value.spec.array)
      ++phases[crds::to_string(*job->value.status.phase)];
  }
  for (const auto& [phase, n] : phases) m.jobs(phase, n);
  const auto& t = impl_->context.totals;
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
  m.endpoint_reads("sessions", static_cast<double>(impl_->sessions.counts().read),
                   static_cast<double>(impl_->sessions.counts().failed));
  m.events_dropped(static_cast<double>(impl_->recorder.dropped()));
  m.sample_process();
  m.sampled(acting() ? impl_->sample_sharing() : std::vector<prometheus::MetricFamily>{});
}

std::vector<prometheus::MetricFamily> Controller::Impl::sample_sharing() {
  auto families = sharing_metrics(caches, placement, context.now());
  job_counts.match(caches);
  job_counts.append_to(families);
  append_usage(ledger, context.now(), families);
  return families;
}

}  // namespace muster::controller
