// `kubectl muster tree`: who is entitled to how much, and who has it.
#pragma once

#include <string>
#include <vector>

#include "muster/crds/crds.h"
#include "output/listing.h"

namespace muster::plugin {

// Puts into their specs what holds now by their schedules.
void hold(std::vector<crds::Queue>& queues, std::vector<crds::Project>& projects, crds::Time now);

// Queues with what is below them, each a level deeper; then Queues whose parent is missing, and Projects
// whose Queue is. Amounts are GPUs in the default pool. Siblings are in the order of their names.
Listing tree(const std::vector<crds::Queue>& queues, const std::vector<crds::Project>& projects);

// "[####++--..]": used within the quota, borrowed, quota that is idle, and the rest, of `whole`. All in
// milli-GPU.
std::string bar(std::int64_t quota, std::int64_t used, std::int64_t whole);

}  // namespace muster::plugin
