#include "sockets.h"

#include <charconv>

namespace muster::activator {
namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;

std::optional<tcp::endpoint> endpoint_of(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  error_code error;
  const auto ip = asio::ip::make_address(host, error);
  if (error || port == 0) return std::nullopt;
  return tcp::endpoint(ip, port);
}

void set_up(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
}

void cut(beast::tcp_stream& stream) {
  error_code ignored;
  stream.socket().set_option(asio::socket_base::linger(true, 0), ignored);
  stream.close();
}

}  // namespace muster::activator
