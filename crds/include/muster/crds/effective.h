// What a TrainingJob got from its Project.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/duration.h"

namespace muster::crds {

// What a role got from its Project.
struct EffectiveRole {
  std::string name;
  std::optional<DefaultGpus> gpus;
  std::optional<MilliCpu> cpu;  // of each pod
  std::optional<Bytes> memory;

  static constexpr auto fields() {
    using T = EffectiveRole;
    return fields_of(field("name", &T::name), field("gpus", &T::gpus), field("cpu", &T::cpu),
                     field("memory", &T::memory));
  }
  bool operator==(const EffectiveRole&) const = default;
};

// What the spec leaves out and the Project states. It is in force as long as the job holds an assignment.
struct Effective {
  std::string priority_class_name;
  std::vector<std::string> pools;
  std::optional<Duration> max_runtime, idle_timeout;
  std::vector<EffectiveRole> roles;

  static constexpr auto fields() {
    using T = Effective;
    return fields_of(field("priorityClassName", &T::priority_class_name), field("pools", &T::pools),
                     field("maxRuntime", &T::max_runtime), field("idleTimeout", &T::idle_timeout),
                     field("roles", &T::roles));
  }
  bool operator==(const Effective&) const = default;
};

}  // namespace muster::crds
