#include "muster/reconcilers/projects/capacity.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "muster/common/quantity.h"
#include "muster/placement/pool.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/projects/project_objects.h"
#include "muster/reconcilers/schedules/effective_spec.h"
#include "projects/drain_progress.h"

namespace muster::reconcilers {
namespace {

using crds::ConditionStatus;

template <class Kind>
void set(Kind& object, crds::Time now, const char* type, bool value, std::string reason,
         std::string message) {
  crds::set_condition(object.status.conditions,
                      {type, value ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                       object.metadata.generation, now, std::move(reason), std::move(message)});
}

// A sentence that names the first of them; "": there are none.
std::string say_failing(const std::vector<crds::FailingGpus>& nodes) {
  constexpr std::size_t kNamed = 10;
  std::size_t n = 0;
  std::string named;
  for (const auto& node : nodes) {
    for (const auto gpu : node.gpus) {
      if (n++ < kNamed) named += fmt::format("{}GPU {} of {}", named.empty() ? "" : ", ", gpu, node.node);
    }
  }
  if (n == 0) return {};
  return fmt::format("{} GPUs have double-bit errors and are not used: {}{}", n, named,
                     n > kNamed ? ", …" : "");
}

// What was read of its nodes; Unknown where nothing is to be, or nothing was yet.
void say_readings(crds::NodePool& pool, crds::Time now, const GpuMonitor* monitor) {
  const auto unknown = [&](const char* type, const char* reason) {
    crds::set_condition(pool.status.conditions,
                        {type, ConditionStatus::kUnknown, pool.metadata.generation, now, reason, ""});
  };
  const bool is_read = pool.spec.gpu_metrics && monitor != nullptr;
  const auto last = is_read ? monitor->last_reading(pool.metadata.name) : std::nullopt;
  if (!pool.spec.gpu_metrics) pool.status.failing_gpus.clear();
  if (!last) {
    const char* reason = is_read ? "NotReadYet" : "NoGPUMetrics";
    unknown("MetricsRead", reason);
    unknown("GPUsFailing", reason);
    return;
  }
  const std::size_t missing = last->nodes - last->read;
  set(pool, now, "MetricsRead", missing == 0, missing == 0 ? "AllNodesRead" : "NodesNotRead",
      missing == 0 ? ""
                   : fmt::format("{} of {} nodes were not read, so nothing on them counts as idle: {}",
                                 missing, last->nodes, last->problem));
  pool.status.failing_gpus = last->failing;
  const std::string named = say_failing(last->failing);
  if (last->failing.size() > crds::kMaxFailingNodes) pool.status.failing_gpus.resize(crds::kMaxFailingNodes);
  set(pool, now, "GPUsFailing", !named.empty(), named.empty() ? "NoneSaid" : "DoubleBitErrors", named);
}

// What tools read that know no other condition (kstatus). A person has to do something about Stalled.
// Reconciling ends when something else has come: a parent, which may be applied after its child, or the
// namespace.
template <class Kind>
void say_progress(Kind& object, crds::Time now, const CapacityReconciler::Refusal& refusal) {
  const bool waits_for_queue = refusal.reason == "InvalidParent" || refusal.reason == "InvalidQueue";
  const bool is_stalled = !refusal.reason.empty() && !waits_for_queue;
  CapacityReconciler::Refusal waits = waits_for_queue ? refusal : CapacityReconciler::Refusal{};
  const auto* ns = crds::find_condition(object.status.conditions, "NamespaceReady");
  if (refusal.reason.empty() && ns != nullptr && ns->status == ConditionStatus::kFalse)
    waits = {ns->reason, ns->message};
  const bool is_waiting = !waits.reason.empty();
  set(object, now, "Stalled", is_stalled, is_stalled ? refusal.reason : "Valid",
      is_stalled ? refusal.message : "");
  set(object, now, "Reconciling", is_waiting,
      is_waiting   ? waits.reason
      : is_stalled ? "Stalled"
                   : "UpToDate",
      waits.message);
}

// The two statuses say the same but for numbers.
template <class Status>
bool only_numbers_differ(const Status& a, const Status& b) {
  if constexpr (requires { a.drain; }) {
    const auto stage = [](const Status& s) { return !s.drain ? 0 : is_over(*s.drain) ? 2 : 1; };
    if (stage(a) != stage(b)) return false;
  }
  return a.conditions == b.conditions && a.observed_generation == b.observed_generation;
}

// What work uses grows all the time. Where nothing else is new it is written so seldom, and a quiet cluster
// stays quiet. What is not written yet follows from the statuses of the jobs (ledger.h).
constexpr client::Duration kUsageInterval = std::chrono::hours{1};

// The demand of one Project changes the fair shares of all others. Nobody needs to see that at once: the
// status of each would be written for every job that comes or goes.
constexpr int kFairShareIntervals = 20;

template <class Status>
bool only_fair_shares_differ(Status a, const Status& b) {
  if constexpr (requires { a.fair_share; }) {
    a.fair_share = b.fair_share;
    for (std::size_t i = 0; i < a.pools.size() && i < b.pools.size(); ++i)
      a.pools[i].fair_share = b.pools[i].fair_share;
    return a == b;
  }
  return false;
}

template <class Status>
void copy_numbers(const TreeNumbers& n, Status& status) {
  status.allocated = n.allocated;
  status.borrowed = n.borrowed;
  status.pending = n.pending;
  status.fair_share = n.fair_share;
  status.running = n.running;
  status.waiting = n.waiting;
  status.pools = n.pools;
}

// "" where the children's quotas fit; else a sentence. Only what is the same resource is added up.
std::string overcommit(const std::string& parent, const crds::AmountsByModel& quota,
                       const crds::AmountsByModel& of_children) {
  const auto over = [&](const char* what, const auto& mine, const auto& theirs) -> std::string {
    if (!mine || !theirs || *theirs <= *mine) return {};
    return fmt::format("children of Queue {} have {} {} of quota, it has {}", parent,
                       crds::to_string(*theirs), what, crds::to_string(*mine));
  };
  for (const auto& text : {over("GPUs", quota.gpu, of_children.gpu), over("CPUs", quota.cpu, of_children.cpu),
                           over("memory", quota.memory, of_children.memory)}) {
    if (!text.empty()) return text;
  }
  for (const auto& [name, mine] : quota.resources) {
    const auto theirs = of_children.resources.find(name);
    if (theirs == of_children.resources.end() || theirs->second <= mine) continue;
    return fmt::format("children of Queue {} have {} {} of quota, it has {}", parent,
                       common::format_resource(name, theirs->second), name,
                       common::format_resource(name, mine));
  }
  for (const auto& [model, mine] : quota.models) {
    const auto theirs = of_children.models.find(model);
    if (theirs == of_children.models.end() || theirs->second <= mine) continue;
    return fmt::format("children of Queue {} have {} GPUs of model {} of quota, it has {}", parent,
                       crds::to_string(theirs->second), model, crds::to_string(mine));
  }
  return {};
}

template <class A>
void add(std::optional<A>& sum, const std::optional<A>& part) {
  if (part) sum = sum.value_or(A{}) + *part;
}

// `holds`: its spec as it holds now.
template <class Kind, class Spec>
void say_drain(Kind& object, const Spec& holds, const Caches& caches, crds::Time now,
               const std::vector<std::string>& namespaces) {
  auto& drain = object.status.drain;
  if (holds.admission != crds::Admission::kDrain) return drain.reset();
  drain = drain_progress(caches, namespaces, drain ? drain->started_at : now);
}

// The names in all bounds that the spec states, and the models.
template <class Spec>
std::set<std::string> resources_in(const Spec& spec) {
  std::set<std::string> names;
  const auto take = [&](const auto& share) {
    for (const crds::Amounts* a :
         std::initializer_list<const crds::Amounts*>{&share.quota, &share.reserved, &share.limit}) {
      for (const auto& [name, amount] : a->resources) names.insert(name);
    }
    for (const auto& [model, amount] : share.quota.models)
      names.insert(std::string(common::kModelPrefix) + model);
  };
  take(spec);
  for (const auto& pool : spec.pools) take(pool);
  for (const auto& entry : spec.schedules) take(entry.set);
  return names;
}

// A name that is mistyped takes nothing from anybody, but bounds nothing either.
template <class Kind>
void say_unused(Kind& object, const std::set<std::string>& resources, crds::Time now,
                const PlacementModel& placement) {
  constexpr const char* kType = "ResourcesUnknown";
  if (resources.empty() && crds::find_condition(object.status.conditions, kType) == nullptr) return;
  std::string text;
  for (const auto& name : resources) {
    const auto why = placement.why_unused(name);
    if (why.empty()) continue;
    const bool is_model = name.starts_with(common::kModelPrefix);
    text += fmt::format("{}nobody can use {}{}, which a quota or limit names: {}", text.empty() ? "" : "; ",
                        is_model ? "GPUs of model " : "",
                        is_model ? name.substr(common::kModelPrefix.size()) : name, why);
  }
  set(object, now, kType, !text.empty(), text.empty() ? "AllKnown" : "NobodyCanUseThem", text);
}

// Entries of spec.pools that count for nothing: of the default pool, where the top level counts, and of a
// pool that is not there.
template <class Kind>
void say_pools(Kind& object, const ObjectStore<crds::NodePool>& pools, crds::Time now) {
  constexpr const char* kType = "PoolsIgnored";
  const auto& entries = object.spec.pools;
  if (entries.empty() && crds::find_condition(object.status.conditions, kType) == nullptr) return;
  const std::string main = default_pool(pools);
  std::string text;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string& name = entries[i].name;
    const bool is_there = pools.find(name) != nullptr;
    if (is_there && name != main) continue;
    text += fmt::format("{}spec.pools[{}]: {}", text.empty() ? "" : "; ", i,
                        is_there ? name + " is the default pool, for which the top level of the spec counts"
                                 : "there is no NodePool " + name);
  }
  set(object, now, kType, !text.empty(), text.empty() ? "AllCount" : "CountForNothing", text);
}

CapacityReconciler::Refusal refusal_of_resources(const std::set<std::string>& resources,
                                                 const PlacementModel& placement) {
  for (const auto& name : resources) {
    if (const auto pool = placement.pool_of_gpus(name); !pool.empty()) {
      return {"GPUsAsResource",
              fmt::format("a quota or limit names {} in resources, and NodePool {} counts it as GPUs: state "
                          "it as gpu, beside resources",
                          name, pool)};
    }
  }
  return {};
}

// What its schedules say: what holds by them, what comes next, and which of them do not count. Returns the
// spec as it holds now.
template <class Kind>
auto say_schedules(Kind& object, crds::Time now) {
  auto effective = effective_spec(object.spec, now);
  object.status.next_change.reset();
  const auto& next = effective.next_change;
  if (next && !next->message.empty()) object.status.next_change = next;
  const bool was_said = crds::find_condition(object.status.conditions, "ScheduleInForce") != nullptr;
  if (object.spec.schedules.empty() && !was_said) return std::move(effective.spec);
  const bool holds = !effective.in_force.empty();
  set(object, now, "ScheduleInForce", holds, holds ? "Scheduled" : "AsSpecified", effective.in_force);
  std::string problems;
  for (const auto& problem : effective.problems) problems += (problems.empty() ? "" : "; ") + problem;
  const bool are_valid = problems.empty();
  set(object, now, "SchedulesValid", are_valid, are_valid ? "Valid" : "InvalidSchedule",
      are_valid ? "" : problems + "; these entries do not count, all else of the spec does");
  return std::move(effective.spec);
}

// More than one pool, and none of them is the default.
CapacityReconciler::Refusal refusal_of_defaults(const ObjectStore<crds::NodePool>& pools) {
  if (pools.all().size() < 2 || !default_pool(pools).empty()) return {};
  std::string marked;
  for (const auto& [name, pool] : pools.all()) {
    if (pool->value.spec.is_default) marked += (marked.empty() ? "" : ", ") + name;
  }
  if (!marked.empty()) {
    return {"SeveralDefaultPools",
            fmt::format("NodePools {} all have spec.default: true; leave it to one", marked)};
  }
  return {
      "NoDefaultPool",
      fmt::format("there are {} NodePools and none has spec.default: true; give it to one", pools.size())};
}

}  // namespace

std::string default_pool(const ObjectStore<crds::NodePool>& pools) {
  std::vector<std::string_view> names;
  std::vector<bool> marks;
  for (const auto& [name, pool] : pools.all()) {
    names.push_back(name);
    marks.push_back(pool->value.spec.is_default);
  }
  const auto found = placement::default_among(marks);
  return found ? std::string(names[*found]) : std::string();
}

crds::AmountsByModel quota_of_children(const ObjectStore<crds::Queue>& queues,
                                       const ObjectStore<crds::Project>& projects, const std::string& queue,
                                       crds::Time now) {
  crds::AmountsByModel sum;
  const auto take = [&sum, now](const auto& children) {
    for (const auto& child : children) {
      const auto& spec = child->value.spec;
      const auto quota = spec.schedules.empty() ? spec.quota : effective_spec(spec, now).spec.quota;
      add(sum.gpu, quota.gpu);
      add(sum.cpu, quota.cpu);
      add(sum.memory, quota.memory);
      for (const auto& [name, amount] : quota.resources) {
        std::int64_t& all = sum.resources[name];
        all = (crds::Bytes{all} + crds::Bytes{amount}).value;  // stops at the largest
      }
      for (const auto& [model, amount] : quota.models) sum.models[model] += amount;
    }
  };
  take(queues.by_index(kByParent, queue));
  take(projects.by_index(kByParent, queue));
  return sum;
}

std::string first_claimant(const ObjectStore<crds::Project>& projects, const std::string& ns) {
  const crds::Project* first = nullptr;
  const auto claims = projects.by_index(kByNamespace, ns);
  for (const auto& p : claims) {
    const auto& project = p->value;
    if (project.metadata.deletion_timestamp) continue;
    if (first == nullptr || project.metadata.creation_timestamp < first->metadata.creation_timestamp)
      first = &project;
  }
  return first == nullptr ? std::string() : first->metadata.name;
}

template <class Kind>
client::Task<Outcome> CapacityReconciler::write(ObjectStore<Kind>& store, client::Ptr<Object<Kind>> object,
                                                typename Kind::Status wanted) {
  const std::string id = fmt::format("{}/{}", Kind::kKind, object->meta.name);
  const auto now = context_.env.clock.now();
  if (wanted == object->value.status) {
    const auto later = usage_later(id);
    if (later && !has_ended(wanted, object->meta.name)) co_return Outcome::again(*later);
    take_usage(object->meta.name, wanted);
    if (wanted == object->value.status) co_return Outcome::done();
  } else if (only_numbers_differ(wanted, object->value.status)) {
    const bool may_wait = only_fair_shares_differ(wanted, object->value.status);
    const auto interval = context_.status_interval * (may_wait ? kFairShareIntervals : 1);
    const auto last = written_.find(id);
    if (last != written_.end() && now - last->second < interval)
      co_return Outcome::again(interval - (now - last->second));
  }
  take_usage(object->meta.name, wanted);
  usage_looked_[id] = written_[id] = now;
  Kind changed;
  changed.metadata = object->value.metadata;
  changed.status = std::move(wanted);
  DrainNews news;
  if constexpr (requires { changed.status.drain; })
    news = drain_news(object->value.status.drain, changed.status.drain);
  ++context_.totals.status_writes;
  const auto done = co_await write_status(context_.api, store, std::move(changed));
  if (done && !news.reason.empty()) {
    context_.events.record(event_target(object->value), client::EventType::kNormal, news.reason, "Drain",
                           news.text);
  }
  if (done) co_return Outcome::done();
  if (done.error().code == client::ErrorCode::kNotFound) co_return Outcome::done();
  log_warn("status not written", {{"object", id}, {"error", client::to_string(done.error())}});
  co_return Outcome::retry();
}

// How long the usage of this object, if nothing else of it is new, is not looked at. nullopt: it is due.
std::optional<client::Duration> CapacityReconciler::usage_later(const std::string& id) {
  const auto now = context_.env.clock.now();
  const auto looked = usage_looked_.try_emplace(id, now).first;
  const auto due = looked->second + kUsageInterval;
  if (now < due) return due - now;
  looked->second = now;
  return std::nullopt;
}

// Then the next process could not find out what it was (ledger.h).
bool CapacityReconciler::has_ended(const crds::QueueStatus&, const std::string& name) {
  return context_.ledger != nullptr && context_.ledger->queue_has_ended(name);
}
bool CapacityReconciler::has_ended(const crds::ProjectStatus&, const std::string& name) {
  return context_.ledger != nullptr && context_.ledger->project_has_ended(name);
}

void CapacityReconciler::take_usage(const std::string& name, crds::QueueStatus& status) {
  if (context_.ledger != nullptr) status.usage = context_.ledger->of_queue(name, context_.now());
}
void CapacityReconciler::take_usage(const std::string& name, crds::ProjectStatus& status) {
  if (context_.ledger == nullptr) return;
  status.usage = context_.ledger->of_project(name, context_.now());
  status.run_times = context_.ledger->run_times_of(name);
}
void CapacityReconciler::take_usage(const std::string& name, crds::NodePoolStatus& status) {
  if (context_.ledger != nullptr) status.usage = context_.ledger->of_pool(name);
}

template <class Kind>
client::Task<Outcome> CapacityReconciler::refresh(ObjectStore<Kind>& store, client::Key key) {
  const auto object = store.find(key);
  if (!object) {
    written_.erase(fmt::format("{}/{}", Kind::kKind, key));
    usage_looked_.erase(fmt::format("{}/{}", Kind::kKind, key));
    co_return Outcome::done();
  }
  Kind wanted = object->value;
  wanted.status.observed_generation = wanted.metadata.generation;
  Refusal refusal = fill(wanted);
  if (!object->problem.empty()) refusal = {"InvalidSpec", object->problem};
  const bool accepted = refusal.reason.empty();
  set(wanted, context_.now(), "Accepted", accepted, accepted ? "Valid" : refusal.reason, refusal.message);
  say_progress(wanted, context_.now(), refusal);
  bool drains = false;
  if constexpr (requires { wanted.status.drain; })
    drains = wanted.status.drain && !is_over(*wanted.status.drain);
  Outcome outcome = co_await write(store, object, std::move(wanted.status));
  // What jobs say of their saving tells nobody of the tree.
  if (drains && !outcome.failed) outcome.no_later_than(context_.status_interval);
  co_return outcome;
}

client::Task<Outcome> CapacityReconciler::queue(client::Key key) {
  return refresh(context_.caches.queues.store(), std::move(key));
}
client::Task<Outcome> CapacityReconciler::project(client::Key key, NamespaceState state) {
  if (context_.caches.projects.store().find(key)) {
    namespaces_[key] = std::move(state);
  } else {
    namespaces_.erase(key);
  }
  return refresh(context_.caches.projects.store(), std::move(key));
}
client::Task<Outcome> CapacityReconciler::node_pool(client::Key key) {
  if (context_.ledger != nullptr) context_.ledger->pool_changed(key, context_.now());
  return refresh(context_.caches.node_pools.store(), std::move(key));
}

CapacityReconciler::Refusal CapacityReconciler::fill(crds::Queue& q) const {
  const std::string& name = q.metadata.name;
  const auto numbers = context_.placement.numbers_of_queue(name);
  copy_numbers(numbers, q.status);
  const auto& caches = context_.caches;
  const auto now = context_.now();
  const auto holds = say_schedules(q, now);
  const bool drains = holds.admission == crds::Admission::kDrain;
  say_drain(q, holds, caches, now, drains ? namespaces_below(caches, name) : std::vector<std::string>());
  const auto over = overcommit(name, holds.quota,
                               quota_of_children(caches.queues.store(), caches.projects.store(), name, now));
  set(q, now, "QuotaOvercommitted", !over.empty(), over.empty() ? "Fits" : "ChildrenExceedQuota", over);
  const auto resources = resources_in(q.spec);
  say_unused(q, resources, now, context_.placement);
  say_pools(q, caches.node_pools.store(), now);
  if (!numbers.problem.empty()) return {"InvalidParent", numbers.problem};
  return refusal_of_resources(resources, context_.placement);
}

CapacityReconciler::Refusal CapacityReconciler::fill(crds::Project& p) const {
  const std::string& name = p.metadata.name;
  const auto numbers = context_.placement.numbers_of_project(name);
  copy_numbers(numbers, p.status);
  const auto holds = say_schedules(p, context_.now());
  say_drain(p, holds, context_.caches, context_.now(), {crds::namespace_of(p)});
  p.status.ns = crds::namespace_of(p);
  const NamespaceState& state = namespaces_.at(name);
  const auto there = context_.caches.namespaces.store().find(p.status.ns);
  if (there && is_namespace_of(p, *there)) p.status.ns_uid = there->meta.uid;
  set(p, context_.now(), "NamespaceReady", state.reason.empty(),
      state.reason.empty() ? "Ready" : state.reason, state.message);
  const auto resources = resources_in(p.spec);
  say_unused(p, resources, context_.now(), context_.placement);
  say_pools(p, context_.caches.node_pools.store(), context_.now());
  if (state.reason == "NamespaceTaken") return {state.reason, state.message};
  if (!numbers.problem.empty()) return {"InvalidQueue", numbers.problem};
  return refusal_of_resources(resources, context_.placement);
}

CapacityReconciler::Refusal CapacityReconciler::fill(crds::NodePool& pool) const {
  const auto numbers = context_.placement.numbers_of_pool(pool.metadata.name);
  pool.status.nodes = numbers.nodes;
  pool.status.capacity = numbers.capacity;
  pool.status.free = numbers.free;
  pool.status.largest_gang = numbers.largest_gang;
  if (context_.ledger != nullptr)
    context_.ledger->note_capacity(pool.metadata.name, numbers.capacity, numbers.free, context_.now());
  const auto& shared = numbers.shared_nodes;
  std::string first;
  for (std::size_t i = 0; i < shared.size() && i < 5; ++i) first += (i == 0 ? "" : ", ") + shared[i];
  set(pool, context_.now(), "NodesShared", !shared.empty(), shared.empty() ? "Disjoint" : "NodeInTwoPools",
      shared.empty()
          ? ""
          : fmt::format("{} {} in another pool as well and used by neither: {}{}", shared.size(),
                        shared.size() == 1 ? "node is" : "nodes are", first, shared.size() > 5 ? ", …" : ""));
  say_readings(pool, context_.now(), context_.gpu_monitor);
  return refusal_of_defaults(context_.caches.node_pools.store());
}

}  // namespace muster::reconcilers
