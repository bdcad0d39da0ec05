// The one question: given the cluster and the time, who starts where, and why does the rest wait?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/placement/job.h"

namespace muster::placement {

class Cluster;

// Why somebody waits, or had to go.
enum class Reason : std::uint8_t {
  kNone,
  kInsufficientCapacity,   // not enough free
  kFragmented,             // enough in all, not where it must be
  kTopologyUnsatisfiable,  // enough, but in no one domain of the demanded level
  kNoMatchingNodes,        // no node would do even if it were empty
  kNoDefaultPool,
  kLimitReached,
  kQuotaExceeded,      // non-preemptible beyond quota
  kFairShareReached,   // no free room, and no right to take any
  kWaitingForVictims,  // its places are nominated, others are leaving them
  kReserved,           // what is free is reserved for an older one
  kQueueHeld,
  kProjectNotFound,
  kInvalidSpec,
};
std::string_view to_string(Reason reason);

// Amounts as they are counted: GPUs and CPUs in thousandths, bytes, pods.
struct Blocking {
  std::string resource;  // gpu, cpu, memory, pods
  std::string pool;
  std::int64_t need = 0;
  std::int64_t have = 0;
  std::vector<std::string> by;  // "namespace/job", or "Queue x" / "Project x" whose bound it is; at most 8
  bool operator==(const Blocking&) const = default;
};

struct Verdict {
  Reason reason = Reason::kNone;
  std::string message;
  std::vector<Blocking> blocking;
  // From 1; 0: not counted yet, or nothing may start in its Project. Exact as of the plan that has named the
  // job last in Plan::verdicts. Where more than 1000 jobs wait in a pool, all but the first 100 are counted
  // and judged anew only once a minute, and words of a shortage may be 10 s old.
  std::int32_t position = 0;          // in the order of its first pool
  std::int32_t project_position = 0;  // in its project, from 1
  std::optional<Time> estimated_start;
  bool operator==(const Verdict&) const = default;
};

// Why something is taken from a workload.
enum class EvictReason : std::uint8_t {
  kNone,
  kReclaimed,     // by another leaf's right
  kPreempted,     // by higher priority in its own leaf
  kConsolidated,  // moved to join free space
  kNodeFailed,
  kDrained,
  kPlacesLost,  // an older admission holds them, or their nodes refused the pods
};
std::string_view to_string(EvictReason reason);

struct Decision {
  enum class Kind : std::uint8_t {
    kStart,    // the whole gang: `assignment`. All of it is free at this moment.
    kReplace,  // the displaced pods: `assignment` has them only
    kGrow,     // `assignment` is the whole gang after it; what is new is free at this moment
    kShrink,   // `assignment` is what stays; the others are to leave
    kMove,     // all pods are to leave, then it starts at `assignment` (a kStart follows)
    kEvict,    // all pods are to leave
  };
  Kind kind = Kind::kStart;
  std::string job;
  Assignment assignment;
  EvictReason reason = EvictReason::kNone;  // of kShrink, kMove, kEvict
  std::string beneficiary;                  // of these: the job that it is done for; "": none
  std::string message;
};

struct Plan {
  std::vector<Decision> decisions;    // to be carried out in order: victims before their claimant
  std::vector<std::string> verdicts;  // jobs whose verdict changed; Cluster::verdict() has it
  std::optional<Time> wake;           // when to plan again though nothing changes: something becomes due then
  bool is_cut_off = false;  // it reached its bound on rounds: some of the work waits for the next plan
};

// Deterministic: the same history of inputs and `now` give the same bytes. The decisions are in the cluster
// as assumed when it returns; called again without a change it decides nothing. Complexity: O(waiting jobs x
// log leaves), plus the search for a place for each kind of request that the free totals do not refute, once
// per plan however many jobs ask the same.
Plan plan(Cluster& cluster, Time now);

// Of all pools.
struct Workloads {
  std::int32_t running = 0, waiting = 0;
};

struct PoolUsage {
  std::int32_t nodes = 0;  // usable ones
  Resources capacity, free;
  std::vector<std::string> shared_nodes;  // also selected by another pool: used by neither; sorted
};

}  // namespace muster::placement
