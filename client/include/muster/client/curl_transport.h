// The Transport for real: libcurl's multi-socket interface on the event loop, HTTP/2 over few connections
// (HTTP/1.1 where the server speaks nothing else), TLS verified by OpenSSL.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/client/config.h"
#include "muster/client/transport.h"

namespace muster::client {

struct CurlOptions {
  Duration connect_timeout = std::chrono::seconds{10};  // name, TCP and TLS together
  // A peer that acknowledges nothing, neither data nor keepalive probes, for this long is dead.
  Duration dead_after = std::chrono::seconds{30};
  // To a host, for requests; what exceeds them waits. Streams have as many as they need, since each may stay
  // for ever and one that waits for another to end never opens: over HTTP/1.1 one each.
  int max_connections = 4;
  int streams_per_connection = 100;  // of HTTP/2, or fewer if the server says so
  // Bytes of a stream nobody has read yet, beyond which the server is held back.
  std::size_t stream_buffer = 1 << 20;
  // Bytes of one answer; a longer one ends with kDecode. A page of 500 objects is a few MiB. Streams have no
  // such bound, since they are read as they come.
  std::size_t max_response = 64 << 20;
  bool http2 = true;
};

// For metrics and tests.
struct CurlStats {
  std::uint64_t requests = 0, streams = 0, connections = 0, refreshed_credentials = 0;
};

// A config without a server is for requests to many: their targets are whole URLs, which no proxy is asked
// for, and an answer that sends elsewhere is not followed.
class CurlTransport final : public Transport {
 public:
  // Thread: the environment's executor only. The io_context outlives the transport.
  CurlTransport(Environment env, ClientConfig config, CurlOptions options = {});
  ~CurlTransport() override;
  CurlTransport(const CurlTransport&) = delete;
  CurlTransport& operator=(const CurlTransport&) = delete;

  // A request that libcurl might have sent in part is never sent again by libcurl, unless it is a GET.
  // A 401 makes the credentials be looked at again; if they changed, the request is sent once more.
  Task<Result<HttpResponse>> round_trip(HttpRequest request, Duration timeout) override;
  Task<Result<StreamResponse>> open(HttpRequest request, Duration timeout) override;

  const CurlStats& stats() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::client
