// The certificate that a listener shows, read again when its files change.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "muster/server/listener.h"

namespace muster::server {

using TlsContext = boost::asio::ssl::context;

class Certificate {
 public:
  // The error names the file and what is wrong with it.
  static std::expected<Certificate, std::string> load(CertificateFiles files,
                                                      std::function<void(const std::string&)> warn);

  // With what is in the files now. Where that is no pair, the last good one stays and is warned of once: the
  // two files are seldom replaced in one instant.
  std::shared_ptr<TlsContext> current();

 private:
  Certificate(CertificateFiles files, std::function<void(const std::string&)> warn)
      : files_(std::move(files)), warn_(std::move(warn)) {}

  CertificateFiles files_;
  std::function<void(const std::string&)> warn_;
  std::shared_ptr<TlsContext> context_;
  std::string seen_;  // which state of the files was looked at last
};

}  // namespace muster::server
