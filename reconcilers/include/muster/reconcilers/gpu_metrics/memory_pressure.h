// Who goes elsewhere when the memory of a GPU that is shared fills up (gpus.onMemoryPressure: Priority), and
// when. Pure: readings and times come in. docs/decisions/0096 says why it is so.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/environment.h"
#include "muster/client/object.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// The reason of such a decision: of the condition Evicted, the event, the line in status.disruptions and what
// the ledger counts as lost. The node is not chosen for the job for a while (status.nodeRefusals).
inline constexpr std::string_view kMemoryPressure = "MemoryPressure";

// A GPU counts as full after so many readings that say so, without one in between that is kRelief per cent or
// more below the bound, or missing.
inline constexpr int kFullReadings = 2;
inline constexpr std::int32_t kRelief = 5;
// So long nobody else leaves a GPU that somebody has left, and so long a job does not go again.
inline constexpr std::chrono::minutes kGpuRest{5};
inline constexpr std::chrono::hours kJobRest{1};

// What is remembered of GPUs. A new process begins anew: it acts a reading later, never sooner.
class FullGpus {
 public:
  // One reading, in their order; nullopt: the GPU was not read. True: it is full, and somebody may go.
  bool note(const std::string& gpu, client::TimePoint at, std::optional<std::int32_t> percent,
            std::int32_t bound);
  void has_left(const std::string& gpu, client::TimePoint at);
  // The others are not looked at any more. When somebody was sent away from them is remembered.
  void keep_only(const std::set<std::string>& gpus, client::TimePoint at);

 private:
  struct Gpu {
    int readings = 0;
    std::optional<client::TimePoint> left;
  };
  std::map<std::string, Gpu> gpus_;
};

// A job that has a part of the GPU.
struct Sharer {
  client::Key job;
  bool says_priority = false;
  std::int32_t priority = 0;
  bool is_idle = false;
  bool rests = false;  // it has gone for this within kJobRest
  std::optional<crds::Time> admitted{};
};

// Of those that state Priority one that is idle comes first, then the one of lowest priority, then the one
// admitted last. It goes if it is idle, or another sharer has its priority or a higher one; if it rests
// nobody goes, because those behind it have a better right to stay. nullptr: nobody goes.
const Sharer* who_goes(const std::vector<Sharer>& sharers);

}  // namespace muster::reconcilers
