// The tables of the model (model.h).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace muster::ui {

enum class Table : std::uint8_t {
  kAbout,     // what is read, and what may not be
  kQueues,    // by name
  kProjects,  // by name
  kUsage,     // GPU time by day: "queue/NAME", "project/NAME"
  kPools,     // by name
  kNodes,     // by name
  kJobs,      // by "namespace/name"
  kPlaces,    // the GPUs that a job holds; the same keys
  kServices,  // by "namespace/name"
};
inline constexpr std::array<std::string_view, 9> kTableNames = {
    "about", "queues", "projects", "usage", "pools", "nodes", "jobs", "places", "services"};

}  // namespace muster::ui
