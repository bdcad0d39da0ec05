#include "muster/reconcilers/common/endpoint_reader.h"

#include <fmt/format.h>

namespace muster::reconcilers {

std::string metrics_url(const std::string& address, std::int32_t port, const std::string& path) {
  if (address.empty()) return {};
  const bool is_v6 = address.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}{}", is_v6 ? "[" : "", address, is_v6 ? "]" : "", port, path);
}

client::Task<EndpointReader::Samples> EndpointReader::read(std::string url, client::WantedMetric wanted,
                                                           int* status) {
  if (status != nullptr) *status = 0;
  Samples samples = std::unexpected(url + " was not asked");
  auto permit = co_await requests_.acquire();
  if (!permit || stopped_) co_return samples;
  client::HttpRequest request;
  request.target = url;
  request.headers = {{"accept", "text/plain;version=0.0.4"}};
  const auto answer = co_await transport_.round_trip(std::move(request), timeout_);
  permit.release();
  if (answer && status != nullptr) *status = answer->status;
  if (!answer) {
    samples = std::unexpected(fmt::format("{}: {}", url, answer.error().message));
  } else if (answer->status != 200) {
    samples = std::unexpected(fmt::format("{} answers with {}", url, answer->status));
  } else if (auto parsed = client::parse_exposition(answer->body, wanted)) {
    samples = std::move(*parsed);
  } else {
    samples = std::unexpected(fmt::format("{}: {}", url, parsed.error().message));
  }
  ++(samples ? counts_.read : counts_.failed);
  co_return samples;
}

}  // namespace muster::reconcilers
