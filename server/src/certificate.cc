#include "certificate.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <boost/asio/buffer.hpp>
#include <fstream>
#include <sstream>
#include <utility>

namespace muster::server {
namespace ssl = boost::asio::ssl;
namespace {

// A mounted Secret is replaced by a link to another file: the inode tells that.
std::string state_of(const std::string& file) {
  struct stat s{};
  if (stat(file.c_str(), &s) != 0) return "none";
  return fmt::format("{}/{}/{}.{}", s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

std::expected<std::string, std::string> text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return std::unexpected(file + ": cannot be read, or is empty");
  return text.str();
}

std::expected<std::shared_ptr<TlsContext>, std::string> read(const CertificateFiles& files) {
  const auto certificate = text_of(files.certificate);
  if (!certificate) return std::unexpected(certificate.error());
  const auto key = text_of(files.key);
  if (!key) return std::unexpected(key.error());
  auto context = std::make_shared<TlsContext>(TlsContext::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  boost::system::error_code error;
  context->use_certificate_chain(boost::asio::buffer(*certificate), error);
  if (error)
    return std::unexpected(fmt::format("{}: no certificate in PEM: {}", files.certificate, error.message()));
  context->use_private_key(boost::asio::buffer(*key), TlsContext::pem, error);
  if (error)
    return std::unexpected(fmt::format("{}: no private key in PEM that fits {}: {}", files.key,
                                       files.certificate, error.message()));
  return context;
}

}  // namespace

std::expected<Certificate, std::string> Certificate::load(CertificateFiles files,
                                                          std::function<void(const std::string&)> warn) {
  Certificate loaded(std::move(files), std::move(warn));
  loaded.seen_ = state_of(loaded.files_.certificate) + state_of(loaded.files_.key);
  auto context = read(loaded.files_);
  if (!context) return std::unexpected(context.error());
  loaded.context_ = std::move(*context);
  return loaded;
}

std::shared_ptr<TlsContext> Certificate::current() {
  std::string now = state_of(files_.certificate) + state_of(files_.key);
  if (now == seen_) return context_;
  seen_ = std::move(now);
  auto context = read(files_);
  if (context)
    context_ = std::move(*context);
  else if (warn_)
    warn_("the certificate that was read before stays in use: " + context.error());
  return context_;
}

}  // namespace muster::server
