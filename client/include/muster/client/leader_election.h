// Leader election on a coordination.k8s.io/v1 Lease, with client-go's protocol and times. Only locally
// observed times are compared, so clocks may differ between candidates.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/client/api.h"

namespace muster::client {

struct LeaderElectionOptions {
  ObjectRef lease;
  std::string identity;  // unique per process
  Duration lease_duration = std::chrono::seconds{15};
  Duration renew_deadline = std::chrono::seconds{10};
  Duration retry_period = std::chrono::seconds{2};
};

class LeaderElection {
 public:
  // `on_stopped` is called at the renew deadline at the latest, whatever becomes of the request under way:
  // after it returns no write may leave this process. The deadline counts from the moment the last successful
  // renewal was sent, so that it comes before anyone else's lease duration ends. It is also called when a
  // leader is cancelled, before the lease is released. `on_new_leader` hears of every holder seen, ourselves
  // among them.
  struct Callbacks {
    std::function<void()> on_started;
    std::function<void()> on_stopped;
    std::function<void(const std::string& identity)> on_new_leader;
  };
  LeaderElection(ApiClient& api, LeaderElectionOptions options, Callbacks callbacks);
  ~LeaderElection();

  // Until leadership is lost (false), or cancelled (true; the lease is then released if held: holderIdentity
  // emptied, for which at most 2 s are taken). Needs get, create and update on leases through an ApiClient
  // that still may write.
  Task<bool> run();
  bool is_leader() const;
  const std::string& observed_leader() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::client
