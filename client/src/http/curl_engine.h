// libcurl's multi-socket interface on an Asio event loop: sockets and timers in, finished transfers out.
#pragma once

#include <curl/curl.h>

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/client/credentials.h"
#include "muster/client/curl_transport.h"
#include "muster/client/waiter.h"

namespace muster::client {

class CurlEngine;

// One request on its way. Destroying it aborts the request at once.
struct Transfer {
  Transfer(std::shared_ptr<CurlEngine> e, HttpRequest r, std::shared_ptr<const CredentialSet> c);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Waits for the next change: headers, bytes or the end.
  Task<Wake> wait(Duration limit);
  Task<bool> wait();
  void notify();

  // The failure of a finished transfer, as exactly as libcurl lets us know.
  Error failure() const;
  // The server certainly executed nothing of it.
  bool certainly_not_sent() const;

  std::shared_ptr<CurlEngine> engine;
  HttpRequest request;
  std::shared_ptr<const CredentialSet> credentials;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  boost::asio::steady_timer signal;  // never fires by itself except as the deadline of wait()
  bool notified = false;

  std::size_t body_sent = 0;  // bytes handed to libcurl
  int attempts = 0;           // how often libcurl was about to send the request
  bool streaming = false;
  bool head_complete = false;
  bool paused = false;
  bool too_large = false;
  bool active = false;  // known to the multi handle
  bool done = false;
  CURLcode code = CURLE_OK;
  HttpResponse response;  // streaming: body holds what nobody has read yet
  char error_text[CURL_ERROR_SIZE] = {};
};

class CurlEngine : public std::enable_shared_from_this<CurlEngine> {
 public:
  // `max_connections`: to a host; 0: as many as there are transfers that cannot share one.
  CurlEngine(Executor executor, const ClientConfig& config, const CurlOptions& options, int max_connections);
  ~CurlEngine();
  CurlEngine(const CurlEngine&) = delete;
  CurlEngine& operator=(const CurlEngine&) = delete;

  // Starts it; `timeout` is for all of it, zero: none.
  void start(Transfer& transfer, Duration timeout);
  void abort(Transfer& transfer);
  // After bytes of a paused stream were taken.
  void resume(Transfer& transfer);

  const Executor& executor() const { return executor_; }
  const CurlOptions& options() const { return options_; }
  const ClientConfig& config() const { return config_; }
  std::uint64_t connections() const { return connections_; }

 private:
  struct Socket;
  struct Easy {
    CURL* handle = nullptr;
    std::shared_ptr<const CredentialSet> credentials;  // whose blobs the handle points at
  };

  CURL* take_handle(const std::shared_ptr<const CredentialSet>& credentials);
  void set_up(CURL* easy);
  void set_credentials(CURL* easy, const CredentialSet& credentials);
  void prepare(Transfer& transfer, Duration timeout);
  void arm(const std::shared_ptr<Socket>& socket);
  void act(curl_socket_t fd, int events);
  void harvest();
  void set_timer(long milliseconds);

  static int on_socket(CURL* easy, curl_socket_t fd, int what, void* engine, void* socket);
  static int on_timer(CURLM* multi, long milliseconds, void* engine);
  static int on_new_socket(void* engine, curl_socket_t fd, curlsocktype purpose);

  Executor executor_;
  ClientConfig config_;
  CurlOptions options_;
  std::string base_url_;
  std::string host_header_;           // where the URL's host is not the server's
  curl_slist* connect_to_ = nullptr;  // likewise
  boost::asio::steady_timer timer_;
  bool kicked_ = false;  // a call with "timeout now" is queued
  CURLM* multi_ = nullptr;
  std::unordered_map<curl_socket_t, std::shared_ptr<Socket>> sockets_;
  std::vector<Easy> idle_;
  std::unordered_map<CURL*, std::shared_ptr<const CredentialSet>> in_use_;
  std::uint64_t connections_ = 0;
};

}  // namespace muster::client
