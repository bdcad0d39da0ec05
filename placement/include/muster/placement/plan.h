// The one question: given the cluster and the time, who starts where, who gives way, and why does the rest
// wait? RULES.md says what must come out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/placement/job.h"

namespace muster::placement {

class Cluster;

// Why a job waits. RULES.md 7.4 says which reason counts, and who decides it.
enum class Reason : std::uint8_t {
  kNone,
  kInsufficientCapacity,   // too little is free
  kFragmented,             // enough is free in all, but not in one piece
  kTopologyUnsatisfiable,  // enough is free, but in no one domain of the demanded level
  kNoMatchingNodes,        // no node would do even if it were empty
  kNoDefaultPool,
  kLimitReached,
  kQuotaExceeded,      // it is non-preemptible and would be beyond a quota
  kFairShareReached,   // no free room, and it is not eligible to take any
  kWaitingForVictims,  // its places are nominated, and others are leaving them
  kReserved,           // it would fit on nodes that are reserved for another job; or by its max_runtime it
                       // would still run when schedules drain a Queue above it
  kQueueHeld,
  kProjectNotFound,
  kInvalidSpec,
};
std::string_view to_string(Reason reason);

// What is short. GPUs and CPUs are counted in thousandths, memory in bytes.
struct Blocking {
  std::string resource;  // gpu, cpu, memory, pods, or what placement knows by name ("rdma/hca")
  std::string pool;
  std::int64_t need = 0;
  std::int64_t have = 0;
  std::vector<std::string> by;  // "namespace/job"; or "Queue x", "Project x", whose bound it is. At most 8
  bool operator==(const Blocking&) const = default;
};

struct PendingReason {
  Reason reason = Reason::kNone;
  std::string message;
  std::vector<Blocking> blocking;
  // Positions count from 1. 0: not counted yet, or nothing may start in its Project. They are exact as of the
  // plan that last named the job in Plan::pending_reasons. Where more than 1000 jobs wait, see
  // RULES.md 7.7.
  std::int32_t position = 0;          // in the order of its first pool
  std::int32_t project_position = 0;  // in its project, from 1
  std::optional<Time> estimated_start;
  bool estimated_from_history = false;  // it rests on a LearnedEnd, too
  bool operator==(const PendingReason&) const = default;
};

// Why something is taken from a job.
enum class EvictReason : std::uint8_t {
  kNone,
  kReclaimed,     // by a job of another Project (RULES.md 5.3)
  kPreempted,     // by a job of higher priority in its own Project (RULES.md 5.4)
  kConsolidated,  // it is moved so that free room joins (RULES.md 5.2)
  kNodeFailed,
  kDrained,
  kPlacesLost,  // an older admission holds its places, or their nodes refused its pods
};
std::string_view to_string(EvictReason reason);

struct Decision {
  enum class Kind : std::uint8_t {
    kStart,    // the gang starts at `assignment`, all of which is free at this moment
    kReplace,  // the displaced pods get new places; `assignment` has only these pods
    kGrow,     // `assignment` is the whole gang after it. What is new is free at this moment
    kShrink,   // `assignment` is what stays. The other pods are to leave
    kMove,     // all pods are to leave. Then it starts at `assignment`, by a kStart of a later plan
    kEvict,    // all pods are to leave
  };
  Kind kind = Kind::kStart;
  std::string job;
  Assignment assignment;
  EvictReason reason = EvictReason::kNone;  // of kShrink, kMove, kEvict
  std::string beneficiary;                  // of these: the job that it is done for; "": for none
  std::string message;
  // Of these, and of kGrow, which a gang does to itself: what it costs, as far as that is known now, and
  // whether it was owed to the beneficiary (RULES.md 5.11).
  WorkTime cost{};
  bool owed = true;
  // Of kMove of a replica of a service: made before broken. It starts at `assignment` at once, and the pods
  // that it has leave when those there are ready (RULES.md 5.12).
  bool surges = false;
};

// Something that was thrown while the plan looked at one job: a bug. Nothing was decided for the job, and
// what was tried for it is undone. The rest of the plan stands.
struct Thrown {
  std::string job;
  std::string what;
  bool waits = false;  // else it runs, and was to grow
};

// How much work a plan does before it leaves the rest to the next one (RULES.md 2.7). A step is about a look
// at one node or at one pod. So many take about a second; the pending reasons may take as many again.
inline constexpr std::int64_t kMaxPlanSteps = 10'000'000;

struct Plan {
  std::vector<Decision> decisions;  // to be carried out in this order: victims before their claimant
  // The jobs whose reason changed: Cluster::pending_reason() has it.
  std::vector<std::string> pending_reasons;
  std::vector<Thrown> thrown;
  std::optional<Time> wake;  // when to plan again even if nothing changes, because something becomes due
  // It reached its bound on work or on rounds, and the next plan goes on. For work that is left `wake` is
  // now.
  bool is_cut_off = false;
};

// It is deterministic: the same history of inputs and the same `now` give the same bytes. When it returns,
// the cluster has the decisions as assumed. Called again without a change, it decides nothing. O(waiting jobs
// x log Projects), plus a search for places for each kind of request that totals do not rule out, once
// however many jobs ask the same.
Plan plan(Cluster& cluster, Time now);

// The jobs of a Queue or Project, in all pools together.
struct Workloads {
  std::int32_t running = 0, waiting = 0;
};

struct PoolUsage {
  std::int32_t nodes = 0;  // usable ones
  Resources capacity, free;
  std::vector<std::string> shared_nodes;  // another pool selects them too, so neither uses them; sorted
  // The GPUs of the largest gang that could start now if each of its pods took all GPUs of a node. Nodes that
  // are reserved for a job do not count. It does not look at CPU and memory.
  MilliGpu largest_gang;
};

}  // namespace muster::placement
