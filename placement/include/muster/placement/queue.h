// The tree that says who gets how much. Queues are its inner nodes, at any depth; Projects are its leaves.
// RULES.md says what the amounts mean.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "muster/placement/amounts.h"

namespace muster::placement {

// One bound for each resource. Each may be left out.
struct Bounds {
  std::optional<MilliGpu> gpu;
  std::optional<MilliCpu> cpu;
  std::optional<Bytes> memory;
  NamedAmounts named{};  // of resources that placement knows by their names alone
  // The same as Resources::named counts them. The Cluster fills it in: what no job has asked for is absent.
  std::array<std::optional<std::int64_t>, kMaxNamed> counted{};
  bool operator==(const Bounds&) const = default;
};

struct Share {
  Bounds quota;     // GPUs left out: 0. Any other resource left out: not accounted
  Bounds reserved;  // reserved quota: never lent, as far as quota and limit reach. Left out: nothing
  Bounds limit;     // left out: no limit
  std::int64_t weight = 1;
  std::int64_t priority = 0;
  bool operator==(const Share&) const = default;
};

inline constexpr std::int32_t kMaxOverhead = 5;
inline constexpr Duration kPatience = seconds(3600);

// What runs below a Queue will be let go from `at` until `until`. After that it may run for `open_after`;
// absent: for good.
struct ComingDrain {
  Time at, until;
  std::optional<Duration> open_after;
  bool operator==(const ComingDrain&) const = default;
};

// What schedules make of quota and limit in the default pool at their next change of either.
struct ComingShare {
  Time at;
  Share share;
  bool operator==(const ComingShare&) const = default;
};

struct QueueSpec {
  std::string name;    // a Queue and a Project may have the same name: `is_project` tells them apart
  std::string parent;  // the Queue above; empty: it is at the top
  bool is_project = false;
  bool hold = false;   // nothing new starts below
  bool drain = false;  // and what runs below is evicted
  // What of each pool may be on its way out at a time. Left out: all of it.
  std::optional<MilliGpu> drain_batch;
  std::optional<ComingDrain> coming_drain;
  // For estimates only: when schedules let new jobs start again below a Queue that is held, and what is next
  // of its bounds. Left out: nobody knows.
  std::optional<Time> opens;
  std::optional<ComingShare> coming_share;
  // How long a job below is safe after its start, from other Projects and from its own (RULES.md 5.6). Left
  // out: as the parent says; at the top 0.
  std::optional<Duration> reclaim_min_runtime, preempt_min_runtime;
  // What optional disturbances may cost a job below, in per cent of what it has run, and how long a claimant
  // below waits for its fair share before that is owed to it (RULES.md 5.11). Left out: as the parent says;
  // at the top kMaxOverhead and kPatience.
  std::optional<std::int32_t> max_overhead;
  std::optional<Duration> patience;
  // Idle quota is also lent to non-preemptible jobs of others whose max_runtime is at most this (RULES.md
  // 3.10). Left out: as the parent says; at the top none is lent to them.
  std::optional<Duration> lends_non_preemptible;
  // After this time past use counts half (RULES.md 1.6). Left out: past use does not count.
  std::optional<Duration> half_life;
  Time created;
  Share in_default_pool;
  std::map<std::string, Share> in_pool;  // by pool name. A pool without an entry: quota 0, no limit
  bool operator==(const QueueSpec&) const = default;
};

// What one Queue or Project uses in one pool.
struct Usage {
  Resources allocated;
  Resources borrowed;  // what of it is beyond the quota
  Resources pending;   // what its waiting jobs ask for; each job counts in its first pool
  bool operator==(const Usage&) const = default;
};

// What a child of a Queue with a half-life has held in one pool on average; recent times count more. The
// caller may keep it over a restart.
struct PastUse {
  std::string queue;
  bool is_project = false;
  std::string pool;
  Resources average;
  Time as_of;
  bool operator==(const PastUse&) const = default;
};

}  // namespace muster::placement
