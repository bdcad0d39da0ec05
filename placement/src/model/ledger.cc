// Who has what on each node, and what that leaves free in each domain of its pool.
#include <algorithm>

#include "model/cluster_model.h"
#include "node/numa.h"
#include "node/sharing.h"
#include "pool/topology.h"

namespace muster::placement {
namespace {

// The domains of a node, coarse to fine, made where they are new. A label that is missing ends the path.
std::vector<DomainId> domains_of(Pool& pool, const Labels& labels) {
  std::vector<DomainId> list = {kWholePool};
  std::string path;
  for (const std::string& key : pool.spec.topology) {
    const auto label = labels.find(key);
    if (key == kHostLevel || label == labels.end()) break;
    path += '/' + label->second;
    const auto [it, fresh] = pool.domain_ids.emplace(path, static_cast<DomainId>(pool.domains.size()));
    if (fresh) {
      pool.domains[static_cast<std::size_t>(list.back())].children.push_back(it->second);
      Domain& d = pool.domains.emplace_back();
      d.parent = list.back();
      d.depth = static_cast<std::int32_t>(list.size());
      d.value = label->second;
    }
    list.push_back(it->second);
  }
  return list;
}

void put(std::vector<NodeId>& bucket, NodeId id) {
  bucket.insert(std::lower_bound(bucket.begin(), bucket.end(), id), id);
}
void drop(std::vector<NodeId>& bucket, NodeId id) {
  bucket.erase(std::lower_bound(bucket.begin(), bucket.end(), id));
}

}  // namespace

void ClusterModel::leave_pool_index(NodeId id) {
  Node& n = node(id);
  if (!n.takes_part()) return;
  Pool& p = pool(n.pool);
  p.rankings.changed(id);
  const auto uncount = [](auto& counts, auto key) {
    const auto found = counts.find(key);
    if (--found->second == 0) counts.erase(found);
  };
  if (n.spec.gpus > 0) uncount(p.gpu_memories, n.spec.gpu_memory.value);
  if (!n.spec.gpu_numa.empty()) uncount(p.zone_gpus, largest_zone(n.spec));
  p.used_gpu -= n.used.gpu;
  p.spare_gpu -= n.spare;
  p.used_by_others -= n.counted_others;
  for (const DomainId d : n.domains) {
    Domain& domain = p.domains[static_cast<std::size_t>(d)];
    --domain.nodes;
    domain.capacity -= capacity_of(n);
    domain.free -= n.counted;
    drop(domain.by_free[n.model][n.free_gpus()], id);
  }
  ++p.version, ++p.members;
}

void ClusterModel::enter_pool_index(NodeId id) {
  Node& n = node(id);
  n.stamp = ++stamps_;
  if (!n.takes_part()) return;
  Pool& p = pool(n.pool);
  p.rankings.changed(id);
  if (n.spec.gpus > 0) ++p.gpu_memories[n.spec.gpu_memory.value];
  if (!n.spec.gpu_numa.empty()) ++p.zone_gpus[largest_zone(n.spec)];
  p.used_gpu += n.used.gpu;
  n.spare = spare_gpu(n, p.spec);
  p.spare_gpu += n.spare;
  n.counted_others = n.used_by_others;
  p.used_by_others += n.counted_others;
  n.counted = n.free();
  for (const DomainId d : n.domains) {
    Domain& domain = p.domains[static_cast<std::size_t>(d)];
    ++domain.nodes;
    domain.capacity += capacity_of(n);
    domain.free += n.counted;
    put(domain.by_free[n.model][n.free_gpus()], id);
  }
  ++p.version, ++p.members;
}

void ClusterModel::refresh_pool_index(NodeId id, const InUse& before) {
  Node& n = node(id);
  n.stamp = ++stamps_;
  if (!n.takes_part()) return;
  Pool& p = pool(n.pool);
  p.rankings.changed(id);
  const Resources free = n.free();
  const Resources more = free - n.counted;
  const std::int32_t now = n.free_gpus();
  n.counted = free;
  p.used_gpu += n.used.gpu - before.gpu;
  const MilliGpu spare = spare_gpu(n, p.spec);
  p.spare_gpu += spare - n.spare;
  n.spare = spare;
  p.used_by_others += n.used_by_others - n.counted_others;
  n.counted_others = n.used_by_others;
  for (const DomainId d : n.domains) {
    Domain& domain = p.domains[static_cast<std::size_t>(d)];
    domain.free += more;
    if (now == before.free_gpus) continue;
    Buckets& buckets = domain.by_free[n.model];
    drop(buckets[before.free_gpus], id);
    put(buckets[now], id);
  }
  ++p.version;
}

void ClusterModel::drop_empty_domains(Pool& p) {
  if (p.domains.size() <= p.most_domains) return;
  for (const NodeId id : p.nodes) leave_pool_index(id);
  p.domains.assign(1, {});
  p.domain_ids.clear();
  for (const NodeId id : p.nodes) {
    node(id).domains = domains_of(p, node(id).spec.labels);
    enter_pool_index(id);
  }
  p.most_domains = std::max<std::size_t>(64, 2 * p.domains.size());
}

void ClusterModel::sort_into_pool(NodeId id) {
  Node& n = node(id);
  const PoolId before = n.pool;
  for (Pool& p : pools) {
    if (p.nodes.erase(id) + p.shared.erase(n.spec.name) > 0) ++p.version;
  }
  n.pool = kNoId;
  n.shared = false;
  n.domains.clear();
  std::vector<PoolId> mine;
  for (std::size_t i = 0; i < pools.size() && n.known; ++i) {
    const auto& selector = pools[i].spec.selector;
    const bool selected = pools[i].known && std::all_of(selector.begin(), selector.end(), [&](const auto& r) {
                            return matches(r, n.spec.labels);
                          });
    if (selected) mine.push_back(static_cast<PoolId>(i));
  }
  if (mine.size() > 1) {
    n.shared = true;
    for (const PoolId p : mine) pool(p).shared.insert(n.spec.name);
  } else if (mine.size() == 1) {
    n.pool = mine.front();
    pool(n.pool).nodes.insert(id);
    n.domains = domains_of(pool(n.pool), n.spec.labels);
    ++pool(n.pool).gains;
  }
  for (const PoolId p : mine) touch(p);
  enter_pool_index(id);
  if (n.pool == before) return;
  if (before != kNoId) pool(before).leaving -= n.leaving.pods;
  if (n.pool != kNoId) pool(n.pool).leaving += n.leaving.pods;
  if (n.tree_allocations == 0) return;
  // Pods outside assignments are charged where their node belongs.
  for (auto& [key, c] : others) {
    if (c.node != id) continue;
    account(c, -1);
    c.pool = n.pool;
    account(c, 1);
  }
}

std::vector<JobId> ClusterModel::by_admission(NodeId id, std::int32_t gpu) const {
  std::vector<GpuUse> uses;
  for (const GpuUse& use : node(id).gpus[static_cast<std::size_t>(gpu)].uses) {
    if (use.holder != kOther && use.hold != Hold::kLeaving) uses.push_back(use);
  }
  const auto age = [&](const GpuUse& u) {
    return std::tuple(u.hold == Hold::kNominated, job(u.holder).assignment->since,
                      std::string_view(job(u.holder).spec.id));
  };
  std::sort(uses.begin(), uses.end(), [&](const GpuUse& a, const GpuUse& b) { return age(a) < age(b); });
  // Several pods of a job may share the GPU: they are one admission.
  const auto same = [](const GpuUse& a, const GpuUse& b) { return a.holder == b.holder && a.hold == b.hold; };
  uses.erase(std::unique(uses.begin(), uses.end(), same), uses.end());
  std::vector<JobId> list;
  for (const GpuUse& use : uses) list.push_back(use.holder);
  return list;
}

namespace {

constexpr std::int64_t kStepsOfAChange = 8;  // what is kept about nodes, domains and the tree changes with it

// Adds the allocation to its node, or takes it away again.
void book(Node& n, const Allocation& c, int sign) {
  n.add(c.amounts, c.hold, sign);
  if (c.zone >= 0) {
    const auto zone = static_cast<std::size_t>(c.zone);
    if (zone >= n.zones.size()) n.zones.resize(zone + 1);
    n.zones[zone].add(c.amounts, c.hold, sign);
  }
  if (c.cut >= 0) {
    CutSlices& cut = n.cut[static_cast<std::size_t>(c.cut)];
    (c.hold == Hold::kLeaving ? cut.leaving : cut.used) += sign * c.slices;
    if (c.hold == Hold::kNominated) cut.nominated += sign * c.slices;
  }
  if (c.holder == kOther) n.used_by_others += c.amounts * sign;
  n.unnamed_gpus += sign * c.unnamed;
  n.allocations += sign;
  if (c.holder == kOther && c.leaf != kNoId) n.tree_allocations += sign;
}

}  // namespace

Allocation ClusterModel::take(Allocation c) {
  work.spend(kStepsOfAChange);
  Node& n = node(c.node);
  const InUse before{n.free_gpus(), n.used.gpu};
  book(n, c, 1);
  if (c.hold == Hold::kLeaving && n.pool != kNoId) ++pool(n.pool).leaving;
  c.use.holder = c.holder;
  c.use.hold = c.hold;
  for (const std::int32_t index : c.gpus) {
    if (static_cast<std::size_t>(index) >= n.gpus.size()) n.gpus.resize(static_cast<std::size_t>(index) + 1);
    Gpu& gpu = n.gpus[static_cast<std::size_t>(index)];
    if (c.hold != Hold::kLeaving && gpu.idle(View::kTarget) && n.healthy(index)) ++n.named_gpus;
    gpu.uses.push_back(c.use);
    if (in_conflict(gpu, n.spec.gpu_memory)) crowded.emplace(c.node, index);
  }
  refresh_pool_index(c.node, before);
  account(c, 1);
  return c;
}

void ClusterModel::give_back(const Allocation& c, bool gain) {
  if (c.node == kNoId) return;
  work.spend(kStepsOfAChange);
  Node& n = node(c.node);
  const InUse before{n.free_gpus(), n.used.gpu};
  book(n, c, -1);
  if (c.hold == Hold::kLeaving && n.pool != kNoId) --pool(n.pool).leaving;
  GpuUse use = c.use;
  use.holder = c.holder;
  use.hold = c.hold;
  for (const std::int32_t index : c.gpus) {
    Gpu& gpu = n.gpus[static_cast<std::size_t>(index)];
    gpu.uses.erase(std::find_if(gpu.uses.begin(), gpu.uses.end(), [&](const GpuUse& u) { return u == use; }));
    if (c.hold != Hold::kLeaving && gpu.idle(View::kTarget) && n.healthy(index)) --n.named_gpus;
    if (!in_conflict(gpu, n.spec.gpu_memory)) crowded.erase({c.node, index});
  }
  refresh_pool_index(c.node, before);
  if (gain && n.takes_part()) ++pool(n.pool).gains;
  account(c, -1);
  if (gain && !n.known && n.allocations == 0) forget_node(c.node);
}

void ClusterModel::turn(Allocation& c, Hold to) {
  if (c.node == kNoId || c.hold == to) return;
  Allocation next = c;
  give_back(c, false);
  next.hold = to;
  c = take(std::move(next));
}

}  // namespace muster::placement
