// A job's two states, waiting and holding, and all that is counted with each.
#include <algorithm>

#include "state.h"

namespace muster::placement {
namespace {

WaitKey key_of(const Job& j, JobId id) {
  return {-j.spec.priority, j.spec.submitted, j.spec.id, id};
}

}  // namespace

void State::start_waiting(JobId id) {
  Job& j = job(id);
  j.waits = true;
  j.pools.clear();
  if (j.spec.pools.empty() && default_pool != kNoId) j.pools.push_back(default_pool);
  for (const auto& name : j.spec.pools) {
    const PoolId p = find_pool(name);
    if (p != kNoId && std::find(j.pools.begin(), j.pools.end(), p) == j.pools.end()) j.pools.push_back(p);
  }
  const Request& r = request_of(j);
  j.pending_in = j.pools.empty() || !r.invalid.empty() ? kNoId : j.pools.front();
  account_pending(j.leaf, j.pending_in, r.total, 1);
  count(j.leaf, 0, 1);
  if (j.leaf == kNoId || j.pools.empty() || !r.invalid.empty()) {
    sidelined.insert(id);
    sidelined_changed = true;
    return;
  }
  for (const PoolId p : j.pools) {
    pool(p).lines[j.leaf].insert(key_of(j, id));
    touch(p);
  }
}

void State::stop_waiting(JobId id, bool from_lines) {
  Job& j = job(id);
  if (!j.waits) return;
  j.waits = false;
  j.verdict.reset();
  j.verdict_serial = 0;
  account_pending(j.leaf, j.pending_in, request_of(j).total, -1);
  count(j.leaf, 0, -1);
  if (from_lines) leave_lines(id);
}

void State::leave_lines(JobId id) {
  const Job& j = job(id);
  sidelined.erase(id);
  for (const PoolId p : j.pools) {
    const auto line = pool(p).lines.find(j.leaf);
    if (line == pool(p).lines.end() || line->second.erase(key_of(j, id)) == 0) continue;
    if (line->second.empty()) pool(p).lines.erase(line);
    touch(p);
  }
}

void State::drop_assignment(JobId id) {
  Job& j = job(id);
  if (!j.assignment) return;
  for (const Charge& c : j.charges) give_back(c);
  pool(pool_of(j.assignment->pool)).holders.erase({-request_of(j).total.gpu.value, j.spec.id});
  count(j.leaf, -1, 0);
  j.charges.clear();
  j.assignment.reset();
  j.displaced.clear();
  j.assumed = false;
  j.to_be_evicted = false;
  displaced.erase(id);
}

Charge State::charge_for(JobId id, const PodPlace& place, PoolId p) {
  const Job& j = job(id);
  const RoleSpec& role = j.spec.roles[static_cast<std::size_t>(place.role)];
  Charge c;
  c.node = node_of(place.node);
  c.amounts = role.per_pod;
  c.holder = id;
  c.leaf = j.leaf;
  c.pool = p;
  c.fixed = !j.spec.preemptible;
  for (const std::int32_t gpu : place.gpus) {
    if (gpu >= 0 && gpu < kMostGpusPerNode) c.gpus.push_back(gpu);
  }
  c.unnamed = std::max(0, role.gpus - static_cast<std::int32_t>(c.gpus.size()));
  return c;
}

void State::hold(JobId id, Assignment assignment, std::vector<Charge> charges) {
  Job& j = job(id);
  const std::int64_t gpus = request_of(j).total.gpu.value;
  if (gpus > 0) pool(pool_of(assignment.pool)).holders.emplace(-gpus, j.spec.id);
  j.assignment = std::move(assignment);
  j.charges = std::move(charges);
  count(j.leaf, 1, 0);
}

void State::put_assignment(JobId id, const Assignment& assignment,
                           const std::vector<std::size_t>& displaced_pods) {
  Job& j = job(id);
  const PoolId p = pool_of(assignment.pool);
  std::vector<Charge> charges(assignment.pods.size());
  const bool countable = request_of(j).invalid.empty();
  for (std::size_t i = 0; i < charges.size() && countable; ++i) {
    const PodPlace& place = assignment.pods[i];
    if (place.role < 0 || static_cast<std::size_t>(place.role) >= j.spec.roles.size()) continue;
    if (std::find(displaced_pods.begin(), displaced_pods.end(), i) != displaced_pods.end()) continue;
    charges[i] = take(charge_for(id, place, p));
  }
  hold(id, assignment, std::move(charges));
  for (const std::size_t i : displaced_pods) {
    const bool real = i < assignment.pods.size() && assignment.pods[i].role >= 0 &&
                      static_cast<std::size_t>(assignment.pods[i].role) < j.spec.roles.size();
    if (real && std::find(j.displaced.begin(), j.displaced.end(), i) == j.displaced.end())
      j.displaced.push_back(i);
  }
  if (!j.displaced.empty()) displaced.insert(id);
}

}  // namespace muster::placement
