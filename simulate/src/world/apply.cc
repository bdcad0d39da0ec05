// The input, applied: objects into the cluster.
#include <algorithm>
#include <map>

#include "muster/reconcilers/placement/placement_specs.h"
#include "world/world.h"

namespace muster::simulate {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

const std::map<std::string, PriorityClass>& shipped_priority_classes() {
  static const auto& kShipped = *new std::map<std::string, PriorityClass>{
      {"inference", {"inference", 125, false}},
      {"interactive", {"interactive", 100, false}},
      {"interactive-preemptible", {"interactive-preemptible", 75, false}},
      {"training", {"training", 50, false}}};
  return kShipped;
}

World::World(const Input& input, const Options& options)
    : input_(input),
      options_(options),
      other_pods_(cluster, [] {}),
      placed_(cluster, other_pods_, [] {},
              {.instant_is_unknown = true,
               .complete =
                   [this](const client::Key& id, pl::JobSpec& spec) {
                     spec.id = id;  // a replica's object has another name
                     spec.submitted = gangs_.at(id)->submitted;
                   },
               .usual_run_times = [this](const std::string& project, const std::string& user,
                                         crds::MilliGpu gpus) -> std::optional<reconcilers::UsualRunTime> {
                 const auto found = projects.find(project);
                 if (found == projects.end()) return std::nullopt;
                 return reconcilers::usual_run_time(found->second->status.run_times, user, gpus);
               }}),
      priorities_(shipped_priority_classes()) {
  if (options_.prepare != nullptr) options_.prepare(cluster);
  default_pool_.metadata.name = "default";
  bool has_pool = false;
  for (std::size_t i = 0; i < input_.changes.size(); ++i) {
    const Change& c = input_.changes[i];
    has_pool = has_pool || std::holds_alternative<crds::NodePool>(*c.object);
    agenda_add(to_time(c.at), Due::kInput, nullptr, i, 0);
    last_stated_ = std::max(last_stated_, to_time(c.at));
  }
  for (const auto& x : input_.expectations) last_stated_ = std::max(last_stated_, to_time(x.at));
  for (std::size_t i = 0; i < input_.expectations.size(); ++i)
    agenda_add(to_time(input_.expectations[i].at), Due::kExpectation, nullptr, i, 0);
  if (!has_pool) add_pool(default_pool_);

  // Placement breaks ties of age by name; here they go by the order of the files. Instants are whole seconds,
  // so the milliseconds below are free to say which of one second comes first.
  std::map<std::int64_t, std::vector<std::size_t>> by_second;
  submissions_.resize(input_.changes.size());
  for (std::size_t i = 0; i < input_.changes.size(); ++i) {
    const Change& c = input_.changes[i];
    const auto* job = std::get_if<JobObject>(&*c.object);
    const auto* service = std::get_if<ServiceObject>(&*c.object);
    if (job == nullptr && service == nullptr) continue;
    const auto age = job != nullptr ? job->behaviour.age : service->behaviour.age;
    by_second[(c.at - age).count()].push_back(i);
  }
  for (const auto& [second, changes] : by_second) {
    for (std::size_t rank = 0; rank < changes.size(); ++rank) {
      const auto behind = static_cast<std::int64_t>(changes.size() - 1 - rank);
      submissions_[changes[rank]] =
          to_time(Instant{second}) - pl::Duration{std::min<std::int64_t>(behind, 999)};
    }
  }
}

pl::Time World::submission(std::size_t change) const {
  return submissions_[change];
}

// All objects of one instant: first what workloads stand on.
void World::apply(const std::vector<std::size_t>& changes) {
  const auto is_workload = [&](std::size_t i) {
    const Object& o = *input_.changes[i].object;
    return std::holds_alternative<JobObject>(o) || std::holds_alternative<ServiceObject>(o);
  };
  for (const std::size_t i : changes) {
    if (!is_workload(i)) apply_base(input_.changes[i]);
  }
  // All that is stated is there before the first of it is looked at: of two jobs that state one GPU the
  // second is told so, whatever becomes of the first.
  std::vector<Gang*> stated;
  for (const std::size_t i : changes) {
    Gang* const g = is_workload(i) ? apply_workload(i) : nullptr;
    if (g != nullptr) stated.push_back(g);
  }
  for (Gang* g : stated) {
    if (g->owner->deleted) continue;
    refresh(*g);
    if (g->state == Gang::State::kRunning) schedule_end(*g);
    look_at_dependents(*g->owner);
  }
  changed_ = true;
}

void World::apply_node(const NodeObject& o, bool remove) {
  const std::string& name = o.node.meta.name;
  if (remove) return node_gone(name);
  NodeState& state = nodes[name];
  const bool is_new = state.object == nullptr;
  state.object = &o;
  if (is_new && !o.node.ready) state.failed = true;
  if (!is_new && o.node.ready && state.failed) {
    node_recovers(name);
  } else if (!is_new && !o.node.ready && !state.failed) {
    node_fails(name);
  }
  put_node(name);
  if (o.fail_at) agenda_add(std::max(to_time(*o.fail_at), now), Due::kNodeFails, nullptr, 0, 0, name);
  if (o.recover_at)
    agenda_add(std::max(to_time(*o.recover_at), now), Due::kNodeRecovers, nullptr, 0, 0, name);
}

void World::apply_base(const Change& change) {
  const bool remove = change.remove;
  const auto created = [&] {
    const auto order = static_cast<std::int64_t>(created_.size());
    return created_.emplace(change.key, to_time(change.at) + pl::Duration{std::min<std::int64_t>(order, 999)})
        .first->second;
  };
  std::visit(Overloaded{
                 [&](const NodeObject& o) { apply_node(o, remove); },
                 [&](const reconcilers::NodeTopology& o) {
                   if (remove) {
                     topologies_.erase(o.meta.name);
                   } else {
                     topologies_[o.meta.name] = &o;
                   }
                   if (nodes.contains(o.meta.name)) put_node(o.meta.name);
                 },
                 [&](const NodeDevices& o) {
                   if (remove) {
                     devices_[o.node].erase(o.slice);
                   } else {
                     devices_[o.node][o.slice] = &o;
                   }
                   if (nodes.contains(o.node)) put_node(o.node);
                 },
                 [&](const PriorityClass& o) {
                   if (remove) {
                     priorities_.erase(o.name);
                   } else {
                     priorities_[o.name] = o;
                   }
                   refresh_all(nullptr);
                 },
                 [&](const crds::NodePool& o) {
                   capacity_stale_ = true;
                   if (!remove) return add_pool(o);
                   pools_.erase(o.metadata.name);
                   reading_intervals_.erase(o.metadata.name);
                   cluster.remove_pool(o.metadata.name);
                   upsert_all_nodes();
                   refresh_under_policies();
                 },
                 [&](const crds::Queue& o) {
                   if (remove) {
                     queues.erase(o.metadata.name);
                     scheduled_.forget(o.metadata.name, false);
                     return cluster.remove_queue(o.metadata.name, false);
                   }
                   queues[o.metadata.name] = &o;
                   upsert_queue(scheduled_.take(o, wall()), created());
                 },
                 [&](const crds::Project& o) {
                   if (remove) {
                     projects.erase(o.metadata.name);
                     project_age_.erase(o.metadata.name);
                     scheduled_.forget(o.metadata.name, true);
                     cluster.remove_queue(o.metadata.name, true);
                     return own_namespaces();
                   }
                   projects[o.metadata.name] = &o;
                   project_age_.emplace(o.metadata.name, project_age_.size());
                   upsert_queue(scheduled_.take(o, wall()), created());
                   own_namespaces();
                   const std::string ns = crds::namespace_of(o);
                   if (project_of(ns) == o.metadata.name) refresh_all(&ns);  // its policy may be another
                 },
                 [&](const PodObject& o) {
                   if (remove) return other_pods_.give_back(o.pod.meta.key());
                   other_pods_.charge(std::make_shared<const client::Pod>(o.pod), "", true);
                 },
                 [](const auto&) {},
             },
             *change.object);
}

void World::add_pool(const crds::NodePool& pool) {
  pools_[pool.metadata.name] = reconcilers::pool_spec(pool);
  if (pool.spec.gpu_metrics) {
    reading_intervals_[pool.metadata.name] = reconcilers::to_duration(pool.spec.gpu_metrics->interval);
  } else {
    reading_intervals_.erase(pool.metadata.name);
  }
  cluster.upsert_pool(pools_.at(pool.metadata.name));
  upsert_all_nodes();
  refresh_under_policies();
}

// What counts as a GPU depends on the pools.
void World::upsert_all_nodes() {
  std::set<std::string> resources;
  for (const auto& [name, pool] : pools_) resources.insert(pool.gpu_resource);
  other_pods_.count_as_gpus(std::move(resources));
  for (const auto& [name, state] : nodes) put_node(name);
}

// Of several Projects that claim one namespace the one stated first has it.
void World::own_namespaces() {
  std::map<std::string, std::string> owners;
  for (const auto& [name, project] : projects) {
    auto& owner = owners[crds::namespace_of(*project)];
    if (owner.empty() || project_age_.at(name) < project_age_.at(owner)) owner = name;
  }
  std::set<std::string> touched;
  for (const auto& [ns, owner] : owners) {
    const auto was = owner_of_.find(ns);
    if (was == owner_of_.end() || was->second != owner) touched.insert(ns);
  }
  for (const auto& [ns, owner] : owner_of_) {
    if (!owners.contains(ns)) touched.insert(ns);
  }
  owner_of_ = std::move(owners);
  for (const std::string& ns : touched) placed_.charge_namespace(ns, project_of(ns));
  if (workloads_.empty()) return;
  for (const std::string& ns : touched) refresh_all(&ns);
}

std::string World::project_of(const std::string& ns) const {
  const auto found = owner_of_.find(ns);
  return found == owner_of_.end() ? std::string() : found->second;
}

// --- workloads

// The gang that is to be looked at for it; nullptr: none.
Gang* World::apply_workload(std::size_t index) {
  const Change& change = input_.changes[index];
  if (change.remove) {  // each statement of it may say so
    if (const auto found = workloads_.find(change.key); found != workloads_.end())
      remove_workload(*found->second);
    return nullptr;
  }
  Gang* const g = state_workload(change, submission(index));
  const auto& w = *workloads_.at(change.key);
  for (const Instant at : w.behaviour().program_fails_at) {
    if (to_time(at) >= now) agenda_add(to_time(at), Due::kProgramFails, nullptr, index, 0);
  }
  return g;
}

// The same of a statement that says that it is there.
Gang* World::state_workload(const Change& change, pl::Time asked) {
  auto& slot = workloads_[change.key];
  const bool is_new = slot == nullptr;
  if (is_new) {
    slot = std::make_unique<Workload>();
    slot->is_service = std::holds_alternative<ServiceObject>(*change.object);
  }
  Workload& w = *slot;
  w.source = &change;
  const auto& meta = w.is_service ? w.service().service.metadata : w.job().job.metadata;
  w.ns = meta.ns.empty() ? "default" : meta.ns;
  w.name = meta.name;
  w.key = client::make_key(w.ns, w.name);
  w.invalid = w.is_service ? w.service().invalid : w.job().invalid;
  w.asked = asked;
  if (is_new) w.submitted = w.asked;
  if (w.is_service) {
    if (is_new) {
      w.status.desired_replicas = w.service().service.status.desired_replicas;
      w.status.observed_generation = w.service().service.status.observed_generation;
    }
    ++w.generation;
    to_serve_.insert(change.key);
    return nullptr;
  }
  if (w.is_array()) {
    ++w.generation;
    to_serve_.insert(change.key);
    for (const auto& [key, other] : workloads_) {
      if (is_new && !other->is_service) join_array(*other);
    }
    follow_statement(w);
    jobs_by_key_[w.key] = &w;
    if (!w.job().job.spec.depends_on.empty()) depending_[w.key] = &w;
    look_at_dependents(w);
    return nullptr;
  }
  if (is_new) join_array(w);
  if (is_new) {
    auto g = std::make_unique<Gang>();
    g->owner = &w;
    g->id = w.key;
    g->submitted = g->asked = w.asked;
    g->job.status.met_dependencies = w.job().job.status.met_dependencies;
    w.gangs.push_back(std::move(g));
    jobs_by_key_[w.key] = &w;
    ++jobs_;
  }
  Gang& g = *w.gangs.front();
  if (w.finished) return nullptr;
  ++g.job.metadata.generation;
  const auto& spec = w.job().job.spec;
  if (!spec.depends_on.empty()) depending_[w.key] = &w;
  const auto& runs_for = w.behaviour().runs_for;
  std::int32_t most = 0;
  for (const auto& role : spec.roles) most += crds::most_replicas(role);
  const auto interval = spec.checkpoint ? spec.checkpoint->interval : std::nullopt;
  const auto as_duration = [](const std::optional<crds::Duration>& d) {
    return d ? std::optional(reconcilers::to_duration(*d)) : std::nullopt;
  };
  g.work.set(as_duration(runs_for), most, as_duration(interval));
  if (is_new && w.job().job.status.assignment.attempt != 0) {
    g.job.status.effective = w.job().job.status.effective;
    take_over(g, change);
  }
  return &g;
}

// Its object is deleted. Its pods take their time to save, `saves` at most, and hold what they hold until
// then.
void World::retire(Gang& g, pl::Duration saves) {
  if (!g.owner->finished) stop_work(g);
  ++g.ends_version, ++g.look_version;
  g.state = Gang::State::kOut;
  g.leaves_whole = false;
  placed_.forget(g.id);
  gangs_.erase(g.id);
  for (GangPod& p : g.pods) leave_behind(g, p, saves);
  std::erase_if(g.pods, [&](const GangPod& p) { return *p.gone_at <= now; });
  g.is_retired = true;
  g.job.status.assignment = {};
  g.assignment = {};
  find_pods_beside(g);
  charge(g);
  count_losses(g);
}

// What it holds is free at once, where nobody waits for what is deleted to save.
void World::remove_workload(Workload& w, pl::Duration saves) {
  while (!w.indexes.empty()) remove_index(w, *w.indexes.begin()->second, {});
  if (const auto array = workloads_.find(w.array_key); !w.array_key.empty() && array != workloads_.end()) {
    array->second->indexes.erase(w.array_index);
    to_serve_.insert(w.array_key);
  }
  for (const auto& g : w.gangs) retire(*g, saves);
  w.deleted = true;
  if (!w.is_service) jobs_by_key_.erase(w.key), depending_.erase(w.key);
  look_at_dependents(w);
  const auto slot = workloads_.find(w.source->key);
  graveyard_.push_back(std::move(slot->second));
  workloads_.erase(slot);
}

std::vector<std::string> World::pools_of(const pl::NodeSpec& node) const {
  std::vector<std::string> names;
  for (const auto& [name, pool] : pools_) {
    const bool selects = std::ranges::all_of(
        pool.selector, [&](const pl::Requirement& r) { return pl::matches(r, node.labels); });
    if (selects) names.push_back(name);
  }
  return names;
}

// It runs at its instant, exactly where its status says.
void World::take_over(Gang& g, const Change& change) {
  const Workload& w = *g.owner;
  const auto& stated = w.job().job.status.assignment;
  if (stated.pods.empty()) return;
  restate(g);
  if (g.wish.invalid || g.job.spec.suspend) return;
  const auto running_for = w.behaviour().running_for.value_or(w.behaviour().age);
  const pl::Time since = now - reconcilers::to_duration(running_for);
  const auto assignment = reconcilers::assignment_spec(g.job.spec.roles, stated, since);
  if (!check_assignment(g, assignment, change)) return;
  auto& status = g.job.status;
  status.assignment = stated;
  if (stated.pool.empty()) {
    const auto pools = pools_of(node_spec(stated.pods.front().node));
    if (!pools.empty()) status.assignment.pool = pools.front();
  }
  status.attempt = stated.attempt;
  status.assignment.generation = g.job.metadata.generation;
  status.assignment.admitted_at = status.started_at = to_stamp(since);
  for (const char* type : {"Admitted", "PodsReady"}) {
    crds::set_condition(status.conditions, {type, crds::ConditionStatus::kTrue, g.job.metadata.generation,
                                            to_stamp(since), type, ""});
  }
  for (const auto& place : status.assignment.pods) make_pod(g, place);
  lose_pods_of_dead_nodes(g);
  g.assignment = assignment;
  charge(g);
  g.attempt = g.works_in = stated.attempt;
  g.first_admitted = g.first_started = since;
  g.work.start(since, static_cast<std::int32_t>(assignment.pods.size()), milli_gpu(g, assignment.pods));
  if (const auto age = w.behaviour().checkpoint_age) {
    const pl::Time saved = now - reconcilers::to_duration(*age);
    status.checkpoint.saved_at = to_stamp(saved);
    if (saved >= since) g.work.save(saved);
  }
  g.work.advance(now);
  g.milli_gpu_ms_before = g.work.done().milli_gpu_ms;
}

}  // namespace muster::simulate
