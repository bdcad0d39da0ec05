// HTTP as the client needs it: one round trip, or one stream. CurlTransport does it over TLS and HTTP/2;
// tests and the fault simulation put an in-memory one in its place.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/client/environment.h"
#include "muster/client/error.h"
#include "muster/client/task.h"

namespace muster::client {

enum class Method : std::uint8_t { kGet, kPost, kPut, kPatch, kDelete };

using Headers = std::vector<std::pair<std::string, std::string>>;  // names in lower case in responses

struct HttpRequest {
  Method method = Method::kGet;
  std::string target;  // path and query, as sent: "/api/v1/pods?limit=500"; see also CurlTransport
  Headers headers;     // without Authorization, which the transport adds
  std::string body;
  // Where set: asked when the request is about to be sent, after all that it had to wait for (credentials, a
  // connection, its turn on it). False: it is not sent and ends with kNotSent.
  std::function<bool()> may_send{};
};

struct HttpResponse {
  int status = 0;
  Headers headers;
  std::string body;
};

// A response body that arrives piece by piece. Destroying it aborts the request.
class BodyStream {
 public:
  virtual ~BodyStream() = default;
  // The next bytes, as they came; empty: the end, as the server meant it. An error is final. If `idle` passes
  // without a byte: ErrorCode::kDeadline. Not to be called again before the last call returned.
  virtual Task<Result<std::string>> next(Duration idle) = 0;
};

struct StreamResponse {
  int status = 0;
  Headers headers;
  std::unique_ptr<BodyStream> body;
};

// Any HTTP status is an answer, not an error: errors here are ErrorCode::kNotSent, kUnknownOutcome,
// kDeadline, kCancelled, kConfig. Both calls respect cancellation and leave nothing running behind.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Task<Result<HttpResponse>> round_trip(HttpRequest request, Duration timeout) = 0;
  // Returns with the headers; `timeout` is for them alone.
  virtual Task<Result<StreamResponse>> open(HttpRequest request, Duration timeout) = 0;
};

// nullptr: not there. `name` in lower case.
const std::string* find_header(const Headers& headers, std::string_view name);

}  // namespace muster::client
