#include "explain/words.h"

#include <chrono>

#include "muster/common/quantity.h"
#include "muster/common/time.h"
#include "muster/placement/plan.h"

namespace muster::placement {

std::string join(const std::vector<std::string>& list, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < list.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + list[i];
  if (list.size() > most) text += ", …";
  return text;
}

std::string who(const QueueSpec& spec) {
  return (spec.is_project ? "Project " : "Queue ") + spec.name;
}

std::string show(std::string_view resource, std::int64_t amount) {
  return common::format_resource(resource, amount);
}

std::string show(Time at) {
  const std::chrono::sys_time<std::chrono::milliseconds> instant{std::chrono::milliseconds{at.ms}};
  return common::format_time(std::chrono::ceil<std::chrono::seconds>(instant));
}

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
    case Reason::kInsufficientCapacity:
      return "InsufficientCapacity";
    case Reason::kFragmented:
      return "Fragmented";
    case Reason::kTopologyUnsatisfiable:
      return "TopologyUnsatisfiable";
    case Reason::kFairShareReached:
      return "FairShareReached";
    case Reason::kWaitingForVictims:
      return "WaitingForVictims";
    case Reason::kReserved:
      return "Reserved";
    case Reason::kNoMatchingNodes:
      return "NoMatchingNodes";
    case Reason::kNoDefaultPool:
      return "NoDefaultPool";
    case Reason::kLimitReached:
      return "LimitReached";
    case Reason::kQuotaExceeded:
      return "QuotaExceeded";
    case Reason::kQueueHeld:
      return "QueueHeld";
    case Reason::kProjectNotFound:
      return "ProjectNotFound";
    case Reason::kInvalidSpec:
      return "InvalidSpec";
  }
  return "";
}

std::string_view to_string(EvictReason reason) {
  switch (reason) {
    case EvictReason::kNone:
      return "";
    case EvictReason::kReclaimed:
      return "Reclaimed";
    case EvictReason::kPreempted:
      return "Preempted";
    case EvictReason::kConsolidated:
      return "Consolidated";
    case EvictReason::kNodeFailed:
      return "NodeFailed";
    case EvictReason::kDrained:
      return "Drained";
    case EvictReason::kPlacesLost:
      return "PlacesLost";
  }
  return "";
}

std::string unit_of(const PoolSpec& pool, std::string_view resource) {
  if (resource == "gpu") return pool.gpu_resource;
  if (resource == "cpu") return "CPUs";
  if (resource.starts_with(common::kModelPrefix))
    return pool.gpu_resource + " of " + std::string(resource.substr(common::kModelPrefix.size()));
  return resource == "pods" ? "pod slots" : std::string(resource);
}

}  // namespace muster::placement
