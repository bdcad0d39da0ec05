// The operator as one object: caches, reconcilers, scheduling loop and leader election on one event loop.
// Everything it needs from the world comes in as a parameter, so that it runs as well in virtual time against
// an in-memory transport.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "commands/options.h"
#include "muster/client/environment.h"
#include "muster/client/transport.h"
#include "process/metrics.h"

namespace muster::controller {

enum class Ended {
  kAsked,      // request_stop(): writes under way were finished, the lease was given back
  kLostLease,  // somebody else may lead: nothing was written after the renew deadline
};

class Controller {
 public:
  // `pods`: to servers in pods, for whole URLs.
  Controller(client::Environment env, client::Transport& transport, client::Transport& pods,
             const Options& options, Metrics& metrics);
  ~Controller();

  // For tests: called before each reconcile, with the controller's name ("trainingjob"), and before each
  // change of an object is taken in, with its resource ("trainingjobs"). May throw, as a bug would.
  using Probe = std::function<void(std::string_view where, const std::string& key)>;
  void set_probe(Probe probe);

  // Once. Ends by request_stop() (within 30 s) or with the lease.
  client::Task<Ended> run();
  void request_stop();

  bool synced() const;  // all caches hold a complete view: ready
  // A line for each resource whose cache does not: its name and the last error of its watch.
  std::string unsynced() const;
  bool acting() const;  // reconciles (leads, or needs no lease)
  void sample_metrics();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::controller
