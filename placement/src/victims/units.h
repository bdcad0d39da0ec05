// RULES.md 5.6 to 5.8: who can be a victim now, cut into pieces (units) that go one after the other, each
// with what its loss costs. units() returns them in the order in which they are taken.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "model/cluster_model.h"
#include "model/due.h"
#include "node/wide.h"
#include "shares/eligibility.h"

namespace muster::placement {

// A piece of a job that can be taken (RULES.md 5.7): one surplus replica or group, or what is left of the job
// whole.
struct Unit {
  JobId job = kNoId;
  std::vector<std::size_t> pods;  // of its assignment
  bool last = false;              // the minimum: it goes only when all surplus has gone
  std::int32_t after = -1;        // index of the unit that has to go before this one; -1: none
  bool idle_room = false;         // it stands below a level of weight 0, so it uses idle room only
  bool own = false;               // of the claimant's own leaf queue; else of another one
  bool of_peer = false;           // of these, surplus of a job that has no lower priority than the claimant
  Resources amounts;
  std::vector<NodeId> nodes;  // where its pods are; sorted, distinct
  // The keys of the list in RULES.md 5.8. Smaller goes first.
  std::int64_t priority = 0;
  // In milliseconds x millionths of the pool. Where disturbances count as free, the lost work of the piece.
  // Else what the job is disturbed by more if this piece goes after those before it: the sum over its pieces
  // that go is what RULES.md 5.11 says.
  Wide cost = 0;
  WorkTime downtime;       // the same of the job alone, to be written down
  std::int64_t over = 0;   // minus (allocated / fair share of its leaf queue), in millionths
  std::int64_t began = 0;  // of priced ones; of others minus when they began
  QueueId leaf = kNoId;
};

enum class Action : std::uint8_t { kReclaim, kPreempt, kReclaimAndPreempt, kMove };

// Which of the legal victims.
struct VictimFilter {
  bool surplus_only = false;
  bool idle_room_only = false;  // only below levels of weight 0
  bool owed = true;             // else the bound of RULES.md 5.11 holds for those of other leaf queues
  // Each service keeps a replica that serves, however much that costs others (RULES.md 5.12).
  bool keeps_services = false;
  bool peers = false;  // also surplus of the own leaf queue that is not of lower priority (RULES.md 5.4)
};

struct UnitQuery {
  const Claimant* claimant = nullptr;
  Action action = Action::kReclaim;
  Eligibility eligibility = Eligibility::kByQuota;  // of kReclaim and kBoth
  VictimFilter who;
  Time now;
  bool priced = false;  // what it costs is judged by RULES.md 5.11; else disturbances count as free
};

// All legal victims (RULES.md 5.6), in the order of the list in RULES.md 5.8. Jobs that only minRuntime keeps
// from being victims are added to `safe`. O(jobs that hold places in the pool x their pods).
std::vector<Unit> units(const ClusterModel& state, const UnitQuery& query, Safe& safe);

}  // namespace muster::placement
