// When sessions were last used, asked of their programs over HTTP in the background: no reconcile waits for a
// pod. What is decided with it is the job's life (time_limits.cc).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/client/object.h"
#include "muster/client/task_group.h"
#include "muster/client/transport.h"
#include "muster/reconcilers/common/endpoint_reader.h"
#include "muster/reconcilers/sessions/activity.h"

namespace muster::reconcilers {

struct ActivityMonitorOptions {
  client::Duration timeout = std::chrono::seconds{3};  // of one answer
  std::size_t in_all = 64;                             // asked at once
};

struct ActivityWatch {
  std::string attempt;  // another one begins without a past
  std::string url;      // "": its pod has no address
  crds::Time since{};   // it has run since then; what was before does not count
  crds::Duration timeout{};
};

// How often a session is asked: 20 times in its timeout, between 1 s and 1 min.
client::Duration asking_interval(crds::Duration timeout);

class ActivityMonitor {
 public:
  // `pods` takes whole URLs, and outlives all readings: see readings(). `changed` is called, from the event
  // loop, when a session has answered or has not; never after stop().
  ActivityMonitor(client::Environment env, client::Transport& pods,
                  std::function<void(const client::Key&)> changed, ActivityMonitorOptions options = {});
  ~ActivityMonitor();
  ActivityMonitor(const ActivityMonitor&) = delete;
  ActivityMonitor& operator=(const ActivityMonitor&) = delete;

  // For how long nobody has used it; begins to ask where it is time to. kMissedReadings intervals after the
  // last answer nothing is known any more. A time that lies ahead, by the clock of its node, means now.
  Idleness look(const client::Key& job, ActivityWatch what);
  // When to look again; nullopt: it is not asked.
  std::optional<client::Duration> again(const client::Key& job) const;
  void forget(const client::Key& job);

  // Begins no reading any more. Those under way end by their timeout, or when readings() are cancelled; join
  // them before what they use is destroyed.
  void stop();
  client::TaskGroup& readings();
  const EndpointCounts& counts() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // also held by readings under way
};

}  // namespace muster::reconcilers
