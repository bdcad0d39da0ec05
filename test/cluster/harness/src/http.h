// HTTPS with a client certificate over one kept connection.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/testcluster/testcluster.h"

namespace muster::testcluster {

class HttpClient {
 public:
  // Paths of PEM files.
  HttpClient(std::string base_url, std::string ca, std::string certificate, std::string key);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Thread-safe; one request at a time.
  Result<HttpResponse> request(const std::string& method, const std::string& path, const std::string& body,
                               const std::string& content_type, Milliseconds timeout,
                               const std::vector<std::string>& more_headers = {});

 private:
  const std::string base_url_, ca_, certificate_, key_;
  std::mutex mutex_;
  void* handle_;
};

}  // namespace muster::testcluster
