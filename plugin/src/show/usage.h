// `kubectl muster usage`: what was used, by whom, and how much of it was of use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/crds.h"
#include "output/listing.h"

namespace muster::plugin {

// Whole days of UTC: today, and the days before it. kAll: since the object was made.
enum class Since : std::uint8_t { kDay, kWeek, kMonth, kAll };

struct UsageLine {
  std::string name;
  crds::Usage used;
  bool has_parts = true;  // false: what starting, saving and idling took is not known
  bool has_lost = true;
  bool has_cpus = true;                          // CPUs and memory
  std::optional<crds::Time> until;               // nothing later is counted; absent: nothing was counted yet
  std::optional<std::int64_t> unallocated = {};  // of a pool: GPU-seconds that nobody held
};

// One line each, in the order of their names.
std::vector<UsageLine> usage_by_project(const std::vector<crds::Project>& projects, Since since);
std::vector<UsageLine> usage_by_queue(const std::vector<crds::Queue>& queues, Since since);
// Summed over Projects, without CPUs and memory. The one with most comes first. Not for kAll: the days go
// back 31 days at most.
std::vector<UsageLine> usage_by_user(const std::vector<crds::Project>& projects, Since since);
// `pools`: those that tell what nobody held have a line even if nobody used them.
std::vector<UsageLine> usage_by_pool(const std::vector<crds::Project>& projects, Since since,
                                     const std::vector<crds::NodePool>& pools = {});
std::vector<UsageLine> usage_by_model(const std::vector<crds::Project>& projects, Since since);
// In the life of each job until now: what it ran before, and since it was admitted or last changed its size.
// Jobs without GPUs are left out. The one with most comes first.
std::vector<UsageLine> usage_by_job(const std::vector<crds::TrainingJob>& jobs, crds::Time now);

// `title`: of the first column. In data, GPU time is in hours with three decimals.
Listing usage(const std::vector<UsageLine>& lines, const std::string& title, crds::Time now);

}  // namespace muster::plugin
