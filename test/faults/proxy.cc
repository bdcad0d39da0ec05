#include "proxy.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
// Asio is compiled apart (client/src/tasks/asio.cc); its TLS part is needed here alone.
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

namespace muster::faults {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using Request = http::request<http::string_body>;
using TlsStream = asio::ssl::stream<Tcp::socket>;

// One thread per connection, all calls blocking: a test's proxy has a handful of them, and its order of
// events can be read from top to bottom.
struct Proxy::Impl {
  explicit Impl(Upstream u) : upstream(std::move(u)), tls(asio::ssl::context::tls_client), acceptor(io) {
    tls.load_verify_file(upstream.ca.string());
    tls.use_certificate_chain_file(upstream.certificate.string());
    tls.use_private_key_file(upstream.key.string(), asio::ssl::context::pem);
    tls.set_verify_mode(asio::ssl::verify_peer);
    acceptor.open(Tcp::v4());
    acceptor.bind(Tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    acceptor.listen();
    accepting = std::thread([this] { accept_all(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      for (const int fd : open) ::shutdown(fd, SHUT_RDWR);
    }
    silence.notify_all();
    ::shutdown(acceptor.native_handle(), SHUT_RDWR);
    accepting.join();
    for (std::thread& t : serving) t.join();
  }

  // A socket that the destructor can wake.
  struct Open {
    Open(Impl& i, Tcp::socket& s) : impl(i), fd(s.native_handle()) {
      const std::lock_guard lock(impl.mutex);
      place = impl.open.insert(impl.open.end(), fd);
      if (impl.stopping) ::shutdown(fd, SHUT_RDWR);
    }
    ~Open() {
      const std::lock_guard lock(impl.mutex);
      impl.open.erase(place);
    }
    Impl& impl;
    int fd;
    std::list<int>::iterator place;
  };

  void accept_all() {
    while (true) {
      boost::system::error_code error;
      Tcp::socket socket(io);
      acceptor.accept(socket, error);
      const std::lock_guard lock(mutex);
      if (stopping) return;
      if (error) continue;
      serving.emplace_back([this, s = std::move(socket)]() mutable { serve(s); });
    }
  }

  void serve(Tcp::socket& client) {
    const Open registered(*this, client);
    beast::flat_buffer buffer;
    try {
      client.set_option(Tcp::no_delay(true));
      while (true) {
        Request request;
        http::read(client, buffer, request);
        if (!answer(client, request)) break;
      }
    } catch (const boost::system::system_error&) {
      // The client or the server went away: so goes this connection.
    }
    boost::system::error_code ignored;
    client.close(ignored);
  }

  // False: the connection is to be closed.
  bool answer(Tcp::socket& client, Request& request) {
    Harm harm;
    {
      const std::lock_guard lock(mutex);
      if (judge) harm = judge({std::string(request.method_string()), std::string(request.target())});
      if (harm.kind != HarmKind::kNone) ++harmed;
      if (harm.kind != HarmKind::kAnswer) ++forwarded[std::string(request.method_string())];
    }
    if (harm.kind == HarmKind::kAnswer) {
      say(client, harm);
      return true;
    }
    Tcp::socket raw(io);
    raw.connect(Tcp::endpoint(asio::ip::address_v4::loopback(), upstream.port));
    const Open registered(*this, raw);
    TlsStream server(std::move(raw), tls);
    server.handshake(asio::ssl::stream_base::client);
    request.set(http::field::connection, "close");
    http::write(server, request);
    return relay(server, client, harm);
  }

  static void say(Tcp::socket& client, const Harm& harm) {
    http::response<http::string_body> response;
    response.version(11);
    response.result(static_cast<unsigned>(harm.status));
    response.set(http::field::content_type, "application/json");
    if (!harm.retry_after.empty()) response.set(http::field::retry_after, harm.retry_after);
    response.body() = harm.body;
    response.prepare_payload();
    http::write(client, response);
  }

  // The body goes on in chunks as it comes, whatever its form was.
  bool relay(TlsStream& server, Tcp::socket& client, const Harm& harm) {
    beast::flat_buffer buffer;
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    http::read_header(server, buffer, parser);
    if (harm.kind == HarmKind::kLostAnswer || harm.kind == HarmKind::kReplaced) {
      read_rest(server, buffer, parser);
      if (harm.kind == HarmKind::kLostAnswer) return false;
      say(client, harm);
      return true;
    }
    write_header(client, parser);
    std::size_t sent = 0;
    while (!parser.is_done()) {
      char bytes[16 << 10];
      parser.get().body().data = bytes;
      parser.get().body().size = sizeof bytes;
      boost::system::error_code error;
      http::read_some(server, buffer, parser, error);
      if (error && error != http::error::need_buffer) throw boost::system::system_error(error);
      const std::string piece(bytes, sizeof bytes - parser.get().body().size);
      const std::optional<bool> ended = pass_on(client, harm, piece, sent);
      if (ended) return *ended;
      sent += piece.size();
    }
    asio::write(client, asio::buffer("0\r\n\r\n", 5));
    return true;
  }

  static void read_rest(TlsStream& server, beast::flat_buffer& buffer,
                        http::response_parser<http::buffer_body>& parser) {
    char bytes[4096];
    while (!parser.is_done()) {
      parser.get().body().data = bytes;
      parser.get().body().size = sizeof bytes;
      boost::system::error_code error;
      http::read_some(server, buffer, parser, error);
      if (error && error != http::error::need_buffer) return;
    }
  }

  static void write_header(Tcp::socket& client, http::response_parser<http::buffer_body>& parser) {
    std::string head =
        "HTTP/1.1 " + std::to_string(parser.get().result_int()) + " x\r\ntransfer-encoding: chunked\r\n";
    for (const auto& field : parser.get()) {
      if (field.name() == http::field::transfer_encoding || field.name() == http::field::content_length ||
          field.name() == http::field::connection) {
        continue;
      }
      head += std::string(field.name_string()) + ": " + std::string(field.value()) + "\r\n";
    }
    asio::write(client, asio::buffer(head + "\r\n"));
  }

  static void write_chunk(Tcp::socket& client, std::string_view bytes) {
    if (bytes.empty()) return;
    char size[24];
    const int n = std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
    std::string chunk(size, static_cast<std::size_t>(n));
    asio::write(client, asio::buffer(chunk.append(bytes).append("\r\n")));
  }

  // nullopt: go on. Otherwise the answer is over, and the value says whether the connection may live.
  std::optional<bool> pass_on(Tcp::socket& client, const Harm& harm, const std::string& piece,
                              std::size_t sent) {
    const std::size_t until = harm.after > sent ? harm.after - sent : 0;
    const bool reached = until < piece.size();
    if (harm.kind == HarmKind::kDrip) {
      for (std::size_t at = 0; at < piece.size(); at += 61) {
        write_chunk(client, std::string_view{piece}.substr(at, 61));
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
      return std::nullopt;
    }
    if (harm.kind == HarmKind::kCut && reached) {
      write_chunk(client, std::string_view{piece}.substr(0, until));
      return false;
    }
    if (harm.kind == HarmKind::kSilence && reached) {
      write_chunk(client, std::string_view{piece}.substr(0, until));
      std::unique_lock lock(mutex);
      silence.wait(lock, [this] { return stopping; });
      return false;
    }
    const std::size_t newline = reached ? piece.find('\n', until) : std::string::npos;
    if (harm.kind == HarmKind::kInsert && newline != std::string::npos) {
      write_chunk(client, piece.substr(0, newline + 1) + harm.body);
      asio::write(client, asio::buffer("0\r\n\r\n", 5));
      return true;
    }
    write_chunk(client, piece);
    return std::nullopt;
  }

  Upstream upstream;
  asio::io_context io;
  asio::ssl::context tls;
  Tcp::acceptor acceptor;
  std::thread accepting;

  mutable std::mutex mutex;  // guards what follows
  std::list<std::thread> serving;
  std::list<int> open;
  std::condition_variable silence;
  bool stopping = false;
  Judge judge;
  int harmed = 0;
  std::map<std::string, int> forwarded;
};

Proxy::Proxy(Upstream upstream) : impl_(std::make_unique<Impl>(std::move(upstream))) {}
Proxy::~Proxy() = default;

std::string Proxy::url() const {
  return "http://127.0.0.1:" + std::to_string(impl_->acceptor.local_endpoint().port());
}

void Proxy::set_judge(Judge judge) {
  const std::lock_guard lock(impl_->mutex);
  impl_->judge = std::move(judge);
}

int Proxy::harmed() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->harmed;
}

int Proxy::forwarded(const std::string& method) const {
  const std::lock_guard lock(impl_->mutex);
  const auto it = impl_->forwarded.find(method);
  return it == impl_->forwarded.end() ? 0 : it->second;
}

void Proxy::reset_counts() {
  const std::lock_guard lock(impl_->mutex);
  impl_->harmed = 0;
  impl_->forwarded.clear();
}

}  // namespace muster::faults
