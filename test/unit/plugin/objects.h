// Objects for the tests of kubectl-muster.
#pragma once

#include <string>

#include "muster/crds/crds.h"

namespace muster::plugin {

using namespace std::chrono_literals;

inline constexpr crds::Time kNow{std::chrono::sys_days{std::chrono::year{2026} / 3 / 4} + 12h};

inline crds::Amounts gpu(std::int64_t count) {
  crds::Amounts a;
  a.gpu = crds::MilliGpu{count * 1000};
  return a;
}

inline crds::TrainingJob job(const std::string& name, crds::Phase phase) {
  crds::TrainingJob j;
  j.metadata.ns = "nlp";
  j.metadata.name = name;
  j.metadata.creation_timestamp = kNow - 1h;
  j.status.phase = phase;
  return j;
}

inline crds::TrainingJob waiting(const std::string& name, std::int32_t position) {
  auto j = job(name, crds::Phase::kQueued);
  j.status.conditions = {
      {"Admitted", crds::ConditionStatus::kFalse, 1, kNow - 5min, "InsufficientCapacity", "m"}};
  j.status.queue.reason = "InsufficientCapacity";
  j.status.queue.message = "needs 24 nvidia.com/gpu in pool a100, 8 free of 32; held by nlp/first (24)";
  j.status.queue.position = position;
  j.status.queue.project_position = 1;
  return j;
}

}  // namespace muster::plugin
