// One job: what it asks for, what it holds, and what of it is leaving.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "muster/placement/job.h"
#include "muster/placement/plan.h"
#include "node/ids.h"
#include "node/node.h"

namespace muster::placement {

enum class Counted : std::uint8_t { kNot, kWaiting, kRunning };

struct Leaving {
  PodPlace place;
  Allocation allocation;
};

struct Job {
  JobSpec spec;
  Progress progress;
  bool known = false;
  bool waits = false;    // is a claimant; else it holds an assignment, or its pods are leaving
  bool assumed = false;  // its assignment is, by plan(), not confirmed yet
  bool moving = false;   // nominated, and its own pods have to go first, or have just gone
  RequestId request = kNoId;
  QueueId leaf = kNoId;
  std::vector<PoolId> pools;  // those of spec.pools that exist, or the default pool
  std::optional<Assignment> assignment;
  std::uint64_t started_in = 0;    // the plan that is being made has started it: Planner::serial
  std::optional<Time> room_since;  // when there was first room to grow, with grow_quiet
  // When a disturbance that is not owed to it would first have made room for it to grow.
  std::optional<Time> claim_since;
  std::uint64_t shrunk_in = 0;  // the plan that has last taken some of its pods
  std::uint64_t grown_in = 0;   // the plan that has last given it some
  bool entitled = false;        // that start kept its leaf and ancestors within quota and fair share
  bool to_be_evicted = false;   // plan() has said so; `assignment` is empty, the caller may not know it yet
  Counted counted = Counted::kNot;          // in the tree
  PoolId pending_in = kNoId;                // where it is counted as pending, and its request as typical
  std::optional<Assignment> evicted_from;   // when to_be_evicted
  std::vector<std::size_t> displaced;       // of assignment.pods
  std::vector<std::size_t> nominated_pods;  // of assignment.pods: not startable yet; sorted
  std::vector<Allocation> allocations;      // of assignment.pods, by index; displaced ones are empty
  std::vector<Leaving> leaving;
  MilliGpu held_gpu{};                                       // its entry in Pool::holders; 0: none
  Resources held_surplus;                                    // its part of Pool::held_surplus
  Resources pending, surplus;                                // with these
  std::optional<std::pair<PoolId, Time>> ends;               // its entry in Pool::ends
  std::optional<std::pair<PoolId, LearnedEnd>> learned_end;  // its entries in Pool::learned_ends
  Time last_held;                     // when it last ceased to hold something, as far as plans tell
  Time no_reservation_before;         // it was tried, and nothing would do
  std::int32_t reserved_in_vain = 0;  // so many reservations in a row, by one that had no right to them
  std::optional<PendingReason> pending_reason;
  // Of the request's refusal that `pending reason` was made from; 0: of another origin.
  std::uint64_t pending_reason_serial = 0;

  bool runs() const { return assignment && !nominated(); }
  bool nominated() const {
    return assignment && !nominated_pods.empty() && nominated_pods.size() == assignment->pods.size();
  }
};

// A pod that is to be placed.
struct PodWish {
  std::int32_t role = 0, index = 0;
};

// When the running job ends by its max_runtime; nullopt: it has none.
std::optional<Time> end_of(const Job& job);
// When one without max_runtime is likely to; nullopt: nobody knows, or it does not run.
std::optional<LearnedEnd> learned_end_of(const Job& job);

}  // namespace muster::placement
