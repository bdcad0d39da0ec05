// What can go wrong between us and an API server, as a value.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::client {

enum class ErrorCode : std::uint8_t {
  // Said by the API server, in a Status object (its `reason`) or, where there is none, by HTTP status.
  kBadRequest,            // 400
  kUnauthorized,          // 401
  kForbidden,             // 403
  kNotFound,              // 404
  kMethodNotAllowed,      // 405
  kNotAcceptable,         // 406
  kAlreadyExists,         // 409, reason AlreadyExists
  kConflict,              // 409
  kGone,                  // 410, reasons Gone and Expired: list again
  kRequestTooLarge,       // 413
  kUnsupportedMediaType,  // 415
  kInvalid,               // 422
  kTooManyRequests,       // 429: not executed
  kInternal,              // 500
  kServiceUnavailable,    // 503 that the API server itself says, in a Status: not executed
  kServerTimeout,         // 500 with reason ServerTimeout: not executed, ask again
  kTimeout,               // 504 and reason Timeout: outcome unknown
  kServerOther,           // any other status >= 400
  // Ours.
  kNotSent,  // the connection failed before the request could have been executed: safe to repeat
  // The request may have been executed: read before repeating. The connection failed after the request was
  // sent, or a 503 came whose body is not the API server's own Status: gateways and load balancers answer so
  // when the server behind them went away in the middle of a request.
  kUnknownOutcome,
  kDeadline,   // our deadline passed; as unknown an outcome as kUnknownOutcome
  kCancelled,  // the caller withdrew; as unknown an outcome as kUnknownOutcome
  kDecode,     // the body is not what it should be
  kConfig,     // kubeconfig, certificate, token: `message` names file and field
};

// `reason`, `message`, `field_errors` are the API server's own words where it spoke.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  int http_status = 0;  // 0: no answer
  std::string reason{};
  std::string message{};
  std::vector<std::string> causes{};                       // `details.causes`, as "field: message"
  std::optional<std::chrono::milliseconds> retry_after{};  // header Retry-After or details.retryAfterSeconds

  // The request cannot have taken effect, and the same request may succeed later.
  bool safe_to_repeat() const;
  // The request may or may not have taken effect: read first.
  bool outcome_unknown() const;
};

std::string_view to_string(ErrorCode code);
std::string to_string(const Error& error);  // one line, for logs and conditions

template <class T>
using Result = std::expected<T, Error>;

// The typed form of a non-2xx answer. `body` may be a Status object or anything else (a proxy's page);
// `retry_after_header` is the raw header or empty.
Error error_from_response(int http_status, std::string_view body, std::string_view retry_after_header);

}  // namespace muster::client
