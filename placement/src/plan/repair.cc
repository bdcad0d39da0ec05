#include "plan/repair.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "explain/words.h"
#include "model/statement.h"
#include "place/place.h"

namespace muster::placement {
namespace {

bool is_promised(const Job& j, NodeId node, std::int32_t gpu) {
  return std::any_of(j.nominated_pods.begin(), j.nominated_pods.end(), [&](std::size_t i) {
    const Allocation& c = j.allocations[i];
    return c.node == node && std::find(c.gpus.begin(), c.gpus.end(), gpu) != c.gpus.end();
  });
}

bool can_do_without_displaced(const ClusterModel& s, const Job& j) {
  const Request& request = s.request_of(j);
  if (!request.elastic || !request.groups.empty()) return false;
  std::vector<std::int32_t> left(request.roles.size());
  for (std::size_t i = 0; i < j.assignment->pods.size(); ++i) {
    const auto role = static_cast<std::size_t>(j.assignment->pods[i].role);
    if (role < left.size() && std::find(j.displaced.begin(), j.displaced.end(), i) == j.displaced.end())
      ++left[role];
  }
  for (std::size_t r = 0; r < left.size(); ++r) {
    if (left[r] < request.roles[r].replicas) return false;
  }
  return true;
}

// Who holds places below Queues that are drained, and these Queues, the nearest first. The last in the order
// of RULES.md 2.2 goes first.
using Drained = std::map<PendingKey, std::vector<QueueId>, std::greater<>>;

Drained drained_in(const ClusterModel& s, const Pool& pool) {
  Drained list;
  for (const auto& [leaf, jobs] : pool.holding) {
    if (leaf == kNoId) continue;
    std::vector<QueueId> queues = s.tree().path(leaf);
    std::erase_if(queues, [&](QueueId at) { return !s.tree().queue(at).spec.drain; });
    if (queues.empty()) continue;
    for (const JobId id : jobs) {
      const JobSpec& spec = s.job(id).spec;
      list.emplace(PendingKey{-spec.priority, spec.submitted, spec.id, id}, queues);
    }
  }
  return list;
}

// RULES.md 3.6: somebody leaves, and with this job it would be more than one of the Queues lets go at a time.
bool waits_for_batch(const ClusterModel& s, PoolId pool, const Job& j, const std::vector<QueueId>& drained) {
  MilliGpu gpus;  // what is only nominated goes at once
  for (const Allocation& c : j.allocations) {
    if (c.pool == pool && c.hold == Hold::kRunning) gpus += c.amounts.gpu;
  }
  if (gpus.value == 0) return false;
  return std::any_of(drained.begin(), drained.end(), [&](QueueId at) {
    const auto& most = s.tree().queue(at).spec.drain_batch;
    const MilliGpu leaving = s.tree().sums(at, pool).leaving.gpu;
    return most && leaving.value > 0 && leaving + gpus > *most;
  });
}

// False: there is no room for all of them.
bool found_places(ClusterModel& s, Decisions& decisions, JobId id) {
  const Job& j = s.job(id);
  const PoolId pool = s.find_pool(j.assignment->pool);
  if (pool == kNoId) return false;
  const auto pods = j.displaced;
  Statement statement(s);
  PlaceQuery query{id, pool, View::kNow, Hold::kRunning, {}, kWholePool, true};
  for (const std::size_t i : pods)
    query.pods.push_back({j.assignment->pods[i].role, j.assignment->pods[i].index});
  if (!place(s, statement, query)) return false;
  std::vector<std::size_t> order;  // the places come by role
  for (const Statement::Placed& p : statement.placed()) {
    order.push_back(*std::find_if(pods.begin(), pods.end(), [&](std::size_t i) {
      return j.assignment->pods[i].role == p.place.role && j.assignment->pods[i].index == p.place.index;
    }));
  }
  decisions.replace(id, order, statement);
  return true;
}

void replace_displaced(ClusterModel& s, Decisions& decisions, JobId id) {
  if (found_places(s, decisions, id)) return;
  const Job& j = s.job(id);
  const auto& pods = j.displaced;
  // A node that takes part and is to be avoided is well: its kubelet has refused the pod.
  const auto refused = [&](std::size_t i) {
    const std::string& name = j.assignment->pods[i].node;
    const auto& avoid = s.request_of(j).avoid;
    const NodeId node = s.nodes().find(name);
    return node != kNoId && s.node(node).takes_part() &&
           std::find(avoid.begin(), avoid.end(), name) != avoid.end();
  };
  const auto lost = std::find_if_not(pods.begin(), pods.end(), refused);
  const bool none_lost = lost == pods.end();
  const std::string node = j.assignment->pods[none_lost ? pods.front() : *lost].node;
  const auto reason = none_lost ? EvictReason::kPlacesLost : EvictReason::kNodeFailed;
  if (can_do_without_displaced(s, j)) {
    decisions.shrink_to_placed(id, reason,
                               none_lost ? "goes on without the pods that node " + node + " refused"
                                         : "goes on without the pods lost on node " + node);
    return;
  }
  decisions.evict(id, reason, "",
                  none_lost ? "no other node has room for a pod that node " + node + " refused"
                            : "no other node has room for a pod that lost its place on node " + node);
}

}  // namespace

void end_double_use(ClusterModel& s, Decisions& decisions) {
  for (const auto& [node, gpu] : std::set(s.nodes().crowded())) {
    const auto holders = s.by_admission(node, gpu);
    for (std::size_t i = 1; i < holders.size(); ++i) {
      // Shares of one GPU may stand beside each other: only what is too much goes.
      if (!s.nodes().crowded().contains({node, gpu})) break;
      const JobId last = holders[holders.size() - i];
      // A nomination that was written down before its victims were told: it is asked for again.
      if (is_promised(s.job(last), node, gpu)) {
        decisions.end_nomination(last);
        continue;
      }
      decisions.evict(last, EvictReason::kPlacesLost, s.job(holders[0]).spec.id,
                      "GPU " + std::to_string(gpu) + " of node " + s.node(node).spec.name +
                          " is held by the older admission of " + s.job(holders[0]).spec.id);
    }
  }
}

void drain(ClusterModel& s, Decisions& decisions, PoolId pool) {
  for (const auto& [key, queues] : drained_in(s, s.pool(pool))) {
    if (waits_for_batch(s, pool, s.job(key.job), queues)) continue;
    decisions.evict(key.job, EvictReason::kDrained, "",
                    who(s.tree().queue(queues.front()).spec) + " is drained");
  }
}

void replace_displaced(ClusterModel& s, Decisions& decisions) {
  for (const JobId id : std::set(s.jobs().displaced())) replace_displaced(s, decisions, id);
}

}  // namespace muster::placement
