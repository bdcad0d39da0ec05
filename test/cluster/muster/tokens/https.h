// HTTPS with a bearer token, and a certificate for who answers.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <string>

#include "fixture.h"
#include "http/tls_server.h"
#include "muster/testcluster/process.h"

namespace muster::test {

// A certificate of 127.0.0.1 in files.
class ServingCertificate {
 public:
  explicit ServingCertificate(const std::filesystem::path& folder)
      : pair_(client::testing::make_certificate("localhost", "IP:127.0.0.1,DNS:localhost")),
        certificate_(folder / "serving.crt"),
        key_(folder / "serving.key") {
    std::ofstream(certificate_) << pair_.certificate_pem;
    std::ofstream(key_) << pair_.key_pem;
  }
  const std::string& pem() const { return pair_.certificate_pem; }
  std::string certificate() const { return certificate_.string(); }
  std::string key() const { return key_.string(); }

 private:
  client::testing::Certificate pair_;
  std::filesystem::path certificate_, key_;
};

struct HttpsAnswer {
  long status = 0;  // 0: none
  std::string body;
};

// Reads until the other side ends, `enough` holds, or 40 s have passed.
inline HttpsAnswer https_get(const std::string& url, const std::string& ca, const std::string& token,
                             const std::function<bool(const std::string&)>& enough = {},
                             const std::string& more_header = {}, const std::string& method = "GET") {
  struct Reading {
    HttpsAnswer answer;
    const std::function<bool(const std::string&)>& enough;
    static std::size_t take(char* data, std::size_t size, std::size_t n, void* to) {
      auto& self = *static_cast<Reading*>(to);
      self.answer.body.append(data, size * n);
      return self.enough && self.enough(self.answer.body) ? 0 : size * n;
    }
  } reading{{}, enough};
  CURL* handle = curl_easy_init();
  curl_slist* headers = nullptr;
  if (!token.empty()) headers = curl_slist_append(headers, ("Authorization: Bearer " + token).c_str());
  if (!more_header.empty()) headers = curl_slist_append(headers, more_header.c_str());
  std::string authority = ca;
  curl_blob blob{authority.data(), authority.size(), CURL_BLOB_COPY};
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, method.c_str());
  curl_easy_setopt(handle, CURLOPT_PROXY, "");
  curl_easy_setopt(handle, CURLOPT_TIMEOUT, 40L);
  if (!ca.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO_BLOB, &blob);
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, Reading::take);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &reading);
  curl_easy_perform(handle);
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &reading.answer.status);
  curl_slist_free_all(headers);
  curl_easy_cleanup(handle);
  return reading.answer;
}

// A ServiceAccount of `team` and a token of it.
inline std::string account(Cluster& cluster, const std::string& name) {
  cluster.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: " + name + ", namespace: team}\n");
  const auto token = cluster.real().kubectl({"create", "token", name, "-n", "team", "--duration", "1h"});
  if (!token || !token->ok()) throw std::runtime_error("no token for " + name);
  return token->out.substr(0, token->out.find('\n'));
}
inline void bind_everywhere(Cluster& cluster, const std::string& name, const std::string& role) {
  const auto bound = cluster.real().kubectl({"create", "clusterrolebinding", name + "-" + role,
                                             "--clusterrole", role, "--serviceaccount", "team:" + name});
  if (!bound || !bound->ok()) throw std::runtime_error(bound ? bound->err : bound.error());
}

// Of a line that says what is served; 0: there is none.
inline int port_in(const std::string& log, const std::string& what) {
  const std::regex serving("serving.*" + what + ".*port[^0-9]*([0-9]+)");
  std::smatch found;
  return std::regex_search(log, found, serving) ? std::stoi(found[1]) : 0;
}

}  // namespace muster::test
