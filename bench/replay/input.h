// A replay as objects that the simulation reads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "replay/workload.h"

namespace muster::bench {

enum class Policy : std::uint8_t {
  kBorrowing,     // quotas guaranteed, idle ones lent, taken back on demand
  kStaticQuotas,  // each project's limit is its quota
  kFifo,          // one project that may have everything: by age alone
};
std::string_view to_string(Policy policy);

// Programs save by themselves every so often, and do not save when they are asked to: they hold their GPUs
// until the grace period is over, and go back to the last checkpoint.
inline constexpr std::int64_t kSavesEverySeconds = 1800, kGraceSeconds = 30;

inline constexpr const char* kMusterVersion = "muster.dev/v1alpha1";

nlohmann::json node_object(const TraceNode& n);
// A Queue or Project.
nlohmann::json muster_object(const char* kind, const std::string& name, nlohmann::json spec);

// Under kBorrowing idle quota is lent to jobs that are not preemptible either, if they end within `lending`
// seconds; each states twice its real run as its maxRuntime. 0: it is not, and none does.
std::string simulation_input(const std::vector<TraceNode>& nodes, const std::vector<ReplayProject>& projects,
                             const ReplayWorkload& workload, Policy policy, std::int64_t lending = 0);

}  // namespace muster::bench
