#include "client/requests.h"

#include <curl/curl.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <stdexcept>

#include "http/tls_server.h"
#include "muster/client/api.h"
#include "muster/client/curl_transport.h"

namespace muster::bench {
namespace {

using client::testing::Certificate;
using client::testing::TlsServer;

constexpr int kConnections = 4;  // and one request in flight on each
constexpr int kRepeats = 5;

// What one way of sending all bodies costs the thread that sends them; the server has threads of its own.
struct Cost {
  double seconds = 1e9;
  double cpu_seconds = 1e9;
};

double thread_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Keeps the best of all runs: what disturbs only ever makes it slower.
template <class Work>
void run_timed(Cost& best, Work work) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu = thread_cpu_seconds();
  work();
  best.cpu_seconds = std::min(best.cpu_seconds, thread_cpu_seconds() - cpu);
  best.seconds =
      std::min(best.seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

// --- through the client

struct Posting {
  const std::vector<std::string>& bodies;
  std::size_t next = 0;
  std::size_t answered = 0;
  std::string error;
};

client::Task<void> post_in_turn(client::ApiClient& api, Posting& posting) {
  const std::string ns = "team", manager = "bench";
  while (posting.next < posting.bodies.size()) {
    std::string body = posting.bodies[posting.next++];
    const auto created = co_await api.create(client::resources::kPods, ns, std::move(body), manager);
    if (!created) posting.error = client::to_string(created.error());
    ++posting.answered;
  }
}

class Client {
 public:
  Client(const std::string& url, const std::string& ca)
      : transport_(env_, config(url, ca)), api_(env_, transport_) {}

  void post(const std::vector<std::string>& bodies) {
    Posting posting{bodies, 0, 0, {}};
    for (int i = 0; i < kConnections; ++i) client::spawn(loop_.get_executor(), post_in_turn(api_, posting));
    loop_.restart();  // it stops where nothing is left to do
    while (posting.answered < bodies.size() && loop_.run_one() > 0) {
    }
    if (posting.answered < bodies.size()) throw std::runtime_error("a pod's creation never ended");
    if (!posting.error.empty()) throw std::runtime_error("a pod was not created: " + posting.error);
  }

 private:
  static client::ClientConfig config(const std::string& url, const std::string& ca) {
    client::ClientConfig config;
    config.server = url;
    config.ca.data = client::Secret(ca);
    config.token.data = client::Secret("token");
    return config;
  }

  boost::asio::io_context loop_{1};
  client::RealClock clock_;
  client::RandomSource random_{1};
  client::Environment env_{loop_.get_executor(), clock_, random_};
  client::CurlTransport transport_;
  client::ApiClient api_;
};

// --- through libcurl alone

std::size_t append(char* data, std::size_t size, std::size_t count, void* into) {
  static_cast<std::string*>(into)->append(data, size * count);
  return size * count;
}

class BareCurl {
 public:
  BareCurl(const std::string& url, const std::string& ca) : multi_(curl_multi_init()), ca_(ca) {
    curl_multi_setopt(multi_, CURLMOPT_MAX_HOST_CONNECTIONS, static_cast<long>(kConnections));
    for (const char* line : {"Content-Type: application/json", "Accept: application/json",
                             "Authorization: Bearer token", "User-Agent: bench"}) {
      headers_ = curl_slist_append(headers_, line);
    }
    const std::string target = url + "/api/v1/namespaces/team/pods?fieldManager=bench";
    for (Transfer& transfer : transfers_) {
      transfer.easy = curl_easy_init();
      curl_blob blob{ca_.data(), ca_.size(), CURL_BLOB_NOCOPY};
      curl_easy_setopt(transfer.easy, CURLOPT_URL, target.c_str());
      curl_easy_setopt(transfer.easy, CURLOPT_CAINFO_BLOB, &blob);
      curl_easy_setopt(transfer.easy, CURLOPT_HTTPHEADER, headers_);
      curl_easy_setopt(transfer.easy, CURLOPT_PROXY, "");
      curl_easy_setopt(transfer.easy, CURLOPT_NOSIGNAL, 1L);
      curl_easy_setopt(transfer.easy, CURLOPT_POST, 1L);
      curl_easy_setopt(transfer.easy, CURLOPT_WRITEFUNCTION, append);
      curl_easy_setopt(transfer.easy, CURLOPT_WRITEDATA, &transfer.answer);
      curl_easy_setopt(transfer.easy, CURLOPT_PRIVATE, &transfer);
    }
  }
  BareCurl(const BareCurl&) = delete;
  BareCurl& operator=(const BareCurl&) = delete;
  ~BareCurl() {
    for (Transfer& transfer : transfers_) curl_easy_cleanup(transfer.easy);
    curl_multi_cleanup(multi_);
    curl_slist_free_all(headers_);
  }

  void post(const std::vector<std::string>& bodies) {
    std::size_t next = 0, answered = 0;
    for (Transfer& transfer : transfers_) {
      if (next < bodies.size()) start(transfer, bodies[next++]);
    }
    while (answered < bodies.size()) {
      int running = 0, left = 0;
      curl_multi_perform(multi_, &running);
      while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
        Transfer& transfer = finish(message->easy_handle, message->data.result);
        ++answered;
        if (next < bodies.size()) start(transfer, bodies[next++]);
      }
      if (answered < bodies.size()) curl_multi_poll(multi_, nullptr, 0, 1000, nullptr);
    }
  }

 private:
  struct Transfer {
    CURL* easy = nullptr;
    std::string answer;
  };

  void start(Transfer& transfer, const std::string& body) {
    transfer.answer.clear();
    curl_easy_setopt(transfer.easy, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(transfer.easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_multi_add_handle(multi_, transfer.easy);
  }

  Transfer& finish(CURL* easy, CURLcode code) {
    void* owner = nullptr;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &owner);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_multi_remove_handle(multi_, easy);
    if (code != CURLE_OK || status != 201) throw std::runtime_error("libcurl: a pod was not created");
    return *static_cast<Transfer*>(owner);
  }

  CURLM* multi_;
  std::string ca_;
  curl_slist* headers_ = nullptr;
  std::array<Transfer, kConnections> transfers_;
};

}  // namespace

void measure_requests(Report& report, const std::vector<std::string>& bodies) {
  const Certificate ca = client::testing::make_certificate("ca", "");
  const Certificate certificate = client::testing::make_certificate("server", "IP:127.0.0.1", &ca);
  const TlsServer server(certificate, [](const TlsServer::Request& request, const TlsServer::Write& write) {
    return write(client::testing::plain_answer(201, request.body));
  });
  Client ours(server.url(), ca.certificate_pem);
  BareCurl bare(server.url(), ca.certificate_pem);
  const std::vector<std::string> first(bodies.begin(), bodies.begin() + kConnections);
  ours.post(first);  // opens the connections
  bare.post(first);
  Cost our_cost, bare_cost;
  for (int i = 0; i < kRepeats; ++i) {
    run_timed(our_cost, [&] { ours.post(bodies); });
    run_timed(bare_cost, [&] { bare.post(bodies); });
  }
  const auto count = static_cast<double>(bodies.size());
  report.add("requests: pods posted per second", count / our_cost.seconds, "1/s");
  report.add("requests: the same by libcurl alone", count / bare_cost.seconds, "1/s");
  report.add("requests: CPU of the sender", our_cost.cpu_seconds / count * 1e6, "us");
  report.add("requests: CPU of the sender, client / libcurl alone",
             our_cost.cpu_seconds / bare_cost.cpu_seconds, "ratio");
}

}  // namespace muster::bench
