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
  Bounds quota;  // gpu left out: 0; cpu, memory left out: not accounted
  Bounds limit;  // left out: none
  std::int64_t weight = 1;
  std::int64_t priority = 0;
  bool operator==(const Share&) const = default;
};

struct QueueSpec {
  std::string name;    // Queues and Projects have names of their own: see `is_project`
  std::string parent;  // a Queue; empty: top level
  bool is_project = false;
  bool hold = false;  // start nothing new below
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

}  // namespace muster::placement
