// Jobs that have to end before another one begins.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/crds/common.h"

namespace muster::crds {

// How another job has to end. Finished: Complete or Failed.
enum class DependencyCondition : std::uint8_t { kComplete, kFinished };
constexpr std::array<std::string_view, 2> names_of(DependencyCondition) {
  return {"Complete", "Finished"};
}

// Another TrainingJob of the same namespace that has to end first.
struct Dependency {
  std::string name;
  DependencyCondition condition = DependencyCondition::kComplete;

  static constexpr auto fields() {
    return fields_of(field("name", &Dependency::name), field("condition", &Dependency::condition));
  }
  bool operator==(const Dependency&) const = default;
};

}  // namespace muster::crds
