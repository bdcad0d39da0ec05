// RULES.md 4.2: the levels and domains of a pool. Which are there, and what are they called?
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/placement/pool.h"
#include "node/ids.h"

namespace muster::placement {

struct Node;
struct Pool;

// The level of single nodes. It is there whether the pool lists it or not, it is finer than all others, and
// it has no Domain: a node is its own.
inline constexpr std::string_view kHostLevel = "kubernetes.io/hostname";
inline constexpr std::int32_t kHostDepth = 1'000'000;
inline constexpr std::int32_t kNoLevel = -1;

// Domain::depth of a level by its label key. "": 0, the whole pool. kNoLevel: the pool does not know it.
std::int32_t depth_of(const PoolSpec& pool, std::string_view key);

// The finest level that has domains.
std::int32_t finest_depth(const PoolSpec& pool);

// Those in `area`, itself included, that have so many labels and a usable node. O(domains in `area`).
std::vector<DomainId> domains_at(const Pool& pool, DomainId area, std::int32_t depth);

// The node's domain of this depth; kNoId: a label is missing.
DomainId domain_of(const Node& node, std::int32_t depth);

bool contains(const Pool& pool, DomainId outer, DomainId inner);

// "rack r3 of block b1" for people; "pool x" for the whole.
std::string describe(const Pool& pool, DomainId domain);
// What the level is called in a sentence: the label key behind its last slash.
std::string_view level_name(std::string_view key);

}  // namespace muster::placement
