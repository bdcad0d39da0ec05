// The one question: given the cluster and the time, who starts where, and why does the rest wait?
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/placement/job.h"

namespace muster::placement {

class Cluster;

// scheduling.md, 7.
enum class Reason : std::uint8_t {
  kNone,
  kInsufficientCapacity,  // not enough free
  kFragmented,            // enough in all, not where it must be
  kNoMatchingNodes,       // no node would do even if it were empty
  kNoDefaultPool,
  kLimitReached,
  kQuotaExceeded,  // non-preemptible beyond quota
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
  std::int32_t position = 0;          // in the order of its first pool, from 1
  std::int32_t project_position = 0;  // in its project, from 1
  bool operator==(const Verdict&) const = default;
};

struct Decision {
  enum class Kind : std::uint8_t {
    kStart,    // the whole gang: `assignment`
    kReplace,  // the displaced pods: `assignment` has them only
    kEvict,    // `message`: its places are taken by an older admission, or a displaced pod has nowhere to go
  };
  Kind kind = Kind::kStart;
  std::string job;
  Assignment assignment;
  std::string message;
};

struct Plan {
  std::vector<Decision> decisions;    // to be carried out in order
  std::vector<std::string> verdicts;  // jobs whose verdict changed; Cluster::verdict() has it
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
