// One Queue or Project: its place in the tree, and the sums that are kept of what is below it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "muster/placement/queue.h"
#include "node/ids.h"
#include "node/wide.h"

namespace muster::placement {

struct TreeSums {
  Resources allocated;        // running and nominated
  Resources non_preemptible;  // the non-preemptible part of allocated
  Resources nominated;        // of these; nobody uses it yet
  Resources leaving;          // beside these
  Resources pending;          // of what waits, and of what was evicted and has not left yet
  Resources surplus;          // what elastic jobs would take beyond that
  // Of what is reserved here and below, the part that is not allocated; and the sum of the children's.
  Resources held_back, held_below;

  Resources in_use() const { return allocated - nominated + leaving; }
  Resources demand() const { return allocated + pending + surplus; }
};

// What a tree node has held, for weights that fall with past use (past.h).
struct Past {
  std::array<Wide, 3> average{};  // GPU, CPU, memory in units of 1 / 2^20, up to `as_of`, weighted by age
  Time as_of;
  std::array<Wide, 3> since{};  // the amounts x milliseconds after that, up to `seen`
  Time seen;
  Resources held;         // from `seen` on
  bool restored = false;  // from before a restart: what it held since is not known
};

struct TreeNode {
  QueueSpec spec;
  bool known = false;
  QueueId parent = kNoId;
  std::set<QueueId> children;
  bool circular = false;        // it is above itself
  bool reserves = false;        // it, or something below, has a reserved part in some pool
  std::map<PoolId, Past> past;  // of the children of a queue with a half-life
  std::map<PoolId, TreeSums> sums;
  std::int32_t running = 0, waiting = 0;
};

// Tree nodes are found by kind and name.
inline std::string tree_key(const std::string& name, bool is_project) {
  return (is_project ? "p/" : "q/") + name;
}

// The part of a quota that is never lent: `reserved` as far as quota and limit reach.
Resources reserved_part(const Share& share);
bool reserves_anything(const QueueSpec& spec);

}  // namespace muster::placement
