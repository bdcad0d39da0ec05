// How many replicas an autoscaled InferenceService is to have, from what its replicas say of themselves.
// Pure: readings and time come in, a size comes out. Knative's windows (a long one, a short one for panic)
// decide upwards, the stabilisation of Kubernetes' HorizontalPodAutoscaler downwards.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "muster/client/environment.h"
#include "muster/crds/inference_service.h"
#include "muster/reconcilers/services/replica_reader.h"

namespace muster::reconcilers {

// A round that was read longer ago than this counts as no reading.
inline constexpr client::Duration kOldestRound = std::chrono::seconds{30};
// Nothing changes while the load is within so many per cent of the target, as with HorizontalPodAutoscalers.
inline constexpr std::int64_t kTolerancePercent = 10;

// What stands in for replicas while there is none.
struct Activation {
  std::int64_t held = 0;     // requests that activators hold for the service
  std::string missing = {};  // why none would be held, as a sentence's end; "": activators listen for it
};

// The mean over the last `window`. However long that is, at most some 100 numbers are kept.
class RollingMean {
 public:
  void add(client::TimePoint at, std::int64_t value, client::Duration window);
  std::int64_t mean() const;  // 0 where nothing was added
  std::int64_t sum() const;   // stops at the end of its range

 private:
  struct Bucket {
    client::TimePoint begin;
    std::int64_t sum = 0, n = 0;
  };
  std::deque<Bucket> buckets_;
};

// What a decision needs to know of the past. A new history knows nothing, so nothing is taken away for
// scaleDownDelay, and limits begin to count from then.
struct ScalingHistory {
  struct Need {
    client::TimePoint at;
    std::int32_t replicas;
  };
  struct Metric {
    RollingMean load, recent_load;
    RollingMean requests, recent_requests;  // of a share of requests
  };
  std::vector<Metric> metrics;                  // as metrics_of()
  std::deque<Need> needs;                       // within scaleDownDelay; each smaller than the one before
  std::deque<Need> sizes;                       // that were in force, for the limits; from `at` on
  std::optional<client::TimePoint> idle_since;  // every reading since then found all replicas idle
  std::int64_t answered = 0;                    // as of the last reading
};

struct ScalingVerdict {
  std::int32_t size = 0;   // within minReplicas and maxReplicas
  bool is_active = false;  // the size follows the load; false: it is held, and why
  std::string reason;
  std::string message;
};

// To be called once for each round, in their order. `size` is the one in force; replicas that start or wait
// for a place count in it.
//  - No reading at all, or an old one: the size is held (within its bounds).
//  - Some replicas were not read: those count as idle, and nothing goes for scaleDownDelay.
//  - Each metric has its wish, and the largest counts.
//  - Upwards at once: to the mean over window divided by target; where the mean over panicWindow asks for
//    twice the size, to that.
//  - Downwards to the most that was needed at any moment of scaleDownDelay. By RequestsWaiting and
//    TimeToFirstToken it is one replica in that time: an empty queue says that there are enough, not how many
//    are too many.
//  - Within scaleUpLimit and scaleDownLimit. The bounds of the size count for more than these.
//  - To zero, where minReplicas is 0: when every reading of scaleToZeroAfter found every replica idle and
//    none has answered a request meanwhile, and activators hold what comes then. Else one replica at least.
//  - At zero nothing changes here: size_for_held() says when a replica is made.
// Requests that activators hold count as load of what serves. Amortised O(1).
ScalingVerdict judge(const crds::Autoscaling& rule, std::int32_t size, const LoadRound& round,
                     ScalingHistory& history, client::TimePoint now, const Activation& activation = {});

// While no replica serves: as many replicas as the requests that are held, divided by the target of the first
// metric that counts requests, from 1 to maxReplicas and within scaleUpLimit (where none counts requests: 1).
// Nothing if that is no more than `size`.
std::optional<ScalingVerdict> size_for_held(const crds::Autoscaling& rule, std::int32_t size,
                                            std::int64_t held);

}  // namespace muster::reconcilers
