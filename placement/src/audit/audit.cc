// The model's own indexes, and what each job holds, counted anew: Cluster::audit().
#include "audit/audit.h"

#include <algorithm>
#include <map>
#include <set>

#include "model/cluster_model.h"
#include "node/sharing.h"

namespace muster::placement {
namespace {

using Bad = std::vector<std::string>;

struct NodeRecount {
  Held held;
  std::map<std::int32_t, Held> zones;
  std::map<std::int32_t, std::int32_t> slices;  // by entry of Node::cut, in the target view
  std::int32_t unnamed = 0, unnamed_leaving = 0, allocations = 0;
  std::map<std::int32_t, std::multiset<JobId>> holders;  // by GPU
  std::set<std::int32_t> kept;                           // GPUs that somebody has who is not leaving
};

std::map<NodeId, NodeRecount> recount(const ClusterModel& s) {
  std::map<NodeId, NodeRecount> all;
  const auto add = [&](const Allocation& c) {
    if (c.node == kNoId) return;
    NodeRecount& r = all[c.node];
    r.held.add(c.amounts, c.hold, 1);
    if (c.zone >= 0) r.zones[c.zone].add(c.amounts, c.hold, 1);
    if (c.cut >= 0 && c.hold != Hold::kLeaving) r.slices[c.cut] += c.slices;
    (c.hold == Hold::kLeaving ? r.unnamed_leaving : r.unnamed) += c.unnamed;
    ++r.allocations;
    for (const auto gpu : c.gpus) {
      r.holders[gpu].insert(c.holder);
      if (c.hold != Hold::kLeaving) r.kept.insert(gpu);
    }
  };
  for (const Job& j : s.jobs().all()) {
    for (const Allocation& c : j.allocations) add(c);
    for (const Leaving& l : j.leaving) add(l.allocation);
  }
  for (const auto& [key, c] : s.others.all()) add(c);
  return all;
}

void audit_nodes(const ClusterModel& s, Bad& bad) {
  auto counted = recount(s);
  for (std::size_t i = 0; i < s.nodes().size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const Node& n = s.nodes().all()[i];
    NodeRecount& r = counted[id];
    if (r.held != static_cast<const Held&>(n) || r.unnamed != n.unnamed_gpus ||
        r.unnamed_leaving != n.unnamed_leaving || r.allocations != n.allocations)
      bad.push_back("index: sums of node " + n.spec.name + " drifted");
    for (std::size_t z = 0; z < n.zones.size(); ++z) {
      if (r.zones[static_cast<std::int32_t>(z)] != n.zones[z])
        bad.push_back("index: sums of NUMA node " + std::to_string(z) + " of node " + n.spec.name +
                      " drifted");
    }
    for (std::size_t k = 0; k < n.cut.size(); ++k) {
      if (r.slices[static_cast<std::int32_t>(k)] != n.cut[k].used)
        bad.push_back("index: " + n.cut[k].profile + " slices in use on node " + n.spec.name + " drifted");
    }
    std::erase_if(r.kept, [&](std::int32_t gpu) { return !n.healthy(gpu); });
    if (static_cast<std::int32_t>(r.kept.size()) != n.named_gpus)
      bad.push_back("index: GPUs in use on node " + n.spec.name + " drifted");
    for (std::size_t g = 0; g < n.gpus.size(); ++g) {
      const auto gpu = static_cast<std::int32_t>(g);
      const std::string which = "GPU " + std::to_string(g) + " of node " + n.spec.name;
      std::multiset<JobId> holders;
      for (const GpuUse& use : n.gpus[g].uses) holders.insert(use.holder);
      if (holders != r.holders[gpu]) bad.push_back("index: holders of " + which + " drifted");
      if (in_conflict(n.gpus[g], n.spec.gpu_memory) != s.nodes().crowded().contains({id, gpu}))
        bad.push_back("I1: " + which + " is given out twice and not reported");
    }
  }
}

// Without the buckets that are empty.
std::map<ModelId, Buckets> filled(std::map<ModelId, Buckets> by_free) {
  for (auto& [model, buckets] : by_free)
    std::erase_if(buckets, [](const auto& b) { return b.second.empty(); });
  std::erase_if(by_free, [](const auto& m) { return m.second.empty(); });
  return by_free;
}

void audit_pools(const ClusterModel& s, Bad& bad) {
  for (std::size_t i = 0; i < s.pools.size(); ++i) {
    const Pool& p = s.pools[i];
    std::vector<Domain> domains(p.domains.size());
    std::size_t in_buckets = 0;
    MilliGpu used, spare;
    Resources others;
    std::int64_t leaving = 0;
    for (const auto& [model, buckets] : p.domains[0].by_free) {
      for (const auto& [free, nodes] : buckets) in_buckets += nodes.size();
    }
    for (std::size_t k = 0; k < s.nodes().size(); ++k) {
      const Node& n = s.nodes().all()[k];
      if (n.pool == static_cast<PoolId>(i)) leaving += n.leaving.pods;
      if (!n.takes_part() || n.pool != static_cast<PoolId>(i)) continue;
      --in_buckets;
      used += n.used.gpu;
      spare += spare_gpu(n, p.spec);
      others += n.used_by_others;
      if (!p.nodes.contains(static_cast<NodeId>(k)))
        bad.push_back("index: node " + n.spec.name + " is not among the nodes of its pool");
      for (const DomainId d : n.domains) {
        Domain& domain = domains[static_cast<std::size_t>(d)];
        ++domain.nodes;
        domain.free += n.free();
        domain.by_free[n.model][n.free_gpus()].push_back(static_cast<NodeId>(k));
      }
    }
    if (leaving != p.leaving) bad.push_back("index: pods that leave pool " + p.spec.name + " drifted");
    if (used != p.used_gpu || spare != p.spare_gpu)
      bad.push_back("index: GPUs in use in pool " + p.spec.name + " drifted");
    if (others != p.used_by_others)
      bad.push_back("index: what other pods hold in pool " + p.spec.name + " drifted");
    if (in_buckets != 0)
      bad.push_back("index: pool " + p.spec.name + " has nodes in its buckets that are not its own");
    for (std::size_t d = 0; d < domains.size(); ++d) {
      if (domains[d].nodes != p.domains[d].nodes || domains[d].free != p.domains[d].free ||
          filled(domains[d].by_free) != filled(p.domains[d].by_free)) {
        bad.push_back("index: domain " + std::to_string(d) + " of pool " + p.spec.name + " drifted");
      }
    }
  }
}

void audit_jobs(const ClusterModel& s, Bad& bad) {
  for (std::size_t i = 0; i < s.jobs().all().size(); ++i) {
    const Job& j = s.jobs().all()[i];
    if (!j.known) continue;
    const bool holds = j.assignment.has_value() || !j.leaving.empty();
    if (holds == j.waits)
      bad.push_back("index: " + j.spec.id + (j.waits ? " holds and waits" : " neither holds nor waits"));
    const auto end = end_of(j);
    const PoolId in = j.assignment ? s.pool_ids.at(j.assignment->pool) : kNoId;
    if (end.has_value() != j.ends.has_value() ||
        (end && (*j.ends != std::pair(in, *end) || !s.pool(in).ends.contains({*end, static_cast<JobId>(i)}))))
      bad.push_back("index: the end of " + j.spec.id + " drifted");
    const auto learned = learned_end_of(j);
    const auto is_listed = [&](Time at) {
      return s.pool(in).learned_ends.contains({at, static_cast<JobId>(i)});
    };
    if (learned.has_value() != j.learned_end.has_value() ||
        (learned && (*j.learned_end != std::pair(in, *learned) || !is_listed(learned->median) ||
                     !is_listed(learned->percentile_90))))
      bad.push_back("index: the learned end of " + j.spec.id + " drifted");
    const bool gives = j.spec.preemptible && j.assignment;
    if (j.held_surplus !=
        (gives ? held_beyond_minimum(s.request_of(j), *j.assignment, j.allocations) : Resources{}))
      bad.push_back("index: surplus that " + j.spec.id + " holds drifted");
    MilliGpu held;
    for (const Allocation& c : j.allocations) held += c.amounts.gpu;
    if (j.assignment &&
        (j.held_gpu != held || (held.value > 0 && !s.pool(in).holders.contains({-held.value, j.spec.id}))))
      bad.push_back("index: what " + j.spec.id + " holds drifted");
    if (j.nominated_pods.empty() == s.jobs().nominated().contains(static_cast<JobId>(i)))
      bad.push_back("index: promises of " + j.spec.id + " drifted");
    if (j.assumed && j.assignment &&
        static_cast<std::int64_t>(j.assignment->pods.size()) < s.request_of(j).total.pods) {
      bad.push_back("I2: " + j.spec.id + " was started with a part of its pods");
    }
    const PendingKey key{-j.spec.priority, j.spec.submitted, j.spec.id, static_cast<JobId>(i)};
    bool lined_up = s.jobs().sidelined().contains(static_cast<JobId>(i));
    for (const PoolId p : j.pools) {
      const auto queue = s.pool(p).pending_queues.find(j.leaf);
      lined_up = lined_up || (queue != s.pool(p).pending_queues.end() && queue->second.all.contains(key) &&
                              std::any_of(queue->second.kinds.begin(), queue->second.kinds.end(),
                                          [&](const auto& kind) { return kind.second.contains(key); }));
    }
    if (lined_up != j.waits)
      bad.push_back("index: " + j.spec.id +
                    (j.waits ? " waits in no line" : " stands in a line and does not wait"));
  }
}

void audit_tree(const ClusterModel& s, Bad& bad) {
  const QueueTree& tree = s.tree();
  const QueueTree fresh = s.tree_counted_anew();
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const TreeNode& a = tree.queues()[i];
    const TreeNode& b = fresh.queues()[i];
    bool same = a.running == b.running && a.waiting == b.waiting;
    for (std::size_t p = 0; p < s.pools.size(); ++p) {
      const TreeSums& x = tree.sums(static_cast<QueueId>(i), static_cast<PoolId>(p));
      const TreeSums& y = fresh.sums(static_cast<QueueId>(i), static_cast<PoolId>(p));
      same = same && x.allocated == y.allocated && x.non_preemptible == y.non_preemptible &&
             x.leaving == y.leaving && x.nominated == y.nominated && x.pending == y.pending &&
             x.held_back == y.held_back && x.held_below == y.held_below;
    }
    if (!same) bad.push_back("index: sums of " + a.spec.name + " in the tree drifted");
  }
  for (std::size_t p = 0; p < s.pools.size(); ++p) {
    const auto id = static_cast<PoolId>(p);
    if (tree.held_back(id) != fresh.held_back(id))
      bad.push_back("index: what is held back in pool " + s.pools[p].spec.name + " drifted");
    if (tree.preemptible(id) != fresh.preemptible(id))
      bad.push_back("index: what is preemptible in pool " + s.pools[p].spec.name + " drifted");
    std::map<std::pair<QueueId, std::int64_t>, std::int32_t> jobs;
    std::map<QueueId, Resources> surplus;
    for (const auto& [leaf, ids] : s.pools[p].holding) {
      for (const JobId job : ids) {
        if (s.job(job).spec.preemptible) ++jobs[{leaf, s.job(job).spec.priority}];
        if (s.job(job).held_surplus != Resources{}) surplus[leaf] += s.job(job).held_surplus;
      }
    }
    if (surplus != s.pools[p].held_surplus)
      bad.push_back("index: surplus that is held in pool " + s.pools[p].spec.name + " drifted");
    if (jobs != s.pools[p].preemptible_jobs)
      bad.push_back("index: preemptible jobs of pool " + s.pools[p].spec.name + " drifted");
  }
}

}  // namespace

std::vector<std::string> Cluster::audit() const {
  state_->settle();
  Bad bad;
  audit_nodes(*state_, bad);
  audit_pools(*state_, bad);
  audit_jobs(*state_, bad);
  audit_tree(*state_, bad);
  return bad;
}

Plan audited_plan(Cluster& cluster, Time now, std::vector<std::string>& broken) {
  PlanAuditor auditor(cluster.state(), now);
  Plan result = make_plan(cluster.state(), now);
  for (const auto& list : {auditor.after(result), cluster.audit()})
    broken.insert(broken.end(), list.begin(), list.end());
  return result;
}

void Cluster::audit_plans(bool on) {
  constexpr auto kAudited = [](Cluster& cluster, Time now) {
    std::vector<std::string> broken;
    Plan result = placement::audited_plan(cluster, now, broken);
    require_sound(broken);
    return result;
  };
  state_->audited_plan = on ? +kAudited : nullptr;
}

}  // namespace muster::placement
