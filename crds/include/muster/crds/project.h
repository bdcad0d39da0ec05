// Project (cluster-scoped): a leaf of the tree; it claims one namespace, whose workloads are charged to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/condition.h"
#include "muster/crds/metadata.h"

namespace muster::crds {

struct ProjectNamespace {
  std::string name;

  static constexpr auto fields() { return std::tuple(field("name", &ProjectNamespace::name)); }
  bool operator==(const ProjectNamespace&) const = default;
};

// quota, limit, weight and priority at top level mean the default pool.
struct ProjectSpec {
  std::string queue;
  Amounts quota;     // gpu left out: 0; cpu, memory left out: not accounted
  Amounts reserved;  // the part of it that is never lent; left out: nothing
  Amounts limit;     // left out: none
  std::int32_t weight = 1;
  std::int32_t priority = 0;
  std::vector<PoolShare> pools;
  std::optional<Protection> reclaim;  // from what other queues take back
  std::optional<Protection> preempt;  // from higher priority in the same project
  ProjectNamespace ns;                // JSON "namespace"; its name empty: the project's own name

  static constexpr auto fields() {
    using T = ProjectSpec;
    return std::tuple(field("queue", &T::queue), field("quota", &T::quota), field("reserved", &T::reserved),
                      field("limit", &T::limit), field("weight", &T::weight), field("priority", &T::priority),
                      field("pools", &T::pools), field("reclaim", &T::reclaim), field("preempt", &T::preempt),
                      field("namespace", &T::ns));
  }
  bool operator==(const ProjectSpec&) const = default;
};

struct ProjectStatus {
  std::int64_t observed_generation = 0;
  Conditions conditions;
  std::string ns;            // JSON "namespace": the one it claims
  Amounts allocated;         // in the default pool
  Amounts borrowed;          // the part of `allocated` beyond quota
  Amounts pending;           // asked for by what waits
  std::int32_t running = 0;  // workloads that hold something, in all pools
  std::int32_t waiting = 0;  // workloads that wait, in all pools
  std::vector<PoolUsage> pools;

  static constexpr auto fields() {
    using T = ProjectStatus;
    return std::tuple(field("observedGeneration", &T::observed_generation, Zero::kOmit),
                      field("conditions", &T::conditions), field("namespace", &T::ns),
                      field("allocated", &T::allocated), field("borrowed", &T::borrowed),
                      field("pending", &T::pending), field("running", &T::running, Zero::kOmit),
                      field("waiting", &T::waiting, Zero::kOmit), field("pools", &T::pools));
  }
  bool operator==(const ProjectStatus&) const = default;
};

struct Project {
  using Status = ProjectStatus;
  static constexpr std::string_view kKind = "Project";
  static constexpr std::string_view kPlural = "projects";
  static constexpr bool kNamespaced = false;

  ObjectMeta metadata;
  ProjectSpec spec;
  ProjectStatus status;

  static constexpr auto fields() {
    using T = Project;
    return std::tuple(field("metadata", &T::metadata), field("spec", &T::spec), field("status", &T::status));
  }
  bool operator==(const Project&) const = default;
};

// The namespace that a Project claims: spec.namespace.name, or its own name.
inline const std::string& namespace_of(const Project& p) {
  return p.spec.ns.name.empty() ? p.metadata.name : p.spec.ns.name;
}

}  // namespace muster::crds
