// Parts that several kinds share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/crds/duration.h"
#include "muster/crds/field.h"
#include "muster/crds/quantity.h"
#include "muster/crds/time.h"

namespace muster::crds {

using Json = nlohmann::json;

// JSON kept as it came, cheap to copy: pod templates, whose types are Kubernetes' own.
struct RawJson {
  std::shared_ptr<const Json> value;  // nullptr: absent

  bool operator==(const RawJson& other) const;  // by content
};

// Of resources by their names ("rdma/hca", "hugepages-2Mi"), in whole units or bytes.
using NamedAmounts = std::map<std::string, std::int64_t>;
// So many of them a bound can state, and a status shows.
inline constexpr std::size_t kMaxNamedAmounts = 6;

// An amount of each resource. What absence means is the owner's business: no guarantee in a quota, no ceiling
// in a limit.
struct Amounts {
  std::optional<MilliGpu> gpu;
  std::optional<MilliCpu> cpu;
  std::optional<Bytes> memory;
  NamedAmounts resources{};

  // Sums stop at the largest number, and kinds at what a status can show.
  void add_resources(const NamedAmounts& more) {
    for (const auto& [name, amount] : more) {
      if (resources.size() == kMaxNamedAmounts && !resources.contains(name)) continue;
      std::int64_t& sum = resources[name];
      sum = (Bytes{sum} + Bytes{amount}).value;
    }
  }

  static constexpr auto fields() {
    using T = Amounts;
    return fields_of(field("gpu", &T::gpu), field("cpu", &T::cpu), field("memory", &T::memory),
                     field("resources", &T::resources));
  }
  bool operator==(const Amounts&) const = default;
};

// GPUs by their model, as the nodes' label nvidia.com/gpu.product names it.
using ModelAmounts = std::map<std::string, MilliGpu>;

// The same, and of the GPUs those of single models. A quota that leaves a model out does not account for it.
struct AmountsByModel : Amounts {
  ModelAmounts models{};

  AmountsByModel() = default;
  AmountsByModel(Amounts amounts) : Amounts(std::move(amounts)) {}  // NOLINT(google-explicit-constructor)

  static constexpr auto fields() {
    using T = AmountsByModel;
    return fields_of(field("gpu", &T::gpu), field("cpu", &T::cpu), field("memory", &T::memory),
                     field("resources", &T::resources), field("models", &T::models));
  }
  bool operator==(const AmountsByModel&) const = default;
};

// Hold: start nothing new. Drain: and let go of what runs.
enum class Admission : std::uint8_t { kOpen, kHold, kDrain };
constexpr std::array<std::string_view, 3> names_of(Admission) {
  return {"Open", "Hold", "Drain"};
}

// How a drain lets go.
struct DrainPolicy {
  std::int32_t max_gpus = 1;  // of each pool, those that leave at a time

  static constexpr auto fields() { return fields_of(field("maxGPUs", &DrainPolicy::max_gpus)); }
  bool operator==(const DrainPolicy&) const = default;
};

// How far a drain is, in workloads. Those that have left had saved since they were asked, or had not.
struct DrainStatus {
  Time started_at{};
  std::int32_t running = 0;  // not asked yet
  std::int32_t saving = 0;   // asked, and not gone yet
  std::int32_t saved = 0, unsaved = 0;
  MilliGpu gpu{};  // still held, in all pools

  static constexpr auto fields() {
    using T = DrainStatus;
    return fields_of(field("startedAt", &T::started_at), field("running", &T::running, Zero::kOmit),
                     field("saving", &T::saving, Zero::kOmit), field("saved", &T::saved, Zero::kOmit),
                     field("unsaved", &T::unsaved, Zero::kOmit), field("gpu", &T::gpu));
  }
  bool operator==(const DrainStatus&) const = default;
};

// What a Queue or Project has in one further pool.
struct PoolShare {
  std::string name;
  AmountsByModel quota;  // gpu left out: 0; others left out: not accounted
  Amounts reserved;      // the part of it that is never lent; left out: nothing
  Amounts limit;         // left out: none
  std::int32_t weight = 1;
  std::int32_t priority = 0;

  static constexpr auto fields() {
    using T = PoolShare;
    return fields_of(field("name", &T::name), field("quota", &T::quota), field("reserved", &T::reserved),
                     field("limit", &T::limit), field("weight", &T::weight), field("priority", &T::priority));
  }
  bool operator==(const PoolShare&) const = default;
};

// What a Queue or Project holds and wants in one further pool.
struct PoolUsage {
  std::string name;
  AmountsByModel allocated;
  AmountsByModel borrowed;  // the part of `allocated` beyond quota
  AmountsByModel pending;   // asked for by what waits
  AmountsByModel fair_share;

  static constexpr auto fields() {
    using T = PoolUsage;
    return fields_of(field("name", &T::name), field("allocated", &T::allocated),
                     field("borrowed", &T::borrowed), field("pending", &T::pending),
                     field("fairShare", &T::fair_share));
  }
  bool operator==(const PoolUsage&) const = default;
};

enum class MemoryPressure : std::uint8_t { kWait, kPriority, kSwap };
constexpr std::array<std::string_view, 3> names_of(MemoryPressure) {
  return {"Wait", "Priority", "Swap"};
}

// GPUs of one pod: one of count, fraction, memory and mig (which may have a count).
struct Gpus {
  std::optional<std::int32_t> count{};    // whole GPUs, or slices of `mig`
  std::optional<MilliGpu> fraction{};     // of one GPU
  std::optional<Bytes> memory{};          // of one GPU
  std::string mig{};                      // profile: "3g.40gb"
  std::optional<std::int32_t> devices{};  // GPUs of which it has the fraction or the memory; absent: 1
  std::optional<Bytes> memory_limit{};    // may burst up to this; absent: `memory`
  std::vector<std::string> models{};      // any of these (NodePool's gpuLabels); empty: any
  std::optional<MemoryPressure> on_memory_pressure{};
  bool overcommit = false;    // may be packed beyond the GPU's memory where the pool allows it
  bool numa_aligned = false;  // all its GPUs, CPUs and memory on one NUMA node

  static constexpr auto fields() {
    using T = Gpus;
    return fields_of(field("count", &T::count), field("fraction", &T::fraction), field("memory", &T::memory),
                     field("mig", &T::mig), field("devices", &T::devices),
                     field("memoryLimit", &T::memory_limit), field("models", &T::models),
                     field("onMemoryPressure", &T::on_memory_pressure),
                     field("overcommit", &T::overcommit, Zero::kOmit),
                     field("numaAligned", &T::numa_aligned, Zero::kOmit));
  }
  bool operator==(const Gpus&) const = default;
};
// Whole GPUs, slices, or GPUs that are shared.
inline std::int32_t devices_of(const Gpus& gpus) {
  return gpus.fraction || gpus.memory ? gpus.devices.value_or(1) : gpus.count.value_or(1);
}

// Whole GPUs for each pod of a role that states nothing.
struct DefaultGpus {
  std::int32_t count = 1;

  static constexpr auto fields() { return fields_of(field("count", &DefaultGpus::count)); }
  bool operator==(const DefaultGpus&) const = default;
};

// Labels of the pool's topology. required: never wider than one such domain; preferred: as near as possible.
struct TopologyRule {
  std::string required, preferred;

  static constexpr auto fields() {
    using T = TopologyRule;
    return fields_of(field("required", &T::required), field("preferred", &T::preferred));
  }
  bool operator==(const TopologyRule&) const = default;
};

// `size` consecutive pods (roles in order, then index) that belong together.
struct TopologyGroup {
  std::int32_t size = 1;
  std::string required, preferred;

  static constexpr auto fields() {
    using T = TopologyGroup;
    return fields_of(field("size", &T::size), field("required", &T::required),
                     field("preferred", &T::preferred));
  }
  bool operator==(const TopologyGroup&) const = default;
};

// Of all pods of a gang together.
struct GangTopology {
  std::string required, preferred;
  std::vector<TopologyGroup> groups;  // coarse to fine

  static constexpr auto fields() {
    using T = GangTopology;
    return fields_of(field("required", &T::required), field("preferred", &T::preferred),
                     field("groups", &T::groups));
  }
  bool operator==(const GangTopology&) const = default;
};

// How long a running job is safe from one way of being made to yield.
struct Protection {
  std::optional<Duration> min_runtime;  // absent: as the parent, at the top 0 s

  static constexpr auto fields() { return fields_of(field("minRuntime", &Protection::min_runtime)); }
  bool operator==(const Protection&) const = default;
};

// What disturbing a job for others may cost, where it is not owed to them.
struct DisruptionPolicy {
  std::optional<std::int32_t> max_overhead;  // per cent of what a job has run; absent: as the parent
  std::optional<Duration> patience;  // a claimant waits so long for its fair share; absent: as the parent

  static constexpr auto fields() {
    return fields_of(field("maxOverhead", &DisruptionPolicy::max_overhead),
                     field("patience", &DisruptionPolicy::patience));
  }
  bool operator==(const DisruptionPolicy&) const = default;
};

// To which work of others idle quota is lent, beside what can be taken back at once.
struct LentToNonPreemptible {
  Duration max_runtime{};  // to that which ends by then

  static constexpr auto fields() {
    return fields_of(field("maxRuntime", &LentToNonPreemptible::max_runtime));
  }
  bool operator==(const LentToNonPreemptible&) const = default;
};
struct Lending {
  std::optional<LentToNonPreemptible> non_preemptible;  // absent: nothing is lent to it

  static constexpr auto fields() { return fields_of(field("nonPreemptible", &Lending::non_preemptible)); }
  bool operator==(const Lending&) const = default;
};

// One thing that is lacking.
struct Blocking {
  std::string resource;  // gpu | cpu | memory | pods, or a reason's own word
  std::string pool;
  std::string need;  // quantities
  std::string have;
  // Who holds it or whose bound it is: "team-a/big", "Queue research"; at most 8.
  std::vector<std::string> by;

  static constexpr auto fields() {
    using T = Blocking;
    return fields_of(field("resource", &T::resource), field("pool", &T::pool), field("need", &T::need),
                     field("have", &T::have), field("by", &T::by));
  }
  bool operator==(const Blocking&) const = default;
};

// What an estimate of a start rests on.
enum class EstimateSource : std::uint8_t {
  kDeclaredRunTimes,  // the `maxRuntime` of what runs
  kHistory,           // also how long jobs of the same Project, user and size ran before
};
constexpr std::array<std::string_view, 2> names_of(EstimateSource) {
  return {"DeclaredRunTimes", "History"};
}

// Why a workload waits: the one reason that binds, with numbers. Empty when it does not wait.
struct Waiting {
  std::int32_t position = 0;          // in its pool's order, from 1; 0: none
  std::int32_t project_position = 0;  // in its project's, from 1; 0: none
  std::string reason;                 // a reason of scheduling: InsufficientCapacity, LimitReached, …
  std::string message;
  std::vector<Blocking> blocking;  // at most 8
  // When it is likely to start, and what that rests on; absent: nobody can say. It does not look at topology,
  // nor at what comes until then.
  std::optional<Time> estimated_start{};
  std::optional<EstimateSource> estimated_start_from{};

  static constexpr auto fields() {
    using T = Waiting;
    return fields_of(field("position", &T::position, Zero::kOmit),
                     field("projectPosition", &T::project_position, Zero::kOmit), field("reason", &T::reason),
                     field("message", &T::message), field("blocking", &T::blocking),
                     field("estimatedStart", &T::estimated_start),
                     field("estimatedStartFrom", &T::estimated_start_from));
  }
  bool operator==(const Waiting&) const = default;
};

}  // namespace muster::crds
