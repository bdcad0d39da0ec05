#include "connection.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <utility>

namespace muster::server {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t kMaxHeaderBytes = 16384;  // a token that names many groups takes several thousand
constexpr auto kFarewell = std::chrono::seconds{1};

std::string text(beast::string_view view) {
  return {view.data(), view.size()};
}

template <class Stream>
class HttpConnection final : public Connection {
 public:
  HttpConnection(Stream& stream, client::Duration patience) : stream_(stream), patience_(patience) {}

  // The next request. False: none comes.
  client::Task<bool> read() {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(kMaxHeaderBytes);
    expires_after(patience_);
    error_code error;
    co_await http::async_read(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return false;
    const auto& read = parser.get();
    request_ = {text(read.method_string()), text(read.target()), text(read[http::field::host]),
                text(read[http::field::origin]), text(read[http::field::authorization])};
    version_ = read.version();
    keep_alive_ = read.keep_alive();
    has_begun_ = is_stream_ = false;
    beast::get_lowest_layer(stream_).expires_never();  // the handler has deadlines of its own
    co_return true;
  }

  client::Task<bool> answer(Answer answer) override {
    http::response<http::string_body> response(static_cast<http::status>(answer.status), version_);
    set_headers(response, answer);
    response.keep_alive(keep_alive_);
    response.body() = std::move(answer.body);
    response.prepare_payload();
    has_begun_ = true;
    expires_after(patience_);
    error_code error;
    co_await http::async_write(stream_, response, asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }

  client::Task<bool> begin(Answer head) override {
    http::response<http::empty_body> response(static_cast<http::status>(head.status), version_);
    set_headers(response, head);
    response.keep_alive(false);
    response.chunked(true);
    has_begun_ = is_stream_ = true;
    http::response_serializer<http::empty_body> serializer(response);
    expires_after(patience_);
    error_code error;
    co_await http::async_write_header(stream_, serializer, asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }

  client::Task<bool> send(std::string bytes) override {
    expires_after(patience_);
    error_code error;
    co_await asio::async_write(stream_, http::make_chunk(asio::buffer(bytes)),
                               asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }

  // After the handler. False: nothing more is to be read here.
  client::Task<bool> finish() {
    if (!is_stream_) co_return has_begun_&& keep_alive_;
    expires_after(kFarewell);
    error_code error;
    co_await asio::async_write(stream_, http::make_chunk_last(),
                               asio::redirect_error(asio::use_awaitable, error));
    co_return false;
  }
  bool has_begun() const { return has_begun_; }

 private:
  template <class Message>
  static void set_headers(Message& message, const Answer& answer) {
    if (!answer.content_type.empty()) message.set(http::field::content_type, answer.content_type);
    for (const auto& [name, value] : answer.headers) message.set(name, value);
  }
  template <class Time>
  void expires_after(Time time) {
    beast::get_lowest_layer(stream_).expires_after(time);
  }

  Stream& stream_;
  client::Duration patience_;
  beast::flat_buffer buffer_;
  unsigned version_ = 11;
  bool keep_alive_ = false, has_begun_ = false, is_stream_ = false;
};

template <class Stream>
client::Task<void> converse(Stream& stream, const ListenOptions& options, const Handler& handler) {
  HttpConnection<Stream> connection(stream, options.patience);
  while (co_await connection.read()) {
    std::string bug;
    try {
      co_await handler(connection);
    } catch (const std::exception& e) {
      bug = e.what();
    }
    if (!bug.empty()) {
      if (options.warn) options.warn("a request ended with an internal error: " + bug);
      if (connection.has_begun()) break;
      if (!co_await connection.answer({500, "internal error: " + bug + "\n"})) break;
    }
    if (!co_await connection.finish()) break;
  }
}

}  // namespace

client::Task<void> talk(tcp::socket socket, std::shared_ptr<TlsContext> tls, const ListenOptions& options,
                        const Handler& handler) {
  error_code error;
  if (!tls) {
    beast::tcp_stream stream(std::move(socket));
    co_await converse(stream, options, handler);
    stream.socket().shutdown(tcp::socket::shutdown_both, error);
    co_return;
  }
  beast::ssl_stream<beast::tcp_stream> stream(beast::tcp_stream(std::move(socket)), *tls);
  beast::get_lowest_layer(stream).expires_after(options.patience);
  co_await stream.async_handshake(asio::ssl::stream_base::server,
                                  asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return;
  co_await converse(stream, options, handler);
  beast::get_lowest_layer(stream).expires_after(kFarewell);
  co_await stream.async_shutdown(asio::redirect_error(asio::use_awaitable, error));
  beast::get_lowest_layer(stream).socket().shutdown(tcp::socket::shutdown_both, error);
}

}  // namespace muster::server
