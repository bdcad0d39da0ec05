#include "muster/reconcilers/capacity.h"

#include <fmt/format.h>

#include "muster/reconcilers/log.h"

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

// The two statuses say the same but for numbers.
template <class Status>
bool only_numbers_differ(const Status& a, const Status& b) {
  return a.conditions == b.conditions && a.observed_generation == b.observed_generation;
}

template <class Status>
void copy_numbers(const TreeNumbers& n, Status& status) {
  status.allocated = n.allocated;
  status.borrowed = n.borrowed;
  status.pending = n.pending;
  status.running = n.running;
  status.waiting = n.waiting;
  status.pools = n.pools;
}

// "" where the children's quotas fit; else a sentence. Only what is the same resource is added up.
std::string overcommit(const std::string& parent, const crds::Amounts& quota,
                       const crds::Amounts& of_children) {
  const auto over = [&](const char* what, const auto& mine, const auto& theirs) -> std::string {
    if (!mine || !theirs || *theirs <= *mine) return {};
    return fmt::format("children of Queue {} have {} {} of quota, it has {}", parent,
                       crds::to_string(*theirs), what, crds::to_string(*mine));
  };
  for (const auto& text : {over("GPUs", quota.gpu, of_children.gpu), over("CPUs", quota.cpu, of_children.cpu),
                           over("memory", quota.memory, of_children.memory)}) {
    if (!text.empty()) return text;
  }
  return {};
}

template <class A>
void add(std::optional<A>& sum, const std::optional<A>& part) {
  if (part) sum = sum.value_or(A{}) + *part;
}

crds::Amounts quota_of_children(const Caches& caches, const std::string& queue) {
  crds::Amounts sum;
  const auto take = [&](const crds::Amounts& quota) {
    add(sum.gpu, quota.gpu);
    add(sum.cpu, quota.cpu);
    add(sum.memory, quota.memory);
  };
  for (const auto& [key, q] : caches.queues.store().all()) {
    if (q->value.spec.parent == queue) take(q->value.spec.quota);
  }
  for (const auto& [key, p] : caches.projects.store().all()) {
    if (p->value.spec.queue == queue) take(p->value.spec.quota);
  }
  return sum;
}

}  // namespace

std::string owner_of_namespace(const ObjectStore<crds::Project>& projects, const std::string& ns) {
  const crds::Project* first = nullptr;
  for (const auto& [key, p] : projects.all()) {
    const auto& project = p->value;
    if (crds::namespace_of(project) != ns || project.metadata.deletion_timestamp) continue;
    if (first == nullptr || project.metadata.creation_timestamp < first->metadata.creation_timestamp)
      first = &project;
  }
  return first == nullptr ? std::string() : first->metadata.name;
}

template <class Kind>
client::Task<Outcome> CapacityReconciler::write(ObjectStore<Kind>& store, client::Ptr<Object<Kind>> object,
                                                typename Kind::Status wanted) {
  if (wanted == object->value.status) co_return Outcome::done();
  const std::string id = fmt::format("{}/{}", Kind::kKind, object->meta.name);
  const auto now = world_.env.clock.now();
  if (only_numbers_differ(wanted, object->value.status)) {
    const auto last = written_.find(id);
    if (last != written_.end() && now - last->second < world_.status_interval) {
      co_return Outcome::again(world_.status_interval - (now - last->second));
    }
  }
  written_[id] = now;
  Kind changed;
  changed.metadata = object->value.metadata;
  changed.status = std::move(wanted);
  ++world_.totals.status_writes;
  const auto done = co_await write_status(world_.api, store, std::move(changed));
  if (done) co_return Outcome::done();
  if (done.error().code == client::ErrorCode::kNotFound) co_return Outcome::done();
  log_warn("status not written", {{"object", id}, {"error", client::to_string(done.error())}});
  co_return Outcome::retry();
}

client::Task<Outcome> CapacityReconciler::queue(client::Key key) {
  auto& store = world_.caches.queues.store();
  const auto object = store.find(key);
  if (!object) {
    written_.erase(fmt::format("Queue/{}", key));
    co_return Outcome::done();
  }
  crds::Queue q = object->value;
  q.status.observed_generation = q.metadata.generation;
  const auto numbers = world_.placement.numbers_of_queue(key);
  copy_numbers(numbers, q.status);
  const auto now = world_.now();
  if (!object->problem.empty()) {
    set(q, now, "Accepted", false, "InvalidSpec", object->problem);
  } else if (!numbers.problem.empty()) {
    set(q, now, "Accepted", false, "InvalidParent", numbers.problem);
  } else {
    set(q, now, "Accepted", true, "Valid", "");
  }
  const auto over = overcommit(key, q.spec.quota, quota_of_children(world_.caches, key));
  set(q, now, "QuotaOvercommitted", !over.empty(), over.empty() ? "Fits" : "ChildrenExceedQuota", over);
  co_return co_await write(store, object, std::move(q.status));
}

client::Task<Outcome> CapacityReconciler::project(client::Key key) {
  auto& store = world_.caches.projects.store();
  const auto object = store.find(key);
  if (!object) {
    written_.erase(fmt::format("Project/{}", key));
    co_return Outcome::done();
  }
  crds::Project p = object->value;
  p.status.observed_generation = p.metadata.generation;
  p.status.ns = crds::namespace_of(p);
  const auto numbers = world_.placement.numbers_of_project(key);
  copy_numbers(numbers, p.status);
  const auto now = world_.now();
  const auto owner = owner_of_namespace(store, p.status.ns);
  if (!object->problem.empty()) {
    set(p, now, "Accepted", false, "InvalidSpec", object->problem);
  } else if (owner != key) {
    set(p, now, "Accepted", false, "NamespaceTaken",
        fmt::format("namespace {} is claimed by the older Project {}; claim another (spec.namespace.name)",
                    p.status.ns, owner));
  } else if (!numbers.problem.empty()) {
    set(p, now, "Accepted", false, "InvalidQueue", numbers.problem);
  } else {
    set(p, now, "Accepted", true, "Valid", "");
  }
  co_return co_await write(store, object, std::move(p.status));
}

client::Task<Outcome> CapacityReconciler::node_pool(client::Key key) {
  auto& store = world_.caches.node_pools.store();
  const auto object = store.find(key);
  if (!object) {
    written_.erase(fmt::format("NodePool/{}", key));
    co_return Outcome::done();
  }
  crds::NodePool pool = object->value;
  pool.status.observed_generation = pool.metadata.generation;
  const auto numbers = world_.placement.numbers_of_pool(key);
  pool.status.nodes = numbers.nodes;
  pool.status.capacity = numbers.capacity;
  pool.status.free = numbers.free;
  const auto now = world_.now();
  std::string defaults;
  int pools = 0, default_pools = 0;
  for (const auto& [name, other] : store.all()) {
    ++pools;
    if (!other->value.spec.is_default) continue;
    ++default_pools;
    defaults += (defaults.empty() ? "" : ", ") + name;
  }
  if (!object->problem.empty()) {
    set(pool, now, "Accepted", false, "InvalidSpec", object->problem);
  } else if (default_pools > 1) {
    set(pool, now, "Accepted", false, "SeveralDefaultPools",
        fmt::format("NodePools {} all have spec.default: true; leave it to one", defaults));
  } else if (default_pools == 0 && pools > 1) {
    set(pool, now, "Accepted", false, "NoDefaultPool",
        fmt::format("there are {} NodePools and none has spec.default: true; give it to one", pools));
  } else {
    set(pool, now, "Accepted", true, "Valid", "");
  }
  const auto& shared = numbers.shared_nodes;
  std::string first;
  for (std::size_t i = 0; i < shared.size() && i < 5; ++i) first += (i == 0 ? "" : ", ") + shared[i];
  set(pool, now, "NodesShared", !shared.empty(), shared.empty() ? "Disjoint" : "NodeInTwoPools",
      shared.empty() ? ""
                     : fmt::format("{} nodes are in another pool as well and used by neither: {}{}",
                                   shared.size(), first, shared.size() > 5 ? ", …" : ""));
  co_return co_await write(store, object, std::move(pool.status));
}

}  // namespace muster::reconcilers
