// Rule 5, what can be taken: running work in pieces that go one after the other, with what each costs.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "model/cluster_model.h"
#include "model/due.h"
#include "node/wide.h"
#include "shares/eligibility.h"

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
  // What the order of RULES.md 5.8 looks at; smaller goes first.
  std::int64_t priority = 0;
  Wide cost = 0;          // lost work: milliseconds x millionths of the pool
  std::int64_t over = 0;  // minus allocated / fair share of its leaf, in millionths
  std::int64_t minus_began = 0;
  QueueId leaf = kNoId;
};

enum class Action : std::uint8_t { kReclaim, kPreempt, kReclaimAndPreempt, kMove };

// Which of the legal victims.
struct VictimFilter {
  bool surplus_only = false;
  bool idle_room_only = false;  // of leaves without a weight
};

struct UnitQuery {
  const Claimant* claimant = nullptr;
  Action action = Action::kReclaim;
  Eligibility eligibility = Eligibility::kByQuota;  // of kReclaim and kBoth
  VictimFilter who;
  Time now;
};

// All that is a legal victim now, in the order of RULES.md 5.8 (victim_order.h). `safe`: what would be one if
// minRuntime did not keep it is added there. O(jobs that hold places in the pool x their pods).
std::vector<Unit> units(const ClusterModel& state, const UnitQuery& query, Safe& safe);

}  // namespace muster::placement
