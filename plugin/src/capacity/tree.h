// `kubectl muster tree`: who is entitled to how much, and who has it.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "muster/crds/crds.h"
#include "output/listing.h"

namespace muster::plugin {

// Puts into their specs what holds now by their schedules.
void hold(std::vector<crds::Queue>& queues, std::vector<crds::Project>& projects, crds::Time now);

// Queues with what is below them, each a level deeper; then Queues whose parent is missing, and Projects
// whose Queue is. Siblings are in the order of their names. Amounts are GPUs in `pool`; "": in the default
// pool. The others are told below, with what is held and waited for. The error says that nobody has anything
// in that pool.
std::expected<Listing, std::string> tree(std::vector<crds::Queue> queues, std::vector<crds::Project> projects,
                                         const std::string& pool = {});

// What jobs of one namespace hold and wait for, in one line: for whoever may see no more. `pool` empty: in
// all pools.
Listing tree_of_namespace(const std::string& ns, const std::vector<crds::TrainingJob>& jobs,
                          const std::string& pool);

// All in milli-GPU.
struct BarAmounts {
  std::int64_t quota = 0, used = 0;
  std::int64_t pending = 0;
  std::int64_t fair_share = 0;  // 0: not shown
};
// "[####++~~|-..]": used within the quota, borrowed, waited for, quota that is idle, and the rest, of
// `whole`.
// '|' takes the cell in which the fair share ends.
std::string bar(const BarAmounts& of, std::int64_t whole);

}  // namespace muster::plugin
