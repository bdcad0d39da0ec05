#include "pool/roster.h"

#include "node/node.h"
#include "pool/pool.h"
#include "pool/topology.h"

namespace muster::placement {

const Roster& roster_of(const Pool& pool, const std::vector<Node>& nodes) {
  Roster& roster = pool.roster;
  if (roster.members == pool.members) return roster;
  roster.members = pool.members;
  roster.rows.clear();
  roster.domains.assign(static_cast<std::size_t>(finest_depth(pool.spec)) + 1, {});
  for (const NodeId id : pool.nodes) {
    const Node& n = nodes[static_cast<std::size_t>(id)];
    if (!n.takes_part()) continue;
    const Resources& a = n.spec.allocatable;
    roster.rows.push_back({id, a.cpu.value, a.memory.value, a.pods,
                           n.spec.gpus - static_cast<std::int64_t>(n.spec.unhealthy.size())});
    for (std::size_t depth = 0; depth < roster.domains.size(); ++depth)
      roster.domains[depth].push_back(domain_of(n, static_cast<std::int32_t>(depth)));
  }
  return roster;
}

}  // namespace muster::placement
