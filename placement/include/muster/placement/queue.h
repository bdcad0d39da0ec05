// The tree that says who gets how much: Queues at any depth, Projects as leaves.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "muster/placement/amounts.h"

namespace muster::placement {

// Amounts of which each may be left out.
struct Bounds {
  std::optional<MilliGpu> gpu;
  std::optional<MilliCpu> cpu;
  std::optional<Bytes> memory;
  bool operator==(const Bounds&) const = default;
};

struct Share {
  Bounds quota;     // gpu left out: 0; cpu, memory left out: not accounted
  Bounds reserved;  // never lent, as far as quota and limit reach; left out: nothing
  Bounds limit;     // left out: none
  std::int64_t weight = 1;
  std::int64_t priority = 0;
  bool operator==(const Share&) const = default;
};

struct QueueSpec {
  std::string name;    // Queues and Projects have names of their own: see `is_project`
  std::string parent;  // a Queue; empty: top level
  bool is_project = false;
  bool hold = false;   // start nothing new below
  bool drain = false;  // and let go of what runs
  // How long what runs below is safe after its start; left out: as the parent has it, at the top 0.
  std::optional<Duration> reclaim_min_runtime, preempt_min_runtime;
  // Of past use, which then lowers the weights of the children of this queue.
  std::optional<Duration> half_life;
  Time created;
  Share in_default_pool;
  std::map<std::string, Share> in_pool;  // by pool name; a pool without an entry: quota 0, no limit
  bool operator==(const QueueSpec&) const = default;
};

// Of one tree node in one pool.
struct Usage {
  Resources allocated;
  Resources borrowed;  // the part of allocated beyond quota
  Resources pending;   // asked for by what waits (each workload in its first pool)
  bool operator==(const Usage&) const = default;
};

// What a child of a queue with a half-life has held in a pool, on average, recent times counting more. To be
// kept over a restart.
struct PastUse {
  std::string queue;
  bool is_project = false;
  std::string pool;
  Resources average;
  Time as_of;
  bool operator==(const PastUse&) const = default;
};

}  // namespace muster::placement
