// A port for each service, and what comes in there: it is held, and passed on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/activator/serve.h"
#include "muster/client/environment.h"
#include "muster/client/object.h"

namespace muster::activator {

// Of all services since the beginning.
struct Counts {
  std::uint64_t passed = 0;   // to a replica
  std::uint64_t full = 0;     // 429
  std::uint64_t crowded = 0;  // 503: too many connections
  std::uint64_t late = 0;     // 504
  std::uint64_t closed = 0;   // 503: the service is gone, or this process ends
  std::uint64_t gone = 0;     // the client went while its request was held
  std::uint64_t wrong = 0;    // 400: no HTTP
};

struct Service {
  int port = 0;
  std::string reason{};  // why it has no replica, in a word; "": nobody says
};

class Doors {
 public:
  // `demand` is called when the requests held for a service have become more or fewer, and when a port was
  // opened or closed; `is_news`: there was none before, or a port has changed.
  Doors(client::Environment env, const ActivatorOptions& options, std::function<void(bool is_news)> demand);
  ~Doors();

  // Those that may be at zero. A port that cannot be had now is tried again.
  void set_service(const client::Key& key, Service service);
  void remove_service(const client::Key& key);
  // The addresses of its replicas that are ready: "10.0.0.1:8000", "[fd00::1]:8000".
  void set_replicas(const client::Key& key, const std::vector<std::string>& ready);

  struct Demand {
    int port = 0;
    std::size_t held = 0;
  };
  std::map<client::Key, Demand> demand() const;  // of those whose port is open
  const Counts& counts() const;

  // Nobody new comes in, and what is held is told so. What was passed on goes on.
  void close();
  // Waits until nothing runs any more, until `deadline` at most; then what still runs is cut off.
  client::Task<void> join(client::TimePoint deadline);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::activator
