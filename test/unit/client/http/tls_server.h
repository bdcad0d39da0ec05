// A small HTTPS server (HTTP/1.1) for tests, with certificates of its own making, that misbehaves on request.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace muster::client::testing {

struct Certificate {
  std::string certificate_pem;
  std::string key_pem;
};

// A key and a certificate for it, self-signed or signed by `ca`. `san`: e.g. "IP:127.0.0.1,DNS:localhost";
// empty: a CA.
Certificate make_certificate(const std::string& common_name, const std::string& san,
                             const Certificate* ca = nullptr);

class TlsServer {
 public:
  // One request as the server saw it, on the connection's n-th (from 0).
  struct Request {
    std::string method, target, authorization, body;
    int on_connection = 0;
  };
  // Writes raw bytes to the client; false: the client is gone.
  using Write = std::function<bool(const std::string& bytes)>;
  // Answers one request, on a thread of the connection. Returns whether the connection is kept.
  using Handler = std::function<bool(const Request& request, const Write& write)>;

  // `client_ca_pem`: empty, or the CA that client certificates must be of.
  TlsServer(const Certificate& certificate, Handler handler, const std::string& client_ca_pem = {});
  ~TlsServer();  // closes all connections

  int port() const;
  std::string url() const { return "https://127.0.0.1:" + std::to_string(port()); }
  int connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string plain_answer(int status, const std::string& body);  // with Content-Length
std::string chunked_head();
std::string chunk(const std::string& bytes);

}  // namespace muster::client::testing
