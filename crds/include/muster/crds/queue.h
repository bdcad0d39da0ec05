// Queue (cluster-scoped): an inner node of the tree of who gets how much.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/condition.h"
#include "muster/crds/metadata.h"
#include "muster/crds/schedule.h"
#include "muster/crds/usage.h"

namespace muster::crds {

struct Fairness {
  Duration half_life{};  // past use counts half after so long

  static constexpr auto fields() { return fields_of(field("halfLife", &Fairness::half_life)); }
  bool operator==(const Fairness&) const = default;
};

// quota, limit, weight and priority at top level mean the default pool.
struct QueueSpec {
  std::string parent;    // empty: top level
  AmountsByModel quota;  // gpu left out: 0; others left out: not accounted
  Amounts reserved;      // the part of it that is never lent; left out: nothing
  Amounts limit;         // left out: none
  std::int32_t weight = 1;
  std::int32_t priority = 0;
  std::vector<PoolShare> pools;
  std::optional<Protection> reclaim;           // from what other queues take back
  std::optional<Protection> preempt;           // from higher priority in the same project
  std::optional<DisruptionPolicy> disruption;  // of what runs below
  std::optional<Lending> lending;              // absent: as the parent, at the top nothing more is lent
  std::optional<Fairness> fairness;  // past use weighs in what the children get; absent: it does not
  Admission admission = Admission::kOpen;
  std::optional<DrainPolicy> drain;  // absent: all at once
  std::vector<Schedule<ScheduledSet>> schedules;

  static constexpr auto fields() {
    using T = QueueSpec;
    return fields_of(field("parent", &T::parent), field("quota", &T::quota), field("reserved", &T::reserved),
                     field("limit", &T::limit), field("weight", &T::weight), field("priority", &T::priority),
                     field("pools", &T::pools), field("reclaim", &T::reclaim), field("preempt", &T::preempt),
                     field("disruption", &T::disruption), field("lending", &T::lending),
                     field("fairness", &T::fairness), field("admission", &T::admission),
                     field("drain", &T::drain), field("schedules", &T::schedules));
  }
  bool operator==(const QueueSpec&) const = default;
};

struct QueueStatus {
  std::int64_t observed_generation = 0;
  Conditions conditions;
  AmountsByModel allocated;  // in the default pool, by everything below
  AmountsByModel borrowed;   // the part of `allocated` beyond quota
  AmountsByModel pending;    // asked for by what waits below
  // What it is entitled to in the default pool, as demand is now.
  AmountsByModel fair_share;
  std::int32_t running = 0;  // workloads that hold something, in all pools
  std::int32_t waiting = 0;  // workloads that wait, in all pools
  std::vector<PoolUsage> pools;
  UsageStatus usage;
  std::optional<NextChange> next_change;  // by spec.schedules
  std::optional<DrainStatus> drain;       // absent: admission is not Drain

  static constexpr auto fields() {
    using T = QueueStatus;
    return fields_of(field("observedGeneration", &T::observed_generation, Zero::kOmit),
                     field("conditions", &T::conditions), field("allocated", &T::allocated),
                     field("borrowed", &T::borrowed), field("pending", &T::pending),
                     field("fairShare", &T::fair_share), field("running", &T::running, Zero::kOmit),
                     field("waiting", &T::waiting, Zero::kOmit), field("pools", &T::pools),
                     field("usage", &T::usage), field("nextChange", &T::next_change),
                     field("drain", &T::drain));
  }
  bool operator==(const QueueStatus&) const = default;
};

struct Queue {
  using Status = QueueStatus;
  static constexpr std::string_view kKind = "Queue";
  static constexpr std::string_view kPlural = "queues";
  static constexpr bool kNamespaced = false;

  ObjectMeta metadata;
  QueueSpec spec;
  QueueStatus status;

  static constexpr auto fields() {
    using T = Queue;
    return fields_of(field("metadata", &T::metadata), field("spec", &T::spec), field("status", &T::status));
  }
  bool operator==(const Queue&) const = default;
};

}  // namespace muster::crds
