// What probes, scrapers and the operator ask an activator.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "doors.h"
#include "muster/client/environment.h"
#include "muster/server/listener.h"

namespace muster::activator {

// How many requests are held for whom, with a number that grows with every change.
class DemandBoard {
 public:
  explicit DemandBoard(client::Environment env);
  // `is_news`: whoever waits hears of it at once, and not only within a second.
  void changed(bool is_news);
  // Returns when there is something newer than `after`, or after a while. The number of what is there then.
  client::Task<std::int64_t> wait(std::int64_t after);

 private:
  client::Environment env_;
  std::int64_t version_;  // no other process has the same
  client::TimePoint told_at_{};
  bool is_untold_ = false;
};

// "/healthz", "/readyz", "/metrics", "/demand?after=N".
std::expected<std::unique_ptr<server::Listener>, std::string> listen_for_questions(
    client::Environment env, const ActivatorOptions& options, Doors& doors, DemandBoard& board,
    std::function<bool()> is_ready);

}  // namespace muster::activator
