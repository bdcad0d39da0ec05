#include "request_head.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>

namespace muster::activator {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

// RFC 9113, 3.4. Without TLS a client that speaks HTTP/2 begins with it.
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::string_view kEnd = "\r\n\r\n";

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

bool is_of_this_connection(http::field name) {
  return name == http::field::connection || name == http::field::keep_alive ||
         name == http::field::proxy_connection;
}

// RFC 9113, 6.5 and 6.8: no settings, and a farewell before any stream was looked at.
std::string farewell() {
  constexpr char kFrames[] =
      "\0\0\0\x04\0\0\0\0\0"
      "\0\0\x08\x07\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0";
  return {kFrames, sizeof kFrames - 1};
}

}  // namespace

std::expected<std::optional<Head>, std::string> read_head(std::string_view came) {
  if (came.starts_with(kPreface)) return Head{Protocol::kHttp2, kPreface.size(), std::string(kPreface)};
  if (kPreface.starts_with(came)) return std::nullopt;
  const auto end = came.find(kEnd);
  if (end == std::string_view::npos) {
    if (came.size() > kMaxHead)
      return std::unexpected(fmt::format("its header is longer than {} bytes", kMaxHead));
    return std::nullopt;
  }
  const std::string_view text = came.substr(0, end + kEnd.size());
  if (text.size() > kMaxHead)
    return std::unexpected(fmt::format("its header is longer than {} bytes", kMaxHead));
  http::request_parser<http::empty_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(kMaxHead));
  parser.body_limit(boost::none);  // it is not read here
  boost::system::error_code error;
  parser.put(boost::asio::buffer(text.data(), text.size()), error);
  if (!parser.is_header_done()) return std::unexpected("it is no HTTP: " + error.message());

  const auto& request = parser.get();
  Head head{Protocol::kHttp1, text.size(), std::string(text)};
  const bool changes = request.find(http::field::upgrade) != request.end() &&
                       http::token_list(request[http::field::connection]).exists("upgrade");
  if (changes) return head;
  head.passed_on = fmt::format("{} {} HTTP/{}.{}\r\n", view(request.method_string()), view(request.target()),
                               request.version() / 10, request.version() % 10);
  for (const auto& field : request) {
    if (!is_of_this_connection(field.name()))
      head.passed_on += fmt::format("{}: {}\r\n", view(field.name_string()), view(field.value()));
  }
  head.passed_on += "Connection: close\r\n\r\n";
  return head;
}

std::string refusal(Protocol protocol, int status, std::string_view text, std::chrono::seconds retry_after) {
  if (protocol == Protocol::kHttp2) return farewell();
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  std::string answer = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n"
      "Cache-Control: no-store\r\n",
      status, view(reason), text.size());
  if (retry_after.count() > 0) answer += fmt::format("Retry-After: {}\r\n", retry_after.count());
  answer += "Connection: close\r\n\r\n";
  answer += text;
  return answer;
}

}  // namespace muster::activator
