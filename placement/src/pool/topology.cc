#include "pool/topology.h"

#include <algorithm>

#include "node/node.h"
#include "pool/pool.h"

namespace muster::placement {
namespace {

const Domain& at(const Pool& pool, DomainId id) {
  return pool.domains[static_cast<std::size_t>(id)];
}

void collect(const Pool& pool, DomainId area, std::int32_t depth, std::vector<DomainId>& list) {
  const Domain& d = at(pool, area);
  if (d.nodes == 0 || d.depth > depth) return;
  if (d.depth == depth) return list.push_back(area);
  for (const DomainId child : d.children) collect(pool, child, depth, list);
}

}  // namespace

std::int32_t depth_of(const PoolSpec& pool, std::string_view key) {
  if (key.empty()) return 0;
  if (key == kHostLevel) return kHostDepth;
  const auto end = pool.topology.begin() + finest_depth(pool);
  const auto found = std::find(pool.topology.begin(), end, key);
  return found == end ? kNoLevel : static_cast<std::int32_t>(found - pool.topology.begin()) + 1;
}

std::int32_t finest_depth(const PoolSpec& pool) {
  const auto host = std::find(pool.topology.begin(), pool.topology.end(), kHostLevel);
  return static_cast<std::int32_t>(host - pool.topology.begin());
}

std::vector<DomainId> domains_at(const Pool& pool, DomainId area, std::int32_t depth) {
  std::vector<DomainId> list;
  collect(pool, area, depth, list);
  return list;
}

DomainId domain_of(const Node& node, std::int32_t depth) {
  const auto i = static_cast<std::size_t>(depth);
  return i < node.domains.size() ? node.domains[i] : kNoId;
}

bool contains(const Pool& pool, DomainId outer, DomainId inner) {
  while (inner != kNoId && at(pool, inner).depth > at(pool, outer).depth) inner = at(pool, inner).parent;
  return inner == outer;
}

std::string describe(const Pool& pool, DomainId id) {
  if (id == kWholePool) return "pool " + pool.spec.name;
  std::string text;
  for (; id != kWholePool; id = at(pool, id).parent) {
    const std::string& key = pool.spec.topology[static_cast<std::size_t>(at(pool, id).depth) - 1];
    text += (text.empty() ? "" : " of ") + std::string(level_name(key)) + " " + at(pool, id).value;
  }
  return text;
}

std::string_view level_name(std::string_view key) {
  if (key == kHostLevel) return "node";
  return key.substr(key.rfind('/') + 1);
}

}  // namespace muster::placement
