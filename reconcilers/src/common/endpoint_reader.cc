#include "muster/reconcilers/common/endpoint_reader.h"

#include <fmt/format.h>

namespace muster::reconcilers {

std::string metrics_url(const std::string& address, std::int32_t port, const std::string& path) {
  if (address.empty()) return {};
  const bool is_v6 = address.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}{}", is_v6 ? "[" : "", address, is_v6 ? "]" : "", port, path);
}

client::Task<std::string> EndpointReader::ask(Question question, TakeIn take_in, int* status) {
  if (status != nullptr) *status = 0;
  std::string problem = question.shown + " was not asked";
  auto permit = co_await requests_.acquire();
  if (!permit || stopped_) co_return problem;
  client::HttpRequest request;
  request.target = std::move(question.url);
  request.headers = {{"accept", std::move(question.accept)}};
  const auto answer = co_await transport_.round_trip(std::move(request), timeout_);
  permit.release();
  if (answer && status != nullptr) *status = answer->status;
  if (!answer) {
    problem = fmt::format("{}: {}", question.shown, answer.error().message);
  } else if (answer->status != 200) {
    problem = fmt::format("{} answers with {}", question.shown, answer->status);
  } else if (problem = take_in(answer->body); !problem.empty()) {
    problem = fmt::format("{}: {}", question.shown, problem);
  }
  ++(problem.empty() ? counts_.read : counts_.failed);
  co_return problem;
}

client::Task<EndpointReader::Samples> EndpointReader::read(std::string url, client::WantedMetric wanted,
                                                           int* status) {
  Samples samples;
  const TakeIn take_in = [&](const std::string& body) {
    auto parsed = client::parse_exposition(body, wanted);
    if (!parsed) return parsed.error().message;
    samples = std::move(*parsed);
    return std::string();
  };
  std::string problem = co_await ask({url, "text/plain;version=0.0.4", url}, take_in, status);
  if (!problem.empty()) samples = std::unexpected(std::move(problem));
  co_return samples;
}

}  // namespace muster::reconcilers
