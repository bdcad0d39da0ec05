// Endpoints of pods and nodes, read over HTTP: one GET each, without redirects, and without credentials but
// what the URL itself has.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <string>
#include <vector>

#include "muster/client/environment.h"
#include "muster/client/exposition.h"
#include "muster/client/semaphore.h"
#include "muster/client/transport.h"

namespace muster::reconcilers {

// "http://10.0.0.1:8000/metrics"; an address of IPv6 in brackets. "" for an empty address.
std::string metrics_url(const std::string& address, std::int32_t port, const std::string& path);

struct EndpointCounts {
  std::uint64_t read = 0, failed = 0;  // requests; what was not sent counts for neither
};

class EndpointReader {
 public:
  // `transport` takes whole URLs. At most `in_all` requests at once, each given up after `timeout`.
  EndpointReader(client::Environment env, client::Transport& transport, client::Duration timeout,
                 std::size_t in_all)
      : transport_(transport), timeout_(timeout), requests_(std::move(env.executor), in_all) {}

  struct Question {
    std::string url, accept;
    std::string shown;  // the URL in errors, without what may be a secret
  };
  // Takes in an answer with status 200. What is wrong with it; "": nothing.
  using TakeIn = std::function<std::string(const std::string& body)>;
  // Asks one endpoint; waits for its turn. What went wrong, a sentence that begins with the URL; "": nothing.
  // `status` gets that of HTTP; 0: no answer came. It and the reader outlive the call.
  client::Task<std::string> ask(Question question, TakeIn take_in, int* status = nullptr);

  using Samples = std::expected<std::vector<client::Sample>, std::string>;
  // The wanted samples of one endpoint of metrics, asked for in the same way.
  client::Task<Samples> read(std::string url, client::WantedMetric wanted, int* status = nullptr);
  // Sends nothing any more; those who wait for their turn get an error.
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }
  const EndpointCounts& counts() const { return counts_; }

 private:
  client::Transport& transport_;
  client::Duration timeout_;
  client::Semaphore requests_;  // on their way
  EndpointCounts counts_;
  bool stopped_ = false;
};

}  // namespace muster::reconcilers
