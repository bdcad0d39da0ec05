// What a job waits for, holds and is leaving, and all that is counted with each.
#include <algorithm>
#include <utility>

#include "model/cluster_model.h"
#include "node/numa.h"
#include "node/resource_vector.h"

namespace muster::placement {
namespace {

PendingKey key_of(const Job& j, JobId id) {
  return {-j.spec.priority, j.spec.submitted, j.spec.id, id};
}

}  // namespace

Resources held_beyond_minimum(const Request& request, const Assignment& assignment,
                              const std::vector<Allocation>& allocations) {
  Resources sum;
  if (!request.elastic) return sum;
  std::vector<std::int32_t> of_minimum;
  for (const RoleSpec& role : request.roles) of_minimum.push_back(role.replicas);
  for (std::size_t i = 0; i < allocations.size(); ++i) {
    const auto r = static_cast<std::size_t>(assignment.pods[i].role);
    if (allocations[i].node == kNoId || r >= of_minimum.size()) continue;
    if (--of_minimum[r] < 0 && request.roles[r].most() > request.roles[r].replicas)
      sum += allocations[i].amounts;
  }
  return sum;
}

std::optional<Resources> minimums_below_surplus(const ClusterModel& s, QueueId leaf, PoolId pool) {
  const auto surplus = s.pool(pool).held_surplus.find(leaf);
  if (surplus == s.pool(pool).held_surplus.end()) return std::nullopt;
  return s.tree().sums(leaf, pool).allocated - surplus->second;
}

PendingKind kind_of(const Job& j, JobId id) {
  const auto ms = [](const std::optional<Duration>& d) { return d ? d->ms : -1; };
  return {j.request,
          j.spec.priority,
          j.spec.preemptible,
          ms(j.spec.max_runtime),
          ms(j.spec.checkpoint_interval),
          j.pools.size() > 1 ? id : kNoId};
}

Allocation ClusterModel::gpus_outside_jobs(const NodeSpec& n, Allocation c) {
  if (c.use.whole) {
    c.use.milli = static_cast<std::int32_t>(kMilliPerGpu);
    c.use.memory = n.gpu_memory;
  } else {
    RoleSpec shares;
    shares.gpus = static_cast<std::int32_t>(c.gpus.size()) + c.unnamed;
    shares.share.kind = c.use.by_memory ? GpuShare::Kind::kMemory : GpuShare::Kind::kFraction;
    shares.share.milli.value = c.use.milli;
    shares.share.memory = c.use.memory;
    shares.share.overcommit = c.use.overcommit;
    c.amounts.gpu = charge_on(n, shares);
    c.use = use_on(n, shares);
  }
  c.zone = n.zones.empty() ? -1 : zone_of(n, c.gpus);
  return c;
}

Resources ClusterModel::per_pod(const RoleSpec& role, PoolId p) const {
  Resources each = role.per_pod;
  if (p != kNoId && role.gpus > 0 && role.share.kind == GpuShare::Kind::kMemory) {
    NodeSpec largest;
    if (!pool(p).gpu_memories.empty()) largest.gpu_memory.value = pool(p).gpu_memories.rbegin()->first;
    each.gpu = charge_on(largest, role);
  }
  if (const int model = model_that_must_be(role); model >= 0)
    each.named[static_cast<std::size_t>(model)] = each.gpu.value;
  return each;
}

int ClusterModel::model_that_must_be(const RoleSpec& role) const {
  return role.gpus > 0 && role.models.size() == 1 ? resource_names.place_of_model(role.models.front()) : -1;
}

Resources ClusterModel::asked(const Request& request, PoolId p) const {
  Resources sum = request.total;
  const bool by_price = request.by_memory && p != kNoId && !pool(p).gpu_memories.empty();
  if (by_price) sum.gpu = {};
  for (const RoleSpec& r : request.roles) {
    const int model = model_that_must_be(r);
    if (!by_price && model < 0) continue;
    const Resources of_role = per_pod(r, p) * r.replicas;
    if (by_price) sum.gpu += of_role.gpu;
    if (model >= 0)
      sum.named[static_cast<std::size_t>(model)] += of_role.named[static_cast<std::size_t>(model)];
  }
  return sum;
}

Resources ClusterModel::surplus_of(const Job& j, PoolId p) const {
  Resources sum;
  const Request& request = request_of(j);
  if (!request.elastic || !request.invalid.empty()) return sum;
  for (std::size_t r = 0; r < request.roles.size(); ++r) {
    const RoleSpec& role = request.roles[r];
    if (role.most() == role.replicas) continue;
    std::int64_t has = role.replicas;
    if (j.assignment) {
      has = std::count_if(j.assignment->pods.begin(), j.assignment->pods.end(),
                          [&](const PodPlace& place) { return static_cast<std::size_t>(place.role) == r; });
    }
    sum += per_pod(role, p) * std::max<std::int64_t>(0, role.most() - has);
  }
  return sum;
}

void ClusterModel::set_spec(JobId id, const JobSpec& spec, QueueId leaf) {
  Job& j = job(id);
  j.known = false;
  if (j.request != kNoId) count(id);
  const RequestId before = j.request;
  j.request = requests.acquire(spec, resource_names);
  requests.release(before);
  j.spec = spec;
  j.known = true;
  j.leaf = leaf;
  jobs_.note_anti_affinity(id, request_of(j).with_anti_affinity);
}

void ClusterModel::forget_job(JobId id) {
  job(id).known = false;
  count(id);
  requests.release(job(id).request);
  jobs_.forget(id);
}

void ClusterModel::end_displacement(JobId id) {
  job(id).displaced.clear();
  jobs_.note_pods(id);
  count_held(id);
}

void ClusterModel::count(JobId id) {
  Job& j = job(id);
  const Counted now = !j.known ? Counted::kNot : j.runs() ? Counted::kRunning : Counted::kWaiting;
  PoolId in = kNoId;
  Resources pending, surplus;
  if (j.known && (j.assignment ? request_of(j).invalid : request_of(j).refusal()).empty()) {
    if (j.assignment) {
      in = pool_of(j.assignment->pool);
    } else if (!j.pools.empty()) {
      in = j.pools.front();
      pending = asked(request_of(j), in);
    }
    if (in != kNoId) surplus = surplus_of(j, in);
  }
  const auto count_as_typical = [&](PoolId p, int sign) {
    for (const RoleSpec& r : request_of(j).roles)
      pool(p).fragmentation.count(r, sign * std::int64_t{r.replicas});
  };
  if (in != j.pending_in) {
    if (j.pending_in != kNoId) count_as_typical(j.pending_in, -1);
    if (in != kNoId) count_as_typical(in, 1);
  }
  if (in != j.pending_in || pending != j.pending || surplus != j.surplus) {
    if (j.pending_in != kNoId) account_pending(j, -1), pool(j.pending_in).growable.erase(id);
    j.pending_in = in;
    j.pending = pending;
    j.surplus = surplus;
    if (in != kNoId) account_pending(j, 1), touch(in);
    if (in != kNoId && j.assignment && surplus.pods > 0) pool(in).growable.insert(id);
  }
  if (now == j.counted) return;
  const auto one = [](bool yes) { return yes ? 1 : 0; };
  tree_.count(j.leaf, one(now == Counted::kRunning) - one(j.counted == Counted::kRunning),
              one(now == Counted::kWaiting) - one(j.counted == Counted::kWaiting));
  j.counted = now;
}

void ClusterModel::start_waiting(JobId id) {
  Job& j = job(id);
  j.pools.clear();
  if (j.spec.pools.empty() && tree_.default_pool() != kNoId) j.pools.push_back(tree_.default_pool());
  for (const auto& name : j.spec.pools) {
    const PoolId p = find_pool(name);
    if (p != kNoId && std::find(j.pools.begin(), j.pools.end(), p) == j.pools.end()) j.pools.push_back(p);
  }
  count(id);
  if (!j.leaving.empty()) return;  // it is a claimant again when they are gone
  j.waits = true;
  if (j.leaf == kNoId || j.pools.empty() || !request_of(j).refusal().empty()) {
    jobs_.sideline(id);
    sidelined_changed = true;
    return;
  }
  for (const PoolId p : j.pools) {
    PendingQueue& queue = pool(p).pending_queues[j.leaf];
    queue.all.insert(key_of(j, id));
    queue.kinds[kind_of(j, id)].insert(key_of(j, id));
    ++pool(p).waiting;
    touch(p);
  }
  pool(j.pools.front()).unjudged.insert(id);
}

void ClusterModel::stop_waiting(JobId id, bool from_queues) {
  Job& j = job(id);
  if (!j.waits) return;
  j.waits = false;
  j.pending_reason.reset();
  j.pending_reason_serial = 0;
  if (from_queues) leave_pending_queues(id);
}

void ClusterModel::leave_pending_queues(JobId id) {
  const Job& j = job(id);
  jobs_.end_sidelining(id);
  const PendingKey key = key_of(j, id);
  for (const PoolId p : j.pools) {
    pool(p).unjudged.erase(id);
    const auto queue = pool(p).pending_queues.find(j.leaf);
    if (queue == pool(p).pending_queues.end() || queue->second.all.erase(key) == 0) continue;
    const auto kind = queue->second.kinds.find(kind_of(j, id));
    kind->second.erase(key);
    if (kind->second.empty()) queue->second.kinds.erase(kind);
    if (queue->second.all.empty()) pool(p).pending_queues.erase(queue);
    --pool(p).waiting;
    touch(p);
  }
}

std::optional<Time> end_of(const Job& j) {
  if (!j.runs() || !j.spec.max_runtime) return std::nullopt;
  return (j.progress.began.ms != 0 ? j.progress.began : j.assignment->since) + *j.spec.max_runtime;
}

std::optional<LearnedEnd> learned_end_of(const Job& j) {
  return j.runs() && !j.spec.max_runtime ? j.progress.learned_end : std::nullopt;
}

void ClusterModel::note_learned_end(JobId id) {
  Job& j = job(id);
  const auto end = learned_end_of(j);
  const auto now = end ? std::optional(std::pair(pool_of(j.assignment->pool), *end)) : std::nullopt;
  if (now == j.learned_end) return;
  if (j.learned_end) {
    auto& ends = pool(j.learned_end->first).learned_ends;
    ends.erase({j.learned_end->second.median, id});
    ends.erase({j.learned_end->second.percentile_90, id});
  }
  if (now) {
    auto& ends = pool(now->first).learned_ends;
    ends.emplace(now->second.median, id);
    ends.emplace(now->second.percentile_90, id);
  }
  j.learned_end = now;
}

void ClusterModel::note_end(JobId id) {
  note_learned_end(id);
  Job& j = job(id);
  const auto end = end_of(j);
  const auto now = end ? std::optional(std::pair(pool_of(j.assignment->pool), *end)) : std::nullopt;
  if (now == j.ends) return;
  if (j.ends) pool(j.ends->first).ends.erase({j.ends->second, id});
  if (now) pool(now->first).ends.emplace(now->second, id);
  j.ends = now;
}

std::pair<Assignment, std::vector<Allocation>> ClusterModel::unhold(JobId id) {
  Job& j = job(id);
  Pool& p = pool(pool_of(j.assignment->pool));
  p.holders.erase({-std::exchange(j.held_gpu, {}).value, j.spec.id});
  if (const auto leaf = p.holding.find(j.leaf); leaf != p.holding.end()) {
    leaf->second.erase(id);
    if (leaf->second.empty()) p.holding.erase(leaf);
  }
  if (const auto same = p.preemptible_jobs.find({j.leaf, j.spec.priority});
      j.spec.preemptible && same != p.preemptible_jobs.end() && --same->second == 0)
    p.preemptible_jobs.erase(same);
  set_held_surplus(p, j, {});
  std::pair held(std::move(*j.assignment), std::move(j.allocations));
  j.assignment.reset();
  j.allocations.clear();
  j.displaced.clear();
  j.nominated_pods.clear();
  jobs_.note_pods(id);
  note_end(id);
  return held;
}

void ClusterModel::count_held(JobId id) {
  Job& j = job(id);
  if (!j.assignment) return;
  Pool& p = pool(pool_of(j.assignment->pool));
  if (j.held_gpu.value > 0) p.holders.erase({-j.held_gpu.value, j.spec.id});
  j.held_gpu = {};
  // What a memory share comes to only its node tells.
  for (const Allocation& c : j.allocations) j.held_gpu += c.amounts.gpu;
  if (j.held_gpu.value > 0) p.holders.emplace(-j.held_gpu.value, j.spec.id);
  if (j.spec.preemptible)
    set_held_surplus(p, j, held_beyond_minimum(request_of(j), *j.assignment, j.allocations));
}

void ClusterModel::set_held_surplus(Pool& p, Job& j, const Resources& now) {
  const Resources before = std::exchange(j.held_surplus, now);
  if (before == now) return;
  const auto sum = p.held_surplus.try_emplace(j.leaf).first;
  sum->second += now - before;
  if (sum->second == Resources{}) p.held_surplus.erase(sum);
}

void ClusterModel::drop_assignment(JobId id) {
  Job& j = job(id);
  j.to_be_evicted = false;
  j.evicted_from.reset();
  j.moving = false;  // it does not go on elsewhere: what comes next is a start, within limits
  if (!j.assignment) return;
  if (!j.nominated()) j.last_held = time;
  const auto held = unhold(id);
  j.assumed = false;
  for (const Allocation& c : held.second) give_back(c);
}

bool ClusterModel::available(const Allocation& c, View view) const {
  const Node& n = node(c.node);
  const Resources free = n.free(view);
  Resources beside = c.amounts;
  if (n.model_place >= 0) beside.named[static_cast<std::size_t>(n.model_place)] = 0;
  return fits_beside_gpus(beside, free) && n.takes_part() && devices_available(n, pool(n.pool).spec, c, view);
}

Allocation ClusterModel::allocation_for(JobId id, const PodPlace& place, NodeId on, PoolId p, Hold hold) {
  const Job& j = job(id);
  const RoleSpec& role = request_of(j).roles[static_cast<std::size_t>(place.role)];
  Allocation c;
  c.node = on;
  const Node& n = node(on);
  c.amounts = role.per_pod;
  c.amounts.gpu = charge_on(n.spec, role);
  charge_model(n, c);
  c.use = use_on(n.spec, role);
  c.holder = id;
  c.leaf = j.leaf;
  c.pool = p;
  c.non_preemptible = !j.spec.preemptible;
  c.hold = hold;
  const bool slices = role.share.kind == GpuShare::Kind::kMig;
  for (const std::int32_t gpu : place.gpus) {
    const bool there = gpu >= 0 && gpu < (n.known ? n.spec.gpus : kMaxGpusPerNode);
    const bool again = std::find(c.gpus.begin(), c.gpus.end(), gpu) != c.gpus.end();
    if (there && (slices || !again) && static_cast<std::int32_t>(c.gpus.size()) < role.gpus)
      c.gpus.push_back(gpu);
  }
  if (slices && place.gpus.empty()) {
    c.slices = role.gpus;
    c.cut = node(c.node).cut_index(role.share.profile);
  } else {
    c.unnamed = role.gpus - static_cast<std::int32_t>(c.gpus.size());
  }
  if (!n.spec.zones.empty()) c.zone = zone_of(n.spec, c.gpus);
  return c;
}

std::array<std::int64_t, kMaxNamed> ClusterModel::beside_models(
    std::array<std::int64_t, kMaxNamed> named) const {
  const auto models = resource_names.models();
  for (std::size_t i = 0; i < kMaxNamed; ++i) {
    if (models[i]) named[i] = 0;
  }
  return named;
}

void ClusterModel::reallocate(NodeId id) {
  if (node(id).allocations == 0) return;
  std::set<JobId> holders;
  for (const Gpu& gpu : node(id).gpus) {
    for (const GpuUse& use : gpu.uses) {
      if (use.holder != kOther) holders.insert(use.holder);
    }
  }
  if (node(id).unnamed(View::kNow) > 0) {  // some may be named now: of whom, the node does not know
    for (std::size_t i = 0; i < jobs_.all().size(); ++i) {
      const auto unnamed = [&](const Allocation& c) { return c.node == id && c.unnamed > 0; };
      const Job& j = job(static_cast<JobId>(i));
      if (std::any_of(j.allocations.begin(), j.allocations.end(), unnamed) ||
          std::any_of(j.leaving.begin(), j.leaving.end(),
                      [&](const Leaving& l) { return unnamed(l.allocation); }))
        holders.insert(static_cast<JobId>(i));
    }
  }
  const auto anew = [&](JobId holder, const PodPlace& place, Allocation& allocation) {
    if (allocation.node != id) return;
    give_back(allocation, false);
    allocation = take(allocation_for(holder, place, id, allocation.pool, allocation.hold));
  };
  for (const JobId holder : holders) {
    Job& j = job(holder);
    for (std::size_t i = 0; i < j.allocations.size(); ++i)
      anew(holder, j.assignment->pods[i], j.allocations[i]);
    for (Leaving& l : j.leaving) anew(holder, l.place, l.allocation);
    count_held(holder);
  }
  others.visit_on(id, [&](Allocation& allocation) {
    const bool as_it_is = allocation.gpus.empty();
    if (as_it_is && allocation.amounts.gpu.value == 0) return;
    give_back(allocation, false);
    allocation.amounts.named = beside_models(allocation.amounts.named);
    if (!as_it_is) allocation = gpus_outside_jobs(node(id).spec, allocation);
    charge_model(node(id), allocation);
    allocation = take(allocation);
  });
}

void ClusterModel::hold(JobId id, Assignment assignment, std::vector<Allocation> allocations) {
  Job& j = job(id);
  Pool& p = pool(pool_of(assignment.pool));
  p.holding[j.leaf].insert(id);
  if (j.spec.preemptible) ++p.preemptible_jobs[{j.leaf, j.spec.priority}];
  j.assignment = std::move(assignment);
  j.allocations = std::move(allocations);
  count_held(id);
  note_nominations(id);
}

void ClusterModel::note_nominations(JobId id) {
  Job& j = job(id);
  j.nominated_pods.clear();
  for (std::size_t i = 0; i < j.allocations.size(); ++i) {
    if (j.allocations[i].hold == Hold::kNominated && j.allocations[i].node != kNoId)
      j.nominated_pods.push_back(i);
  }
  jobs_.note_pods(id);
  if (j.runs()) {  // it has nothing to wait for any more
    j.pending_reason.reset();
    j.pending_reason_serial = 0;
  }
  note_end(id);
  count(id);
}

void ClusterModel::put_assignment(JobId id, const Assignment& assignment,
                                  const std::vector<std::size_t>& displaced_pods, Hold how) {
  Job& j = job(id);
  const PoolId p = pool_of(assignment.pool);
  std::vector<Allocation> allocations(assignment.pods.size());
  const bool countable = request_of(j).invalid.empty();
  for (std::size_t i = 0; i < allocations.size() && countable; ++i) {
    const PodPlace& place = assignment.pods[i];
    if (place.role < 0 || static_cast<std::size_t>(place.role) >= j.spec.roles.size()) continue;
    if (std::find(displaced_pods.begin(), displaced_pods.end(), i) != displaced_pods.end()) continue;
    allocations[i] = take(allocation_for(id, place, node_of(place.node), p, how));
  }
  hold(id, assignment, std::move(allocations));
  for (const std::size_t i : displaced_pods) {
    const bool real = i < assignment.pods.size() && assignment.pods[i].role >= 0 &&
                      static_cast<std::size_t>(assignment.pods[i].role) < j.spec.roles.size();
    if (real && std::find(j.displaced.begin(), j.displaced.end(), i) == j.displaced.end())
      j.displaced.push_back(i);
  }
  jobs_.note_pods(id);
}

void ClusterModel::put_leaving(JobId id, const std::vector<PodPlace>& pods) {
  Job& j = job(id);
  std::vector<Leaving> before = std::exchange(j.leaving, {});
  for (const PodPlace& place : pods) {
    const auto known = std::find_if(before.begin(), before.end(), [&](const Leaving& l) {
      return l.allocation.node != kNoId && l.place == place;
    });
    if (known != before.end()) {
      j.leaving.push_back(std::exchange(*known, {}));
      continue;
    }
    if (place.role < 0 || static_cast<std::size_t>(place.role) >= j.spec.roles.size()) continue;
    if (!request_of(j).invalid.empty()) continue;
    const NodeId on = node_of(place.node);
    j.leaving.push_back({place, take(allocation_for(id, place, on, node(on).pool, Hold::kLeaving))});
  }
  for (const Leaving& gone : before) give_back(gone.allocation);
}

}  // namespace muster::placement
