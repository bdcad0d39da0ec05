// Who holds what of each node, added up from the gangs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "world/world.h"

namespace muster::simulate {

struct GpuUse {
  std::int64_t milli = 0;
  std::int64_t bytes = 0;         // of those who ask for memory
  bool overcommit = true;         // all of them bear more than there is
  std::vector<std::string> pods;  // "team-a/big-worker-0"
};
struct NodeUse {
  std::map<std::int32_t, GpuUse> gpus;
  pl::Resources amounts;  // gpu left out
  pl::NamedAmounts named;
};

// By node. Pods that are leaving count until they are gone. O(pods).
std::map<std::string, NodeUse> occupancy(const World& world);

// Pods of a service are counted through all its replicas.
std::int32_t index_in_service(const Gang& gang, std::string_view role, std::int32_t index);
// "team-a/big-worker-0"; `of`: what the place's role is one of.
std::string pod_name(const Gang& gang, const pl::JobSpec& of, const pl::PodPlace& pod);

}  // namespace muster::simulate
