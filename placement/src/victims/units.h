// Rule 5, what can be taken: running work in pieces that go one after the other, with what each costs.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "model/due.h"
#include "model/state.h"
#include "node/wide.h"
#include "shares/rights.h"

namespace muster::placement {

// A piece of a job that can be taken: surplus replicas, the highest indexes first, or what is left of it
// whole.
struct Unit {
  JobId job = kNoId;
  std::vector<std::size_t> pods;  // of its assignment
  bool last = false;              // the minimum: it goes only when all surplus has gone
  std::int32_t after = -1;        // index of the unit that has to go before this one; -1: none
  bool idle_room = false;         // of a leaf without a weight, which may use no more than that
  bool own = false;               // of the claimant's leaf, by priority (else: of another, by a right)
  Resources amounts;
  std::vector<NodeId> nodes;  // where its pods are; sorted, distinct
  // Smaller goes first. Of one leaf, lower priorities first; between leaves the cheaper first.
  std::int64_t priority = 0;
  Wide cost = 0;          // lost work: milliseconds x millionths of the pool
  std::int64_t over = 0;  // minus allocated / fair share of its leaf, in millionths
  std::int64_t minus_began = 0;
  LeafId leaf = kNoId;
};

enum class Means : std::uint8_t { kReclaim, kPreempt, kBoth, kMove };

// Which of the legal victims.
struct Candidates {
  bool surplus_only = false;
  bool idle_room_only = false;  // of leaves without a weight
};

struct UnitQuery {
  const Claimant* claimant = nullptr;
  Means means = Means::kReclaim;
  Right right = Right::kGuarantee;  // of kReclaim and kBoth
  Candidates who;
  Time now;
};

// All that is a legal victim now, in the order in which it should go: leaves without a weight first, what
// would leave a leaf below its quota as late as possible, of one leaf lower priorities first, then the
// cheapest in lost work, then those of the leaf with the largest allocated / fair share, then the latest
// started. `safe`: those that would be were it not for minRuntime are added. O(jobs that hold places in the
// pool x their pods).
std::vector<Unit> units(const State& state, const UnitQuery& query, Safe& safe);

// What the job loses if these amounts of it are taken now.
Wide lost_work(const State& state, const Job& job, PoolId pool, const Resources& amounts, Time now);

}  // namespace muster::placement
