#include "model/node_inventory.h"

#include <algorithm>

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

NodeId NodeInventory::node_of(const std::string& name) {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  NodeId id;
  if (free_.empty()) {
    id = static_cast<NodeId>(all_.size());
    all_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  node(id).spec.name = name;
  ids_.emplace(name, id);
  return id;
}

NodeId NodeInventory::find(const std::string& name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? kNoId : found->second;
}

void NodeInventory::forget(NodeId id) {
  Node& n = node(id);
  if (n.known || n.allocations > 0) return;
  ids_.erase(n.spec.name);
  n = Node{};
  free_.push_back(id);
}

ModelId NodeInventory::model_of(const NodeSpec& spec) {
  const std::string name = spec.gpus > 0 || !spec.mig.empty() ? "gpu " + spec.gpu_model : "";
  return models_.emplace(name, static_cast<ModelId>(models_.size())).first->second;
}

void NodeInventory::leave_index(NodeId id, Pool* pool) {
  Node& n = node(id);
  if (!n.takes_part()) return;
  Pool& p = *pool;
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

void NodeInventory::enter_index(NodeId id, Pool* pool) {
  Node& n = node(id);
  n.stamp = ++stamps_;
  if (!n.takes_part()) return;
  Pool& p = *pool;
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

void NodeInventory::refresh_index(NodeId id, const InUse& before, Pool* pool) {
  Node& n = node(id);
  n.stamp = ++stamps_;
  if (!n.takes_part()) return;
  Pool& p = *pool;
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

void NodeInventory::drop_empty_domains(Pool& p) {
  if (p.domains.size() <= p.most_domains) return;
  for (const NodeId id : p.nodes) leave_index(id, &p);
  p.domains.assign(1, {});
  p.domain_ids.clear();
  for (const NodeId id : p.nodes) {
    node(id).domains = domains_of(p, node(id).spec.labels);
    enter_index(id, &p);
  }
  p.most_domains = std::max<std::size_t>(64, 2 * p.domains.size());
}

void NodeInventory::sort_into_pool(NodeId id, std::vector<Pool>& pools) {
  Node& n = node(id);
  const auto pool = [&](PoolId at) -> Pool& { return pools[static_cast<std::size_t>(at)]; };
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
  for (const PoolId p : mine) ++pool(p).version;
  enter_index(id, n.pool == kNoId ? nullptr : &pool(n.pool));
  if (n.pool == before) return;
  if (before != kNoId) pool(before).leaving -= n.leaving.pods;
  if (n.pool != kNoId) pool(n.pool).leaving += n.leaving.pods;
}

void NodeInventory::take(Allocation& c, Pool* pool) {
  Node& n = node(c.node);
  const InUse before{n.free_gpus(), n.used.gpu};
  book(n, c, 1);
  if (c.hold == Hold::kLeaving && pool != nullptr) ++pool->leaving;
  c.use.holder = c.holder;
  c.use.hold = c.hold;
  for (const std::int32_t index : c.gpus) {
    if (static_cast<std::size_t>(index) >= n.gpus.size()) n.gpus.resize(static_cast<std::size_t>(index) + 1);
    Gpu& gpu = n.gpus[static_cast<std::size_t>(index)];
    if (c.hold != Hold::kLeaving && gpu.idle(View::kTarget) && n.healthy(index)) ++n.named_gpus;
    gpu.uses.push_back(c.use);
    if (in_conflict(gpu, n.spec.gpu_memory)) crowded_.emplace(c.node, index);
  }
  refresh_index(c.node, before, pool);
}

void NodeInventory::give_back(const Allocation& c, Pool* pool) {
  Node& n = node(c.node);
  const InUse before{n.free_gpus(), n.used.gpu};
  book(n, c, -1);
  if (c.hold == Hold::kLeaving && pool != nullptr) --pool->leaving;
  GpuUse use = c.use;
  use.holder = c.holder;
  use.hold = c.hold;
  for (const std::int32_t index : c.gpus) {
    Gpu& gpu = n.gpus[static_cast<std::size_t>(index)];
    gpu.uses.erase(std::find_if(gpu.uses.begin(), gpu.uses.end(), [&](const GpuUse& u) { return u == use; }));
    if (c.hold != Hold::kLeaving && gpu.idle(View::kTarget) && n.healthy(index)) --n.named_gpus;
    if (!in_conflict(gpu, n.spec.gpu_memory)) crowded_.erase({c.node, index});
  }
  refresh_index(c.node, before, pool);
}

}  // namespace muster::placement
