#include "http/curl_engine.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <stdexcept>

#include "http/url.h"

namespace muster::client {

namespace asio = boost::asio;

namespace {

void initialise_curl_once() {
  static const CURLcode result = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (result != CURLE_OK) throw std::runtime_error("curl_global_init failed");
}

// "": requests name their whole URLs.
bool is_local(const std::string& server) {
  const auto url = Url::parse(server);
  return server.empty() || (url && is_loopback(url->host()));
}

// A wrong option is a bug of this file.
template <class T>
void set(CURL* easy, CURLoption option, T value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  if (code != CURLE_OK) throw std::logic_error(std::string{"curl_easy_setopt: "} + curl_easy_strerror(code));
}

void set_blob(CURL* easy, CURLoption option, const std::string& text) {
  curl_blob blob{const_cast<char*>(text.data()), text.size(), CURL_BLOB_NOCOPY};
  set(easy, option, text.empty() ? nullptr : &blob);
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t bytes = size * count;
  const CurlOptions& options = transfer.engine->options();
  std::string& body = transfer.response.body;
  if (transfer.streaming && !body.empty() && body.size() + bytes > options.stream_buffer) {
    transfer.paused = true;  // libcurl keeps these bytes and offers them again after resume()
    return CURL_WRITEFUNC_PAUSE;
  }
  if (!transfer.streaming && body.size() + bytes > options.max_response) {
    transfer.too_large = true;
    return 0;
  }
  body.append(data, bytes);
  if (transfer.streaming) transfer.notify();
  return bytes;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string_view line(data, size * count);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    const auto space = line.find(' ');
    transfer.response.status =
        space == std::string_view::npos ? 0 : std::atoi(std::string{line.substr(space + 1)}.c_str());
    transfer.response.headers.clear();
  } else if (line.empty()) {
    if (transfer.response.status >= 200) {
      transfer.head_complete = true;
      if (transfer.streaming) transfer.notify();
    }
  } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
    std::string name{line.substr(0, colon)};
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    transfer.response.headers.emplace_back(std::move(name), value);
  }
  return size * count;
}

// The body goes out through this and there is no way back (no CURLOPT_SEEKFUNCTION): libcurl cannot quietly
// send it a second time when a connection dies before the answer.
std::size_t on_upload(char* buffer, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string& body = transfer.request.body;
  const std::size_t bytes = std::min(size * count, body.size() - transfer.body_sent);
  body.copy(buffer, bytes, transfer.body_sent);
  transfer.body_sent += bytes;
  return bytes;
}

// Called each time that libcurl has a connection and is about to send the request.
int on_ready_to_send(void* user, char*, char*, int, int) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (transfer.request.method != Method::kGet && transfer.attempts > 0 && !transfer.certainly_not_sent()) {
    return CURL_PREREQFUNC_ABORT;
  }
  if (transfer.request.may_send && !transfer.request.may_send()) return CURL_PREREQFUNC_ABORT;
  ++transfer.attempts;
  return CURL_PREREQFUNC_OK;
}

}  // namespace

Transfer::Transfer(std::shared_ptr<CurlEngine> e, HttpRequest r, std::shared_ptr<const CredentialSet> c)
    : engine(std::move(e)),
      request(std::move(r)),
      credentials(std::move(c)),
      signal(engine->executor(), asio::steady_timer::time_point::max()) {}

Transfer::~Transfer() {
  engine->abort(*this);
}

void Transfer::notify() {
  notified = true;
  signal.cancel();
}

bool Transfer::certainly_not_sent() const {
  return attempts == 0 || (request.method != Method::kGet && !request.body.empty() && body_sent == 0);
}

Error Transfer::failure() const {
  Error error;
  error.message = error_text[0] != '\0' ? error_text : curl_easy_strerror(code);
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      error.code = ErrorCode::kConfig;
      error.message = engine->config().server + ": " + error.message;
      return error;
    case CURLE_OPERATION_TIMEDOUT:
      error.code = certainly_not_sent() ? ErrorCode::kNotSent : ErrorCode::kDeadline;
      return error;
    case CURLE_WRITE_ERROR:
      if (too_large) {
        error.code = ErrorCode::kDecode;
        error.message = "answer is longer than " + std::to_string(engine->options().max_response) + " bytes";
        return error;
      }
      break;
    default:
      break;
  }
  error.code = certainly_not_sent() ? ErrorCode::kNotSent : ErrorCode::kUnknownOutcome;
  return error;
}

struct CurlEngine::Socket {
  Socket(const Executor& executor, curl_socket_t fd) : descriptor(executor, fd) {}
  asio::posix::stream_descriptor descriptor;  // libcurl owns the socket: released, never closed
  int want = 0;                               // CURL_POLL_IN, _OUT, _INOUT
  bool reading = false, writing = false;      // waits under way
  bool open = true;
};

CurlEngine::CurlEngine(Executor executor, const ClientConfig& config, const CurlOptions& options,
                       int max_connections)
    : executor_(std::move(executor)),
      config_(config),
      options_(options),
      base_url_(config.server),
      timer_(executor_) {
  initialise_curl_once();
  if (!config_.tls_server_name.empty()) {
    // libcurl verifies the URL's host: put the certificate's name there and say where to connect instead.
    const auto server = Url::parse(config_.server);
    if (!server) throw std::invalid_argument("server " + config_.server + " is no URL");
    base_url_ = server->with_host(config_.tls_server_name);
    connect_to_ = curl_slist_append(nullptr, ("::" + server->host() + ":" + server->port()).c_str());
    host_header_ = "Host: " + server->authority();
  }
  multi_ = curl_multi_init();
  if (multi_ == nullptr) throw std::bad_alloc();
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, on_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
  if (max_connections > 0) {
    curl_multi_setopt(multi_, CURLMOPT_MAX_HOST_CONNECTIONS, static_cast<long>(max_connections));
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(max_connections));
  }
  curl_multi_setopt(multi_, CURLMOPT_MAX_CONCURRENT_STREAMS,
                    static_cast<long>(options_.streams_per_connection));
}

CurlEngine::~CurlEngine() {
  // Transfers hold the engine, so there are none. The sockets belong to libcurl.
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, nullptr);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, nullptr);
  for (auto& [fd, socket] : sockets_) {
    socket->open = false;
    socket->descriptor.release();
  }
  for (Easy& easy : idle_) curl_easy_cleanup(easy.handle);
  curl_multi_cleanup(multi_);
  curl_slist_free_all(connect_to_);
}

void CurlEngine::set_up(CURL* easy) {
  set(easy, CURLOPT_NOSIGNAL, 1L);
  set(easy, CURLOPT_HTTP_VERSION, options_.http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1);
  set(easy, CURLOPT_PIPEWAIT, options_.http2 ? 1L : 0L);
  set(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(easy, CURLOPT_PROTOCOLS_STR, "https,http");
  set(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(easy, CURLOPT_UPLOAD_BUFFERSIZE, 16L << 10);
  set(easy, CURLOPT_WRITEFUNCTION, on_body);
  set(easy, CURLOPT_HEADERFUNCTION, on_header);
  set(easy, CURLOPT_READFUNCTION, on_upload);
  set(easy, CURLOPT_PREREQFUNCTION, on_ready_to_send);
  set(easy, CURLOPT_SOCKOPTFUNCTION, on_new_socket);
  set(easy, CURLOPT_SOCKOPTDATA, this);
  if (connect_to_ != nullptr) set(easy, CURLOPT_CONNECT_TO, connect_to_);
  if (!config_.proxy_url.empty()) {
    set(easy, CURLOPT_PROXY, config_.proxy_url.c_str());
  } else if (is_local(config_.server)) {
    set(easy, CURLOPT_PROXY, "");  // whatever HTTPS_PROXY says
  }
  if (config_.insecure_skip_tls_verify) {
    set(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    set(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  }
}

void CurlEngine::set_credentials(CURL* easy, const CredentialSet& credentials) {
  if (!credentials.ca_pem.empty()) {
    // That CA and no other: libcurl would add its built-in directory of the system's.
    set<const char*>(easy, CURLOPT_CAPATH, nullptr);
    set<const char*>(easy, CURLOPT_CAINFO, nullptr);
    set_blob(easy, CURLOPT_CAINFO_BLOB, credentials.ca_pem.reveal());
  }
  set_blob(easy, CURLOPT_SSLCERT_BLOB, credentials.certificate_pem.reveal());
  set_blob(easy, CURLOPT_SSLKEY_BLOB, credentials.key_pem.reveal());
}

CURL* CurlEngine::take_handle(const std::shared_ptr<const CredentialSet>& credentials) {
  Easy easy;
  if (!idle_.empty()) {
    easy = std::move(idle_.back());
    idle_.pop_back();
  } else {
    easy.handle = curl_easy_init();
    if (easy.handle == nullptr) throw std::bad_alloc();
    set_up(easy.handle);
  }
  if (!easy.credentials || easy.credentials->tls_generation != credentials->tls_generation) {
    set_credentials(easy.handle, *credentials);
    easy.credentials = credentials;
  }
  in_use_[easy.handle] = easy.credentials;
  return easy.handle;
}

void CurlEngine::prepare(Transfer& transfer, Duration timeout) {
  CURL* easy = transfer.easy;
  const HttpRequest& request = transfer.request;
  set(easy, CURLOPT_URL, (base_url_ + request.target).c_str());
  set(easy, CURLOPT_PRIVATE, &transfer);
  set(easy, CURLOPT_WRITEDATA, &transfer);
  set(easy, CURLOPT_HEADERDATA, &transfer);
  set(easy, CURLOPT_READDATA, &transfer);
  set(easy, CURLOPT_PREREQDATA, &transfer);
  set(easy, CURLOPT_ERRORBUFFER, transfer.error_text);
  set(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  set(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));

  const char* verb = nullptr;
  switch (request.method) {
    case Method::kGet:
    case Method::kPost:
      break;
    case Method::kPut:
      verb = "PUT";
      break;
    case Method::kPatch:
      verb = "PATCH";
      break;
    case Method::kDelete:
      verb = "DELETE";
      break;
  }
  if (request.method == Method::kGet) {
    set(easy, CURLOPT_HTTPGET, 1L);
  } else {
    set(easy, CURLOPT_POST, 1L);
    set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }
  set(easy, CURLOPT_CUSTOMREQUEST, verb);

  bool has_type = false;
  auto add = [&](const std::string& line) {
    curl_slist* longer = curl_slist_append(transfer.headers, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    transfer.headers = longer;
  };
  for (const auto& [name, value] : request.headers) {
    has_type |= name == "content-type";
    add(name + ": " + value);
  }
  if (request.method != Method::kGet) {
    add("Expect:");
    if (!has_type) add("Content-Type:");
  }
  if (!host_header_.empty()) add(host_header_);
  for (const auto& [name, value] : config_.impersonate) add(name + ": " + value);
  if (!transfer.credentials->authorization.empty()) {
    add("Authorization: " + transfer.credentials->authorization.reveal());
  }
  set(easy, CURLOPT_HTTPHEADER, transfer.headers);
}

void CurlEngine::start(Transfer& transfer, Duration timeout) {
  transfer.easy = take_handle(transfer.credentials);
  prepare(transfer, timeout);
  const CURLMcode code = curl_multi_add_handle(multi_, transfer.easy);
  if (code != CURLM_OK)
    throw std::logic_error(std::string{"curl_multi_add_handle: "} + curl_multi_strerror(code));
  transfer.active = true;
}

void CurlEngine::abort(Transfer& transfer) {
  if (transfer.easy == nullptr) return;
  if (transfer.active) curl_multi_remove_handle(multi_, transfer.easy);
  transfer.active = false;
  curl_easy_setopt(transfer.easy, CURLOPT_HTTPHEADER, nullptr);
  curl_easy_setopt(transfer.easy, CURLOPT_ERRORBUFFER, nullptr);
  curl_slist_free_all(transfer.headers);
  transfer.headers = nullptr;
  Easy easy;
  easy.handle = std::exchange(transfer.easy, nullptr);
  auto used = in_use_.find(easy.handle);
  easy.credentials = std::move(used->second);
  in_use_.erase(used);
  idle_.push_back(std::move(easy));
}

void CurlEngine::resume(Transfer& transfer) {
  if (!transfer.paused || !transfer.active) return;
  transfer.paused = false;
  curl_easy_pause(transfer.easy, CURLPAUSE_CONT);
  set_timer(0);
}

void CurlEngine::act(curl_socket_t fd, int events) {
  int running = 0;
  curl_multi_socket_action(multi_, fd, events, &running);
  harvest();
}

void CurlEngine::harvest() {
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* easy = message->easy_handle;
    const CURLcode code = message->data.result;  // gone with the next call
    Transfer* transfer = nullptr;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    curl_multi_remove_handle(multi_, easy);
    transfer->active = false;
    transfer->done = true;
    transfer->code = code;
    transfer->notify();
  }
}

void CurlEngine::arm(const std::shared_ptr<Socket>& socket) {
  auto wait = [&](asio::posix::stream_descriptor::wait_type type, bool Socket::* waiting, int wanted,
                  int event) {
    if ((socket->want & wanted) == 0 || (*socket).*waiting) return;
    (*socket).*waiting = true;
    socket->descriptor.async_wait(type, [weak = weak_from_this(), socket, waiting, wanted,
                                         event](const boost::system::error_code& error) {
      (*socket).*waiting = false;
      auto engine = weak.lock();
      if (!engine || error || !socket->open || (socket->want & wanted) == 0) return;
      engine->act(socket->descriptor.native_handle(), event);
      if (socket->open) engine->arm(socket);
    });
  };
  wait(asio::posix::stream_descriptor::wait_read, &Socket::reading, CURL_POLL_IN, CURL_CSELECT_IN);
  wait(asio::posix::stream_descriptor::wait_write, &Socket::writing, CURL_POLL_OUT, CURL_CSELECT_OUT);
}

int CurlEngine::on_socket(CURL*, curl_socket_t fd, int what, void* user, void*) {
  auto& engine = *static_cast<CurlEngine*>(user);
  auto found = engine.sockets_.find(fd);
  if (what == CURL_POLL_REMOVE) {
    if (found == engine.sockets_.end()) return 0;
    auto socket = std::move(found->second);
    engine.sockets_.erase(found);
    socket->open = false;
    socket->descriptor.release();
    return 0;
  }
  if (found == engine.sockets_.end()) {
    found = engine.sockets_.emplace(fd, std::make_shared<Socket>(engine.executor_, fd)).first;
  }
  found->second->want = what;
  engine.arm(found->second);
  return 0;
}

int CurlEngine::on_timer(CURLM*, long milliseconds, void* user) {
  static_cast<CurlEngine*>(user)->set_timer(milliseconds);
  return 0;
}

void CurlEngine::set_timer(long milliseconds) {
  if (milliseconds == 0) {  // most often: cheaper than a timer
    if (std::exchange(kicked_, true)) return;
    asio::post(executor_, [weak = weak_from_this()] {
      auto engine = weak.lock();
      if (!engine) return;
      engine->kicked_ = false;
      engine->act(CURL_SOCKET_TIMEOUT, 0);
    });
    return;
  }
  if (milliseconds < 0) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(Duration{milliseconds});
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    auto engine = weak.lock();
    if (engine && !error) engine->act(CURL_SOCKET_TIMEOUT, 0);
  });
}

int CurlEngine::on_new_socket(void* user, curl_socket_t fd, curlsocktype) {
  auto& engine = *static_cast<CurlEngine*>(user);
  ++engine.connections_;
  const auto dead_after = engine.options_.dead_after;
  const int seconds =
      std::max(3, static_cast<int>(std::chrono::ceil<std::chrono::seconds>(dead_after).count()));
  auto option = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
  // Silence is probed after a third of the time, five times; data that is not acknowledged counts from its
  // sending.
  option(SOL_SOCKET, SO_KEEPALIVE, 1);
  option(IPPROTO_TCP, TCP_KEEPIDLE, seconds / 3);
  option(IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds * 2 / 15));
  option(IPPROTO_TCP, TCP_KEEPCNT, 5);
  option(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(dead_after.count()));
  return CURL_SOCKOPT_OK;
}

}  // namespace muster::client
