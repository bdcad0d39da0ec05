// How many replicas an autoscaled InferenceService is to have, from what its replicas say of themselves.
// Pure: readings and time come in, a size comes out. Knative's windows (a long one, a short one for panic)
// decide upwards, the stabilisation of Kubernetes' HorizontalPodAutoscaler downwards.
#pragma once

#include <cstdint>
#include <deque>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "muster/client/environment.h"
#include "muster/client/exposition.h"
#include "muster/crds/inference_service.h"

namespace muster::reconcilers {

// A sample may carry a time of its own. If that is longer ago than this, the sample is refused.
inline constexpr std::chrono::seconds kOldestSample{60};
// A round that was read longer ago than this counts as no reading.
inline constexpr client::Duration kOldestRound = std::chrono::seconds{30};
// Nothing changes while the load is within so many per cent of the target, as with HorizontalPodAutoscalers.
inline constexpr std::int64_t kTolerancePercent = 10;

// Whether any server's name for the metric is this one; for parse_exposition().
bool is_name_of(crds::ServingMetric metric, std::string_view name);
// What one server says of `metric`, under the names that vLLM, SGLang, TensorRT-LLM and Triton have for it. A
// server with several engines or models has several series: they are added up, and of KVCacheUtilization the
// mean is taken. The error is a sentence: none of the names is there, a value is no amount, or it is older
// than kOldestSample.
std::expected<crds::MilliLoad, std::string> load_of(crds::ServingMetric metric,
                                                    const std::vector<client::Sample>& samples,
                                                    client::WallTime now);

// What a server does at all, whatever metric its size follows: asked of services that may be at zero.
struct Activity {
  bool is_idle = false;       // no request runs in it, and none waits
  std::int64_t answered = 0;  // requests that it has counted so far; 0 also where it does not count them
};
// Every name that activity_of() may look at; for parse_exposition().
bool is_name_of_activity(std::string_view name);
// The error is a sentence: it does not say whether requests run, or whether they wait.
std::expected<Activity, std::string> activity_of(const std::vector<client::Sample>& samples,
                                                 client::WallTime now);

// One reading of all replicas that serve.
struct LoadRound {
  client::TimePoint at{};    // when it was complete
  std::int32_t serving = 0;  // replicas that were asked
  std::int32_t read = 0;     // those of them that answered
  crds::MilliLoad load{};    // of these together
  std::string problem{};     // of one that did not
  // With minReplicas 0, of these together: see Activity.
  bool is_idle = false;
  std::int64_t answered = 0;
  std::string idle_problem{};  // of one that did not say whether it is idle
};

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

 private:
  struct Bucket {
    client::TimePoint begin;
    std::int64_t sum = 0, n = 0;
  };
  std::deque<Bucket> buckets_;
};

// What a decision needs to know of the past. A new history knows nothing, so nothing is taken away for
// scaleDownDelay.
struct ScalingHistory {
  struct Need {
    client::TimePoint at;
    std::int32_t replicas;
  };
  RollingMean load, recent_load;
  std::deque<Need> needs;                       // within scaleDownDelay; each smaller than the one before
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
//  - Upwards at once: to the mean over window divided by target; where the mean over panicWindow asks for
//    twice the size, to that.
//  - Downwards to the most that was needed at any moment of scaleDownDelay. By RequestsWaiting it is one
//    replica in that time: an empty queue says that there are enough, not how many are too many.
//  - To zero, where minReplicas is 0: when every reading of scaleToZeroAfter found every replica idle and
//  none
//    has answered a request meanwhile, and activators hold what comes then. Else one replica at least.
//  - At zero nothing changes here: size_for_held() says when a replica is made.
// Requests that activators hold count as load of what serves. Amortised O(1).
ScalingVerdict judge(const crds::Autoscaling& rule, std::int32_t size, const LoadRound& round,
                     ScalingHistory& history, client::TimePoint now, const Activation& activation = {});

// While no replica serves: as many replicas as the requests that are held, divided by the target, from 1 to
// maxReplicas (by KVCacheUtilization: 1). Nothing if that is no more than `size`.
std::optional<ScalingVerdict> size_for_held(const crds::Autoscaling& rule, std::int32_t size,
                                            std::int64_t held);

}  // namespace muster::reconcilers
