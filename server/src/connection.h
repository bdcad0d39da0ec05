// What is said over one connection, plain or encrypted.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "certificate.h"
#include "muster/server/listener.h"

namespace muster::server {

// Hands each request to the handler until one side has enough. `tls` nullptr: plain HTTP. Options and handler
// outlive it.
client::Task<void> talk(boost::asio::ip::tcp::socket socket, std::shared_ptr<TlsContext> tls,
                        const ListenOptions& options, const Handler& handler);

}  // namespace muster::server
