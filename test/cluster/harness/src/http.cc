#include "http.h"

#include <curl/curl.h>

namespace muster::testcluster {
namespace {

std::size_t append(char* data, std::size_t size, std::size_t count, void* into) {
  static_cast<std::string*>(into)->append(data, size * count);
  return size * count;
}

}  // namespace

HttpClient::HttpClient(std::string base_url, std::string ca, std::string certificate, std::string key)
    : base_url_(std::move(base_url)),
      ca_(std::move(ca)),
      certificate_(std::move(certificate)),
      key_(std::move(key)),
      handle_(curl_easy_init()) {}

HttpClient::~HttpClient() {
  curl_easy_cleanup(handle_);
}

Result<HttpResponse> HttpClient::request(const std::string& method, const std::string& path,
                                         const std::string& body, const std::string& content_type,
                                         Milliseconds timeout, const std::vector<std::string>& more_headers) {
  const std::lock_guard lock(mutex_);
  if (!handle_) return std::unexpected("libcurl gave no handle");
  curl_easy_reset(handle_);  // Keeps the connection.
  HttpResponse response;
  char error[CURL_ERROR_SIZE] = "";
  const std::string url = base_url_ + path;
  const std::string header = "Content-Type: " + content_type;
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(
      curl_slist_append(nullptr, header.c_str()), &curl_slist_free_all);
  for (const auto& one : more_headers) curl_slist_append(headers.get(), one.c_str());
  curl_easy_setopt(handle_, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle_, CURLOPT_CUSTOMREQUEST, method.c_str());
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle_, CURLOPT_USERAGENT, "muster-testcluster");
  curl_easy_setopt(handle_, CURLOPT_CAINFO, ca_.c_str());
  curl_easy_setopt(handle_, CURLOPT_SSLCERT, certificate_.c_str());
  curl_easy_setopt(handle_, CURLOPT_SSLKEY, key_.c_str());
  curl_easy_setopt(handle_, CURLOPT_PROXY, "");
  curl_easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle_, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, &append);
  curl_easy_setopt(handle_, CURLOPT_WRITEDATA, &response.body);
  if (!body.empty()) {
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  }
  const CURLcode code = curl_easy_perform(handle_);
  if (code != CURLE_OK)
    return std::unexpected(method + " " + path + ": " + (error[0] ? error : curl_easy_strerror(code)));
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &response.status);
  return response;
}

}  // namespace muster::testcluster
