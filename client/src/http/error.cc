#include "muster/client/error.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "http/retry_after.h"

namespace muster::client {

namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, ErrorCode>, 20> kByReason{{
    {"BadRequest", ErrorCode::kBadRequest},
    {"Unauthorized", ErrorCode::kUnauthorized},
    {"Forbidden", ErrorCode::kForbidden},
    {"NotFound", ErrorCode::kNotFound},
    {"MethodNotAllowed", ErrorCode::kMethodNotAllowed},
    {"NotAcceptable", ErrorCode::kNotAcceptable},
    {"AlreadyExists", ErrorCode::kAlreadyExists},
    {"Conflict", ErrorCode::kConflict},
    {"Gone", ErrorCode::kGone},
    {"Expired", ErrorCode::kGone},
    {"RequestEntityTooLarge", ErrorCode::kRequestTooLarge},
    {"UnsupportedMediaType", ErrorCode::kUnsupportedMediaType},
    {"Invalid", ErrorCode::kInvalid},
    {"TooManyRequests", ErrorCode::kTooManyRequests},
    {"InternalError", ErrorCode::kInternal},
    {"ServiceUnavailable", ErrorCode::kServiceUnavailable},
    {"ServerTimeout", ErrorCode::kServerTimeout},
    {"Timeout", ErrorCode::kTimeout},
    {"StoreReadError", ErrorCode::kInternal},
    {"MethodNotSupported", ErrorCode::kMethodNotAllowed},
}};

ErrorCode code_of_status(int status) {
  switch (status) {
    case 400:
      return ErrorCode::kBadRequest;
    case 401:
      return ErrorCode::kUnauthorized;
    case 403:
      return ErrorCode::kForbidden;
    case 404:
      return ErrorCode::kNotFound;
    case 405:
      return ErrorCode::kMethodNotAllowed;
    case 406:
      return ErrorCode::kNotAcceptable;
    case 409:
      return ErrorCode::kConflict;
    case 410:
      return ErrorCode::kGone;
    case 413:
      return ErrorCode::kRequestTooLarge;
    case 415:
      return ErrorCode::kUnsupportedMediaType;
    case 422:
      return ErrorCode::kInvalid;
    case 429:
      return ErrorCode::kTooManyRequests;
    case 500:
      return ErrorCode::kInternal;
    case 503:
      return ErrorCode::kServiceUnavailable;
    case 504:
      return ErrorCode::kTimeout;
    default:
      return ErrorCode::kServerOther;
  }
}

std::string text_at(const json& object, const char* field) {
  auto it = object.find(field);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string{};
}

// Fills reason, message, causes and retry_after; false: not a Status object.
bool read_status(std::string_view body, Error& error) {
  const json status = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!status.is_object() || text_at(status, "kind") != "Status") return false;
  error.reason = text_at(status, "reason");
  error.message = text_at(status, "message");
  auto details = status.find("details");
  if (details == status.end() || !details->is_object()) return true;
  if (auto causes = details->find("causes"); causes != details->end() && causes->is_array()) {
    for (const json& cause : *causes) {
      if (!cause.is_object()) continue;
      const std::string field = text_at(cause, "field");
      const std::string message = text_at(cause, "message");
      error.causes.push_back(field.empty() ? message : field + ": " + message);
    }
  }
  if (auto after = details->find("retryAfterSeconds");
      after != details->end() && after->is_number_unsigned()) {
    error.retry_after = std::chrono::seconds{std::min<std::uint64_t>(after->get<std::uint64_t>(), 86'400)};
  }
  return true;
}

}  // namespace

bool Error::safe_to_repeat() const {
  switch (code) {
    case ErrorCode::kTooManyRequests:
    case ErrorCode::kServiceUnavailable:
    case ErrorCode::kServerTimeout:
    case ErrorCode::kNotSent:
      return true;
    default:
      return false;
  }
}

bool Error::outcome_unknown() const {
  switch (code) {
    case ErrorCode::kUnknownOutcome:
    case ErrorCode::kDeadline:
    case ErrorCode::kCancelled:
    case ErrorCode::kTimeout:
    case ErrorCode::kInternal:  // e.g. "etcdserver: request timed out": the write may yet land
      return true;
    case ErrorCode::kServerOther:
      return http_status >= 500;
    default:
      return false;
  }
}

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBadRequest:
      return "BadRequest";
    case ErrorCode::kUnauthorized:
      return "Unauthorized";
    case ErrorCode::kForbidden:
      return "Forbidden";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kMethodNotAllowed:
      return "MethodNotAllowed";
    case ErrorCode::kNotAcceptable:
      return "NotAcceptable";
    case ErrorCode::kAlreadyExists:
      return "AlreadyExists";
    case ErrorCode::kConflict:
      return "Conflict";
    case ErrorCode::kGone:
      return "Gone";
    case ErrorCode::kRequestTooLarge:
      return "RequestTooLarge";
    case ErrorCode::kUnsupportedMediaType:
      return "UnsupportedMediaType";
    case ErrorCode::kInvalid:
      return "Invalid";
    case ErrorCode::kTooManyRequests:
      return "TooManyRequests";
    case ErrorCode::kInternal:
      return "InternalError";
    case ErrorCode::kServiceUnavailable:
      return "ServiceUnavailable";
    case ErrorCode::kServerTimeout:
      return "ServerTimeout";
    case ErrorCode::kTimeout:
      return "Timeout";
    case ErrorCode::kServerOther:
      return "ServerError";
    case ErrorCode::kNotSent:
      return "NotSent";
    case ErrorCode::kUnknownOutcome:
      return "UnknownOutcome";
    case ErrorCode::kDeadline:
      return "DeadlineExceeded";
    case ErrorCode::kCancelled:
      return "Cancelled";
    case ErrorCode::kDecode:
      return "DecodeError";
    case ErrorCode::kConfig:
      return "ConfigError";
  }
  return "Unknown";
}

std::string to_string(const Error& error) {
  std::string line{to_string(error.code)};
  if (error.http_status != 0) line += " (HTTP " + std::to_string(error.http_status) + ")";
  if (!error.message.empty()) line += ": " + error.message;
  // The API server usually repeats the causes in its message; then they would only lengthen the line.
  for (const std::string& cause : error.causes) {
    const auto colon = cause.find(": ");
    const std::string_view words =
        colon == std::string::npos ? std::string_view{cause} : std::string_view{cause}.substr(colon + 2);
    if (error.message.find(words) == std::string::npos) line += "; " + cause;
  }
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return line;
}

Error error_from_response(int http_status, std::string_view body, std::string_view retry_after_header) {
  Error error;
  error.http_status = http_status;
  error.code = code_of_status(http_status);
  if (read_status(body, error)) {
    for (const auto& [reason, code] : kByReason) {
      if (error.reason == reason) error.code = code;
    }
  } else {
    constexpr std::size_t kExcerpt = 200;  // of a proxy's page
    error.message = std::string{body.substr(0, kExcerpt)};
    // Not the API server's word, so nobody knows whether it acted.
    if (error.code == ErrorCode::kServiceUnavailable) error.code = ErrorCode::kUnknownOutcome;
  }
  if (error.message.empty()) error.message = "HTTP status " + std::to_string(http_status);
  if (const auto pause = read_retry_after_seconds(retry_after_header)) error.retry_after = pause;
  return error;
}

}  // namespace muster::client
