// The memory of nodes whose kubelet refused a pod: status.nodeRefusals. A node that refused one is not chosen
// again for a while, because its kubelet knows something that we do not.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/client/pod.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

using Refusals = std::vector<crds::NodeRefusal>;

// Placement says "five minutes" to people.
inline constexpr std::chrono::seconds kRefusalMemory = std::chrono::minutes{5};
inline constexpr std::size_t kMaxRefusals = 32;  // as the schema has it; the oldest goes first

// A refusal by `node` since `since` (the admission of the attempt) is known.
bool has_refused(const Refusals& list, const std::string& node, std::optional<crds::Time> since);
// False: known already.
bool remember_refusal(Refusals& list, const std::string& node, const std::string& reason, crds::Time now,
                      std::optional<crds::Time> since);
// Drops what is older than kRefusalMemory, but for the nodes that are `needed`.
void forget_refusals(Refusals& list, crds::Time now, const std::set<std::string>& needed);

}  // namespace muster::reconcilers
