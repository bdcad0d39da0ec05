#include "http/tls_server.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace muster::client::testing {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

std::string pem_of(const std::function<int(BIO*)>& write) {
  std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  if (write(bio.get()) != 1) throw std::runtime_error("PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

void extend(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()), &X509_EXTENSION_free);
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1)
    throw std::runtime_error("extension");
}

}  // namespace

Certificate make_certificate(const std::string& common_name, const std::string& san, const Certificate* ca) {
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using X = std::unique_ptr<X509, decltype(&X509_free)>;
  static long serial = 1;
  const Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const X certificate(X509_new(), &X509_free);
  X509* x = certificate.get();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(x), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x), 86400);
  X509_set_pubkey(x, key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
  Key ca_key(nullptr, &EVP_PKEY_free);
  X ca_certificate(nullptr, &X509_free);
  if (ca != nullptr) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> k(
        BIO_new_mem_buf(ca->key_pem.data(), static_cast<int>(ca->key_pem.size())), &BIO_free);
    const std::unique_ptr<BIO, decltype(&BIO_free)> c(
        BIO_new_mem_buf(ca->certificate_pem.data(), static_cast<int>(ca->certificate_pem.size())), &BIO_free);
    ca_key.reset(PEM_read_bio_PrivateKey(k.get(), nullptr, nullptr, nullptr));
    ca_certificate.reset(PEM_read_bio_X509(c.get(), nullptr, nullptr, nullptr));
  }
  X509* issuer = ca_certificate ? ca_certificate.get() : x;
  X509_set_issuer_name(x, X509_get_subject_name(issuer));
  if (san.empty()) {
    extend(x, issuer, NID_basic_constraints, "critical,CA:TRUE");
  } else {
    extend(x, issuer, NID_subject_alt_name, san);
  }
  if (X509_sign(x, ca_key ? ca_key.get() : key.get(), EVP_sha256()) == 0) throw std::runtime_error("sign");
  Certificate out;
  out.certificate_pem = pem_of([&](BIO* bio) { return PEM_write_bio_X509(bio, x); });
  out.key_pem = pem_of([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return out;
}

struct TlsServer::Impl {
  Impl(const Certificate& certificate, Handler h, const std::string& client_ca)
      : handler(std::move(h)), acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    context.use_certificate_chain(asio::buffer(certificate.certificate_pem));
    context.use_private_key(asio::buffer(certificate.key_pem), asio::ssl::context::pem);
    if (!client_ca.empty()) {
      context.add_certificate_authority(asio::buffer(client_ca));
      context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
    }
    port = acceptor.local_endpoint().port();
    accepting = std::thread([this] { accept(); });
  }

  ~Impl() {
    stopping = true;
    tcp::socket wake(io);
    boost::system::error_code ignored;
    wake.connect(tcp::endpoint(asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)), ignored);
    accepting.join();
    {
      const std::lock_guard lock(mutex);
      for (tcp::socket* socket : sockets) socket->shutdown(tcp::socket::shutdown_both, ignored);
    }
    for (std::thread& thread : threads) thread.join();
  }

  void accept() {
    while (true) {
      tcp::socket socket(io);
      boost::system::error_code error;
      acceptor.accept(socket, error);
      if (stopping) return;
      if (error) continue;
      ++connections;
      threads.emplace_back([this, s = std::move(socket)]() mutable { serve(std::move(s)); });
    }
  }

  void serve(tcp::socket socket) {
    asio::ssl::stream<tcp::socket> stream(std::move(socket), context);
    std::list<tcp::socket*>::iterator place;
    {
      const std::lock_guard lock(mutex);
      place = sockets.insert(sockets.end(), &stream.next_layer());
    }
    talk(stream);
    const std::lock_guard lock(mutex);
    sockets.erase(place);
    boost::system::error_code ignored;
    stream.next_layer().close(ignored);
  }

  void talk(asio::ssl::stream<tcp::socket>& stream) {
    boost::system::error_code error;
    stream.handshake(asio::ssl::stream_base::server, error);
    if (error) return;
    beast::flat_buffer buffer;
    for (int number = 0; !stopping; ++number) {
      http::request<http::string_body> message;
      http::read(stream, buffer, message, error);
      if (error) return;
      Request request;
      request.method = std::string(message.method_string());
      request.target = std::string(message.target());
      request.authorization = std::string(message[http::field::authorization]);
      request.body = message.body();
      request.on_connection = number;
      const Write write = [&](const std::string& bytes) {
        boost::system::error_code failed;
        asio::write(stream, asio::buffer(bytes), failed);
        return !failed && !stopping;
      };
      if (!handler(request, write)) return;
    }
  }

  Handler handler;
  asio::io_context io;
  asio::ssl::context context{asio::ssl::context::tls_server};
  tcp::acceptor acceptor;
  int port = 0;
  std::atomic<bool> stopping{false};
  std::atomic<int> connections{0};
  std::mutex mutex;
  std::list<tcp::socket*> sockets;
  std::list<std::thread> threads;
  std::thread accepting;
};

TlsServer::TlsServer(const Certificate& certificate, Handler handler, const std::string& client_ca_pem)
    : impl_(std::make_unique<Impl>(certificate, std::move(handler), client_ca_pem)) {}
TlsServer::~TlsServer() = default;
int TlsServer::port() const {
  return impl_->port;
}
int TlsServer::connections() const {
  return impl_->connections;
}

std::string plain_answer(int status, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nX-Mixed-Case: Value\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
std::string chunked_head() {
  return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
}
std::string chunk(const std::string& bytes) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + bytes + "\r\n";
}

}  // namespace muster::client::testing
