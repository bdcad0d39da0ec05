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
  struct Callbacks {
    // The lease is ours.
    std::function<void()> on_started;
    // No write may leave this process at `deadline` or later. Called before on_started and after each
    // renewal, each time with a later deadline. It counts from the moment when the renewal was sent, so it
    // comes before anyone else may think that the lease has ended. To be compared with the clock at each
    // write (ApiClient::set_write_deadline): an event loop that is busy calls on_stopped late.
    std::function<void(TimePoint deadline)> on_renewed;
    // The lease is lost, or the election was cancelled while it was ours; then this is called before the
    // lease is released. Comes at the deadline or, where the event loop is busy, as soon as it runs again.
    std::function<void()> on_stopped;
    // Asked when the election was cancelled, after on_stopped. False: the lease is not released but ends in
    // its time, because a write of this process may still arrive. None: it is released.
    std::function<bool()> may_release;
    // Called for every holder that is seen, ourselves included.
    std::function<void(const std::string& identity)> on_new_leader;
  };
  LeaderElection(ApiClient& api, LeaderElectionOptions options, Callbacks callbacks);
  ~LeaderElection();

  // Until leadership is lost (false), or cancelled (true; the lease is then released if held and if it may
  // be: holderIdentity emptied, for which at most 2 s are taken). Needs get, create and update on leases
  // through an ApiClient that still may write.
  Task<bool> run();
  bool is_leader() const;
  const std::string& observed_leader() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::client
