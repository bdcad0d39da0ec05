// Who has what on each node, and what that leaves free in each domain of its pool.
#include <algorithm>

#include "state.h"

namespace muster::placement {
namespace {

Resources with_gpus(const Node& n) {
  Resources r = n.spec.allocatable;
  r.gpu = MilliGpu{n.spec.gpus * kMilliPerGpu};
  return r;
}

// The domains of a node, coarse to fine, made where they are new. A label that is missing ends the path.
std::vector<DomainId> domains_of(Pool& pool, const Labels& labels) {
  std::vector<DomainId> list = {0};
  std::string path;
  for (const std::string& key : pool.spec.topology) {
    const auto label = labels.find(key);
    if (label == labels.end()) break;
    path += '/' + label->second;
    const auto [it, fresh] = pool.domain_ids.emplace(path, static_cast<DomainId>(pool.domains.size()));
    if (fresh) pool.domains.emplace_back().parent = list.back();
    list.push_back(it->second);
  }
  return list;
}

}  // namespace

Resources Node::free() const {
  Resources r = spec.allocatable - used;
  r.gpu = MilliGpu{std::max(0, free_gpus()) * kMilliPerGpu};
  r.cpu = std::max(r.cpu, MilliCpu{});
  r.memory = std::max(r.memory, Bytes{});
  r.pods = std::max<std::int64_t>(r.pods, 0);
  return r;
}

void State::leave_pool_index(NodeId id) {
  Node& n = node(id);
  if (!n.takes_part()) return;
  Pool& p = pool(n.pool);
  auto& buckets = p.by_free[n.model];
  const auto bucket = buckets.find(n.free_gpus());
  bucket->second.erase(id);
  if (bucket->second.empty()) buckets.erase(bucket);
  for (const DomainId d : n.domains) {
    Domain& domain = p.domains[static_cast<std::size_t>(d)];
    --domain.nodes;
    domain.capacity -= with_gpus(n);
    domain.free -= n.counted;
    const auto count = domain.nodes_by_free.find({n.model, n.free_gpus()});
    if (--count->second == 0) domain.nodes_by_free.erase(count);
  }
  ++p.version;
}

void State::enter_pool_index(NodeId id) {
  Node& n = node(id);
  if (!n.takes_part()) return;
  Pool& p = pool(n.pool);
  p.by_free[n.model][n.free_gpus()].insert(id);
  n.counted = n.free();
  for (const DomainId d : n.domains) {
    Domain& domain = p.domains[static_cast<std::size_t>(d)];
    ++domain.nodes;
    domain.capacity += with_gpus(n);
    domain.free += n.counted;
    ++domain.nodes_by_free[{n.model, n.free_gpus()}];
  }
  ++p.version;
}

void State::sort_into_pool(NodeId id) {
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
  if (n.pool == before || n.tree_charges == 0) return;
  // Pods outside assignments are charged where their node belongs.
  for (auto& [key, c] : others) {
    if (c.node != id) continue;
    account(c.leaf, c.pool, c.amounts, c.fixed, -1);
    c.pool = n.pool;
    account(c.leaf, c.pool, c.amounts, c.fixed, 1);
  }
}

std::vector<JobId> State::by_admission(NodeId id, std::int32_t gpu) const {
  std::vector<JobId> list;
  for (const JobId holder : node(id).gpus[static_cast<std::size_t>(gpu)].holders) {
    if (holder != kOther) list.push_back(holder);
  }
  const auto age = [&](JobId j) { return std::tie(job(j).assignment->since, job(j).spec.id); };
  std::sort(list.begin(), list.end(), [&](JobId a, JobId b) { return age(a) < age(b); });
  return list;
}

Charge State::take(Charge c) {
  leave_pool_index(c.node);
  Node& n = node(c.node);
  n.used += c.amounts;
  if (c.holder == kOther) n.used_by_others += c.amounts;
  n.unnamed_gpus += c.unnamed;
  ++n.charges;
  if (c.holder == kOther && c.leaf != kNoId) ++n.tree_charges;
  for (const std::int32_t index : c.gpus) {
    if (static_cast<std::size_t>(index) >= n.gpus.size()) n.gpus.resize(static_cast<std::size_t>(index) + 1);
    Gpu& gpu = n.gpus[static_cast<std::size_t>(index)];
    if (gpu.holders.empty()) ++n.named_gpus;
    gpu.holders.push_back(c.holder);
    gpu.used += c.per_gpu;
    if (gpu.used > kMilliPerGpu) crowded.emplace(c.node, index);
  }
  enter_pool_index(c.node);
  account(c.leaf, c.pool, c.amounts, c.fixed, 1);
  return c;
}

void State::give_back(const Charge& c, bool gain) {
  if (c.node == kNoId) return;
  leave_pool_index(c.node);
  Node& n = node(c.node);
  n.used -= c.amounts;
  if (c.holder == kOther) n.used_by_others -= c.amounts;
  n.unnamed_gpus -= c.unnamed;
  --n.charges;
  if (c.holder == kOther && c.leaf != kNoId) --n.tree_charges;
  for (const std::int32_t index : c.gpus) {
    Gpu& gpu = n.gpus[static_cast<std::size_t>(index)];
    gpu.holders.erase(std::find(gpu.holders.begin(), gpu.holders.end(), c.holder));
    gpu.used -= c.per_gpu;
    if (gpu.holders.empty()) --n.named_gpus;
    if (gpu.used <= kMilliPerGpu) crowded.erase({c.node, index});
  }
  enter_pool_index(c.node);
  if (gain && n.takes_part()) ++pool(n.pool).gains;
  account(c.leaf, c.pool, c.amounts, c.fixed, -1);
  if (gain && !n.known && n.charges == 0) forget_node(c.node);
}

}  // namespace muster::placement
