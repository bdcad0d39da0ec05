// What is done with sockets of clients and replicas.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>
#include <string>

namespace muster::activator {

// Of "10.0.0.1:8000" or "[fd00::1]:8000"; nullopt: it is none.
std::optional<boost::asio::ip::tcp::endpoint> endpoint_of(const std::string& address);
void set_up(boost::asio::ip::tcp::socket& socket);
// Ends it so that the other side does not take it for a good end.
void cut(boost::beast::tcp_stream& stream);

}  // namespace muster::activator
