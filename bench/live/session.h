// How a phase of a benchmark speaks to the API server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "live/boards.h"
#include "live/cluster.h"
#include "muster/client/config.h"
#include "muster/client/curl_transport.h"

namespace muster::bench {

using std::chrono::milliseconds;

// Objects to be created, and how it went. Shared with the coroutines, which may outlive a phase that failed.
struct Creation {
  client::Resource resource;
  std::string ns;
  std::vector<std::string> bodies{};  // made beforehand: to write them takes the bare client no time

  std::size_t next = 0, answered = 0;
  std::vector<SteadyTime> sent{};  // by index
  SteadyTime last_answer{};
  std::string error{};  // the first

  bool failed() const { return !error.empty(); }
};

// Creates those that nobody has begun, one after the other.
client::Task<void> create_some(client::ApiClient& api, std::shared_ptr<Creation> work);

// A connection of its own for each phase, and the watches on it.
class Session {
 public:
  // Returns when both watches are synced.
  static Outcome<std::unique_ptr<Session>> open(const BenchCluster& cluster, const std::string& ns);
  Session(client::ClientConfig config, const std::string& ns);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  PodBoard& pods() { return pods_; }
  JobBoard& jobs() { return jobs_; }
  client::ApiClient& api() { return api_; }
  const client::Environment& environment() const { return env_; }

  // Runs the loop until `done` says so; false at the deadline.
  bool run_until(milliseconds timeout, const std::function<bool()>& done);
  void pause(milliseconds time) {
    run_until(time, [] { return false; });
  }
  void start(const std::shared_ptr<Creation>& work, std::size_t in_flight);
  // Deletes all objects of the kind in the namespace at once, without grace, until none is left.
  Outcome<void> clear(const client::Resource& resource, const std::function<bool()>& gone);

 private:
  boost::asio::cancellation_signal stop_pods_, stop_jobs_;  // outlive what they cancel
  boost::asio::io_context loop_{1};
  client::RealClock clock_;
  client::RandomSource random_{client::RandomSource::seed_from_system()};
  client::Environment env_;
  client::CurlTransport transport_;
  client::ApiClient api_;
  std::string ns_;
  PodBoard pods_;
  JobBoard jobs_;
};

}  // namespace muster::bench
