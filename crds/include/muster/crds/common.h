// Parts that several kinds share.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/crds/field.h"
#include "muster/crds/quantity.h"

namespace muster::crds {

using Json = nlohmann::json;

// JSON kept as it came, cheap to copy: pod templates, whose types are Kubernetes' own.
struct RawJson {
  std::shared_ptr<const Json> value;  // nullptr: absent

  bool operator==(const RawJson& other) const;  // by content
};

// An amount of each resource. What absence means is the owner's business: no guarantee in a quota, no ceiling
// in a limit.
struct Amounts {
  std::optional<MilliGpu> gpu;
  std::optional<MilliCpu> cpu;
  std::optional<Bytes> memory;

  static constexpr auto fields() {
    using T = Amounts;
    return std::tuple(field("gpu", &T::gpu), field("cpu", &T::cpu), field("memory", &T::memory));
  }
  bool operator==(const Amounts&) const = default;
};

// What a Queue or Project has in one further pool.
struct PoolShare {
  std::string name;
  Amounts quota;  // gpu left out: 0; cpu, memory left out: not accounted
  Amounts limit;  // left out: none
  std::int32_t weight = 1;
  std::int32_t priority = 0;

  static constexpr auto fields() {
    using T = PoolShare;
    return std::tuple(field("name", &T::name), field("quota", &T::quota), field("limit", &T::limit),
                      field("weight", &T::weight), field("priority", &T::priority));
  }
  bool operator==(const PoolShare&) const = default;
};

// What a Queue or Project holds and wants in one further pool.
struct PoolUsage {
  std::string name;
  Amounts allocated;
  Amounts borrowed;  // the part of `allocated` beyond quota
  Amounts pending;   // asked for by what waits

  static constexpr auto fields() {
    using T = PoolUsage;
    return std::tuple(field("name", &T::name), field("allocated", &T::allocated),
                      field("borrowed", &T::borrowed), field("pending", &T::pending));
  }
  bool operator==(const PoolUsage&) const = default;
};

// GPUs of one pod.
struct Gpus {
  std::int32_t count = 1;           // whole GPUs, at least 1
  std::vector<std::string> models;  // any of these (label nvidia.com/gpu.product); empty: any

  static constexpr auto fields() {
    using T = Gpus;
    return std::tuple(field("count", &T::count), field("models", &T::models));
  }
  bool operator==(const Gpus&) const = default;
};

// One thing that is lacking.
struct Blocking {
  std::string resource;  // gpu | cpu | memory | pods, or a reason's own word
  std::string pool;
  std::string need;  // quantities
  std::string have;
  std::vector<std::string>
      by;  // who holds it or whose bound it is: "team-a/big", "Queue research"; at most 8

  static constexpr auto fields() {
    using T = Blocking;
    return std::tuple(field("resource", &T::resource), field("pool", &T::pool), field("need", &T::need),
                      field("have", &T::have), field("by", &T::by));
  }
  bool operator==(const Blocking&) const = default;
};

// Why a workload waits: the one reason that binds, with numbers. Empty when it does not wait.
struct Waiting {
  std::int32_t position = 0;          // in its pool's order, from 1; 0: none
  std::int32_t project_position = 0;  // in its project's, from 1; 0: none
  std::string reason;                 // a reason of scheduling: InsufficientCapacity, LimitReached, …
  std::string message;
  std::vector<Blocking> blocking;  // at most 8

  static constexpr auto fields() {
    using T = Waiting;
    return std::tuple(field("position", &T::position, Zero::kOmit),
                      field("projectPosition", &T::project_position, Zero::kOmit),
                      field("reason", &T::reason), field("message", &T::message),
                      field("blocking", &T::blocking));
  }
  bool operator==(const Waiting&) const = default;
};

}  // namespace muster::crds
