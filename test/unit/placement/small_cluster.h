// Short words for the things of a placement test.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "muster/placement/cluster.h"

namespace muster::placement::testing {

inline constexpr std::int64_t kGi = std::int64_t{1} << 30;
inline constexpr std::int64_t kMilli = 1000;

inline NodeSpec node(const std::string& name, std::int32_t gpus = 8, const std::string& model = "H100",
                     std::int64_t cpus = 64) {
  NodeSpec n;
  n.name = name;
  n.labels = {{"kubernetes.io/hostname", name}};
  n.gpus = gpus;
  n.gpu_model = gpus > 0 ? model : "";
  n.allocatable = {MilliGpu{gpus * kMilli}, MilliCpu{cpus * kMilli}, Bytes{512 * kGi}, 110};
  return n;
}

inline PoolSpec pool(const std::string& name, std::vector<Requirement> selector = {}) {
  PoolSpec p;
  p.name = name;
  p.selector = std::move(selector);
  return p;
}

struct Q {  // amounts in GPUs; -1: left out
  std::int64_t quota = -1, limit = -1;
  std::int64_t weight = 1, priority = 0;
  std::int64_t reserved = -1;
};

inline QueueSpec queue(const std::string& name, const std::string& parent, Q q = {}) {
  QueueSpec s;
  s.name = name;
  s.parent = parent;
  if (q.quota >= 0) s.in_default_pool.quota.gpu = MilliGpu{q.quota * 1000};
  if (q.limit >= 0) s.in_default_pool.limit.gpu = MilliGpu{q.limit * 1000};
  if (q.reserved >= 0) s.in_default_pool.reserved.gpu = MilliGpu{q.reserved * 1000};
  s.in_default_pool.weight = q.weight;
  s.in_default_pool.priority = q.priority;
  s.max_overhead = 100;  // RULES.md 5.1 to 5.5 alone, unless the test says otherwise
  return s;
}

inline QueueSpec project(const std::string& name, const std::string& parent, Q q = {}) {
  QueueSpec s = queue(name, parent, q);
  s.is_project = true;
  return s;
}

inline RoleSpec role(const std::string& name, std::int32_t replicas, std::int32_t gpus, std::int64_t cpus = 1,
                     std::int64_t gib = 1) {
  RoleSpec r;
  r.name = name;
  r.replicas = replicas;
  r.gpus = gpus;
  r.per_pod = {MilliGpu{gpus * kMilli}, MilliCpu{cpus * kMilli}, Bytes{gib * kGi}, 1};
  return r;
}

// "project/name": one role of `replicas` pods with `gpus` each.
inline JobSpec job(const std::string& id, std::int32_t replicas, std::int32_t gpus,
                   std::int64_t submitted = 0, std::int64_t priority = 0) {
  JobSpec j;
  j.id = id;
  j.project = id.substr(0, id.find('/'));
  j.submitted = Time{submitted};
  j.priority = priority;
  j.roles = {role("worker", replicas, gpus)};
  return j;
}

inline std::vector<std::string> jobs_of(const Plan& plan, Decision::Kind kind) {
  std::vector<std::string> list;
  for (const Decision& d : plan.decisions) {
    if (d.kind == kind) list.push_back(d.job);
  }
  return list;
}

// A cluster with one pool and the tree  top -> {a, b}  without quotas, where nothing else is said.
struct SmallCluster {
  Cluster cluster;
  std::int64_t now = 1000;

  SmallCluster() {
    cluster.upsert_pool(pool("default"));
    cluster.upsert_queue(queue("top", ""));
    cluster.upsert_queue(project("a", "top"));
    cluster.upsert_queue(project("b", "top"));
  }
  explicit SmallCluster(const std::vector<NodeSpec>& nodes) : SmallCluster() {
    for (const NodeSpec& n : nodes) cluster.upsert_node(n);
  }

  Plan plan() { return muster::placement::plan(cluster, Time{++now}); }

  // Plans, and says which jobs start, in order.
  std::vector<std::string> starts() { return of_kind(Decision::Kind::kStart); }
  std::vector<std::string> of_kind(Decision::Kind kind) { return jobs_of(plan(), kind); }

  Reason reason(const std::string& id) const {
    const PendingReason* v = cluster.pending_reason(id);
    return v == nullptr ? Reason::kNone : v->reason;
  }
  std::string message(const std::string& id) const {
    const PendingReason* v = cluster.pending_reason(id);
    return v == nullptr ? "" : v->message;
  }
  // How many pods of the job on which node.
  std::map<std::string, int> nodes_of(const std::string& id) const {
    std::map<std::string, int> count;
    if (const Assignment* a = cluster.assignment(id)) {
      for (const PodPlace& p : a->pods) ++count[p.node];
    }
    return count;
  }
};

inline Assignment assignment(std::int64_t since, std::vector<PodPlace> pods,
                             const std::string& pool_name = "default") {
  return {pool_name, Time{since}, std::move(pods)};
}

}  // namespace muster::placement::testing
