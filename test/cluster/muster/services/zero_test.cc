// Scaling to zero live. The operator, and two activators with exactly the rights of the shipped manifests,
// are processes of this machine; the test plays the replicas' servers, and a client that goes where the
// Service's EndpointSlices lead. It runs in a network namespace in which every address of a simulated pod is
// this machine.
#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <future>
#include <list>
#include <mutex>
#include <thread>

#include "muster/testcluster/loopback.h"
#include "service_fixture.h"

namespace muster::test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using testing::HasSubstr;
using testing::StartsWith;

// "": done; else why not.
std::string enter_network() {
  if (::geteuid() != 0) return "not root";
  if (::unshare(CLONE_NEWNET) != 0) return "no network namespace";
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"ip", "link", "set", "lo", "up"}, {"ip", "route", "add", "local", "10.64.0.0/12", "dev", "lo"}}) {
    testcluster::ProcessSpec spec;
    spec.arguments = command;
    const auto done = testcluster::run_command(spec);
    if (!done || !done->ok()) return "no program ip: " + (done ? done->err : done.error());
  }
  return {};
}

// All replicas, whatever their address.
class Servers {
 public:
  Servers() : port_(testcluster::free_port()) {
    acceptor_.open(tcp::v4());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind({asio::ip::address_v4::any(), static_cast<std::uint16_t>(port_)});
    acceptor_.listen();
    thread_ = std::thread([this] { accept(); });
  }
  ~Servers() {
    stopping_ = true;
    go_on();
    error_code error;
    tcp::socket last(io_);
    last.connect({asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port_)}, error);
    thread_.join();
    for (auto& one : connections_) one.join();
  }
  int port() const { return port_; }
  // The second half of streams that have begun.
  void go_on() {
    const std::lock_guard lock(mutex_);
    goes_on_ = true;
    changed_.notify_all();
  }

  std::atomic<int> running = 0, answered = 0;

 private:
  void accept() {
    while (true) {
      auto socket = std::make_shared<tcp::socket>(io_);
      error_code error;
      acceptor_.accept(*socket, error);
      if (stopping_) return;
      if (!error) connections_.emplace_back([this, socket] { serve(*socket); });
    }
  }
  void serve(tcp::socket& socket) {
    std::string head;
    error_code error;
    asio::read_until(socket, asio::dynamic_buffer(head), "\r\n\r\n", error);
    if (error) return;
    const std::string address = socket.local_endpoint(error).address().to_string();
    if (head.starts_with("GET /metrics ")) {
      answer(socket, "vllm:num_requests_running " + std::to_string(running + count(address, 0)) +
                         "\nvllm:num_requests_waiting 0\nvllm:request_success_total " +
                         std::to_string(answered) + "\n");
    } else if (head.starts_with("GET /words ")) {
      count(address, 1);
      asio::write(socket,
                  asio::buffer(std::string("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")),
                  error);
      for (int word = 0; word < kWords && !error; ++word) {
        asio::write(socket, asio::buffer(std::string("data: word\n\n")), error);
        std::this_thread::sleep_for(50ms);
      }
      asio::write(socket, asio::buffer(std::string("data: [DONE]\n\n")), error);
      count(address, -1);
      ++answered;
    } else if (head.starts_with("GET /stream ")) {
      asio::write(socket,
                  asio::buffer(
                      std::string("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: one\n\n")),
                  error);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return goes_on_; });
      asio::write(socket, asio::buffer(std::string("data: two\n\n")), error);
    } else {
      ++answered;
      answer(socket, "hello from " + socket.local_endpoint().address().to_string() + "\n");
    }
  }
  static void answer(tcp::socket& socket, const std::string& body) {
    error_code error;
    asio::write(
        socket,
        asio::buffer("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: " +
                     std::to_string(body.size()) + "\r\n\r\n" + body),
        error);
  }

  // Streams of words that this address serves now.
  int count(const std::string& address, int more) {
    const std::lock_guard lock(mutex_);
    return streams_[address] += more;
  }

  static constexpr int kWords = 10;
  int port_;
  std::map<std::string, int> streams_;
  asio::io_context io_;
  tcp::acceptor acceptor_{io_};
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool goes_on_ = false;
  std::list<std::thread> connections_;
  std::thread thread_;
};

// One request, by a client that blocks.
class Request {
 public:
  Request(const std::string& address, int port, const std::string& path) {
    socket_.connect({asio::ip::make_address(address), static_cast<std::uint16_t>(port)});
    asio::write(socket_, asio::buffer("GET " + path + " HTTP/1.1\r\nHost: web.team.svc\r\n\r\n"));
  }
  std::string until(const std::string& text) {
    error_code error;
    asio::read_until(socket_, asio::dynamic_buffer(came_), text, error);
    return came_;
  }
  std::string all() {
    error_code error;
    asio::read(socket_, asio::dynamic_buffer(came_), error);
    return came_;
  }

 private:
  asio::io_context io_;
  tcp::socket socket_{io_};
  std::string came_;
};
std::future<std::string> send(const std::string& address, int port, const std::string& path = "/hello") {
  auto request = std::make_shared<Request>(address, port, path);
  return std::async(std::launch::async, [request] { return request->all(); });
}

// A pod of the Deployment, and its process beside the cluster.
struct Activator {
  std::string pod, ip;
  testcluster::ProcessId process;
};

class Zero : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    why_not_ = enter_network();
    if (!why_not_.empty()) return;
    s_.cluster = Cluster::start(2, 4);
    const auto applied =
        s_.cluster->real().apply_without_deployments(std::string(MUSTER_MANIFESTS) + "/activator");
    if (!applied) throw std::runtime_error(applied.error());
    s_.muster = s_.cluster->muster();
  }
  static void TearDownTestSuite() { s_ = {}; }
  void SetUp() override {
    if (!why_not_.empty()) GTEST_SKIP() << "needs a network namespace of its own: " << why_not_;
  }
  void TearDown() override {
    if (HasFailure() && s_.muster) {
      std::cerr << s_.muster->log().substr(0, 20000);
      for (const auto& a : activators_) std::cerr << testcluster::tail(log_of(a), 50);
    }
    for (const auto& a : activators_) testcluster::end_process(a.process, 1s);
    if (!s_.cluster) return;
    for (const auto& a : activators_) {
      const std::string path = "/api/v1/namespaces/muster-system/pods/" + a.pod;
      if (!s_.cluster->get(path).is_null()) s_.cluster->remove(path);
    }
    if (s_.cluster->get(path_of_service("web")).is_null()) return;
    s_.cluster->remove(path_of_service("web"));
    EXPECT_TRUE(s_.wait_pods("web", 0));
  }

  static std::filesystem::path log_of(const Activator& a) {
    return s_.cluster->real().directory() / (a.pod + ".log");
  }
  Activator& start_activator(const std::string& name, const char* max_requests = "2") {
    const json container = {
        {"name", "activator"},
        {"image", "muster"},
        {"securityContext", {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}}};
    const json pod = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata",
         {{"name", name},
          {"namespace", "muster-system"},
          {"labels", {{"app.kubernetes.io/name", "muster-activator"}, {"muster.dev/activator", "true"}}}}},
        {"spec",
         {{"nodeName", "node-0"},
          {"serviceAccountName", "muster-activator"},
          {"securityContext",
           {{"runAsNonRoot", true}, {"runAsUser", 65532}, {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
          {"containers", {container}}}}};
    const auto made = s_.cluster->real().request("POST", "/api/v1/namespaces/muster-system/pods", pod.dump());
    if (!made || !made->ok()) throw std::runtime_error(made ? made->body : made.error());
    Activator a{.pod = name, .ip = {}, .process = {}};
    const bool runs = s_.cluster->wait(30s, [&] {
      const json there = s_.cluster->get("/api/v1/namespaces/muster-system/pods/" + name);
      a.ip = there["status"].value("podIP", "");
      return !a.ip.empty();
    });
    if (!runs) throw std::runtime_error("the activator's pod has no address");
    // Once: the file is written in place, and an activator that starts may be reading it.
    static const auto kubeconfig =
        s_.cluster->real().service_account_kubeconfig("muster-system", "muster-activator");
    if (!kubeconfig) throw std::runtime_error(kubeconfig.error());
    testcluster::ProcessSpec spec;
    spec.arguments = {MUSTER_PROGRAM,   "activator",  "--kubeconfig",    kubeconfig->string(),
                      "--address",      a.ip,         "--admin-address", a.ip + ":8080",
                      "--max-requests", max_requests, "--log-level",     "debug"};
    spec.log = log_of(a);
    const auto id = testcluster::spawn(spec);
    if (!id) throw std::runtime_error(id.error());
    a.process = *id;
    return activators_.emplace_back(a);
  }
  static json slice() {
    return s_.cluster->get("/apis/discovery.k8s.io/v1/namespaces/team/endpointslices/web-activator");
  }
  static std::size_t led_to() {
    const json there = slice();
    return there.is_null() ? 0 : there["endpoints"].size();
  }
  static int port() { return s_.status("web").value("activatorPort", 0); }
  static bool wait_size(int n, Milliseconds timeout = 60s) {
    return s_.cluster->wait(timeout, [&] {
      const json status = s_.status("web");
      return status.value("desiredReplicas", 0) == n && status.value("readyReplicas", 0) == n &&
             status.value("replicas", 0) == n;
    });
  }
  static bool wait_reason(const std::string& reason) {
    return s_.cluster->wait(40s, [&] { return s_.condition("web", "ScalingActive")["reason"] == reason; });
  }
  static void cordon(bool is_cordoned) {
    for (const char* node : {"node-0", "node-1"})
      s_.cluster->patch(std::string("/api/v1/nodes/") + node, {{"spec", {{"unschedulable", is_cordoned}}}});
  }

  static inline Stage s_;
  static inline std::string why_not_;
  std::list<Activator> activators_;
};

TEST_F(Zero, TheManifestsAreTaken) {
  const auto applied = s_.cluster->real().kubectl(
      {"apply", "--server-side", "--dry-run=server", "-k", std::string(MUSTER_MANIFESTS) + "/activator"});
  ASSERT_TRUE(applied && applied->ok()) << (applied ? applied->err : applied.error());
  EXPECT_THAT(applied->out, HasSubstr("deployment.apps/muster-activator serverside-applied"));
  EXPECT_THAT(applied->err, testing::Not(HasSubstr("Warning")))
      << "the Pod Security Standard of its namespace";
}

// "web" with one replica, which goes when it has had no request for six seconds.
json goes_to_zero(int port, int most) {
  return service_object("web", 1,
                        {{"port", port},
                         {"autoscaling",
                          {{"minReplicas", 0},
                           {"maxReplicas", most},
                           {"metric", "RequestsRunning"},
                           {"target", "4"},
                           {"window", "2s"},
                           {"panicWindow", "2s"},
                           {"scaleDownDelay", "2s"},
                           {"scaleToZeroAfter", "6s"}}}});
}

TEST_F(Zero, GoesToZeroAndARequestBringsItBack) {
  Servers servers;
  s_.cluster->create(goes_to_zero(servers.port(), 2));
  // Nobody would bring it back.
  ASSERT_TRUE(wait_size(1)) << s_.say("web");
  ASSERT_TRUE(wait_reason("NoActivator")) << s_.say("web");
  EXPECT_THAT(s_.condition("web", "ScalingActive")["message"].get<std::string>(),
              HasSubstr("no activator runs"));
  EXPECT_EQ(s_.status("web")["desiredReplicas"], 1);
  EXPECT_EQ(led_to(), 0U);

  Activator& one = start_activator("activator-1");
  Activator& two = start_activator("activator-2");
  ASSERT_TRUE(wait_size(0)) << s_.say("web");
  EXPECT_TRUE(s_.cluster->wait(20s, [] { return led_to() == 2; })) << slice().dump(2);
  EXPECT_EQ(slice()["ports"][0]["port"], port());
  EXPECT_EQ(s_.condition("web", "ScalingActive")["reason"], "ScaledToZero");
  EXPECT_EQ(s_.condition("web", "Ready")["reason"], "ScaledToZero");

  // A request comes, as kube-proxy would send it. While the last replica's pod is still there, it would get
  // it.
  ASSERT_TRUE(s_.wait_pods("web", 0));
  const std::string address = slice()["endpoints"][0]["addresses"][0];
  auto held = send(address, port());
  ASSERT_TRUE(wait_size(1)) << s_.say("web");
  ASSERT_EQ(held.wait_for(10s), std::future_status::ready);
  EXPECT_THAT(held.get(), HasSubstr("hello from 10."));
  EXPECT_TRUE(s_.cluster->wait(30s, [] { return led_to() == 0; }))
      << "the replica serves: no activator between";
  EXPECT_EQ(s_.endpoints("web"), 1U);

  // Whoever is late passes through all the same; a stream comes as it is written.
  Request stream(one.ip, port(), "/stream");
  EXPECT_THAT(stream.until("data: one\n\n"), testing::EndsWith("data: one\n\n"));
  servers.go_on();
  EXPECT_THAT(stream.all(), testing::EndsWith("data: two\n\n"));

  // Back to zero. No room for a replica: what comes is held, up to the bound.
  ASSERT_TRUE(wait_size(0)) << s_.say("web");
  ASSERT_TRUE(s_.wait_pods("web", 0));
  cordon(true);
  auto first = send(one.ip, port()), second = send(one.ip, port()), other = send(two.ip, port());
  EXPECT_TRUE(s_.cluster->wait(20s, [] { return s_.status("web").value("replicas", 0) == 1; }))
      << s_.say("web");
  const std::string full = Request(one.ip, port(), "/hello").all();
  EXPECT_THAT(full, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(full, HasSubstr("Retry-After: "));

  // One activator dies, and with it what it holds, and no more. So does the operator.
  ::kill(one.process.pid, SIGKILL);
  ASSERT_EQ(first.wait_for(10s), std::future_status::ready);
  EXPECT_EQ(first.get() + second.get(), "") << "the connection breaks, without half an answer";
  // A kubelet would say that it is not ready any more. Here nobody does.
  s_.cluster->remove("/api/v1/namespaces/muster-system/pods/" + one.pod);
  s_.muster->kill();
  s_.muster = s_.cluster->muster();
  EXPECT_TRUE(s_.cluster->wait(30s, [] { return led_to() == 1; })) << slice().dump(2);
  EXPECT_EQ(other.wait_for(0s), std::future_status::timeout) << "it is held";
  cordon(false);
  ASSERT_EQ(other.wait_for(60s), std::future_status::ready) << s_.say("web");
  EXPECT_THAT(other.get(), HasSubstr("hello from 10."));

  // One that may not be at zero any more gives back what it had.
  s_.cluster->patch(path_of_service("web"),
                    {{"spec", {{"autoscaling", {{"minReplicas", 1}, {"scaleToZeroAfter", nullptr}}}}}});
  EXPECT_TRUE(s_.cluster->wait(20s, [] { return port() == 0 && led_to() == 0; })) << s_.say("web");
}

// Where a client's connection goes that is opened now: as kube-proxy would send it. "": nowhere.
std::string somewhere(const json& slice, int n) {
  if (slice.is_null() || slice["endpoints"].empty()) return {};
  const auto& endpoints = slice["endpoints"];
  return endpoints[static_cast<std::size_t>(n) % endpoints.size()]["addresses"][0];
}

// The operator dies, and its successor hears nothing of the activators for a while: they are stopped. Whoever
// sends meanwhile is led to them all the same, and gets its answer.
TEST_F(Zero, ANewOperatorThatHasHeardFromNoActivatorYetLeadsRequestsOn) {
  Servers servers;
  s_.cluster->create(goes_to_zero(servers.port(), 1));
  const Activator one = start_activator("gap-1", "1000");
  const Activator two = start_activator("gap-2", "1000");
  ASSERT_TRUE(wait_size(0, 120s)) << s_.say("web");
  ASSERT_TRUE(s_.wait_pods("web", 0));
  ASSERT_TRUE(s_.cluster->wait(20s, [] { return led_to() == 2; })) << slice().dump(2);

  std::list<std::future<std::string>> sent;
  int led_nowhere = 0;
  const auto send_for = [&](Milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
      const std::string address = somewhere(slice(), static_cast<int>(sent.size()));
      if (address.empty())
        ++led_nowhere;
      else
        sent.push_back(send(address, port()));
      std::this_thread::sleep_for(100ms);
    }
  };
  for (const auto& a : {one, two}) ::kill(a.process.pid, SIGSTOP);
  s_.muster->kill();
  send_for(1s);
  s_.muster = s_.cluster->muster();
  send_for(6s);
  EXPECT_EQ(led_nowhere, 0) << "nobody has said that they do not listen";
  EXPECT_EQ(led_to(), 2U) << slice().dump(2);
  for (const auto& a : {one, two}) ::kill(a.process.pid, SIGCONT);
  ASSERT_TRUE(wait_size(1)) << s_.say("web");
  int answered = 0;
  for (auto& answer : sent) {
    ASSERT_EQ(answer.wait_for(60s), std::future_status::ready) << s_.say("web");
    answered += answer.get().find("hello from 10.") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(answered, static_cast<int>(sent.size()));
  EXPECT_GT(answered, 30);

  // A pod that is gone is no reason to lead anybody there.
  ASSERT_TRUE(wait_size(0, 120s)) << s_.say("web");
  ASSERT_TRUE(s_.cluster->wait(20s, [] { return led_to() == 2; })) << slice().dump(2);
  ::kill(two.process.pid, SIGSTOP);
  s_.muster->kill();
  s_.cluster->remove("/api/v1/namespaces/muster-system/pods/gap-2");
  s_.muster = s_.cluster->muster();
  EXPECT_TRUE(s_.cluster->wait(30s, [&] {
    return led_to() == 1 && slice()["endpoints"][0]["addresses"][0] == one.ip;
  })) << slice().dump(2);
  ::kill(two.process.pid, SIGCONT);
}

// --- under load

// Where a connection that is opened now goes, as kube-proxy would send it: to the activators, or to the pods
// that serve. It learns of changes a moment later.
class Proxy {
 public:
  explicit Proxy(std::function<std::vector<std::pair<std::string, int>>()> read)
      : thread_([this, read = std::move(read)] {
          while (!stops_) {
            auto now = read();
            {
              const std::lock_guard lock(mutex_);
              targets_ = std::move(now);
            }
            std::this_thread::sleep_for(300ms);
          }
        }) {}
  ~Proxy() {
    stops_ = true;
    thread_.join();
  }
  std::optional<std::pair<std::string, int>> next() {
    const std::lock_guard lock(mutex_);
    if (targets_.empty()) return std::nullopt;
    return targets_[turn_++ % targets_.size()];
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, int>> targets_;
  std::size_t turn_ = 0;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

// The time to the first word, in seconds; nothing: it broke off, or was refused.
std::optional<double> stream_words(const std::string& address, int port) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    Request request(address, port, "/words");
    if (request.until("data: ").find("HTTP/1.1 200") != 0) return std::nullopt;
    const std::chrono::duration<double> first = std::chrono::steady_clock::now() - begin;
    return request.all().ends_with("data: [DONE]\n\n") ? std::optional(first.count()) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string percentiles(std::vector<double> seconds) {
  if (seconds.empty()) return "none";
  std::ranges::sort(seconds);
  const auto at = [&](std::size_t percent) {
    return std::to_string(static_cast<int>(1000 * seconds[(seconds.size() - 1) * percent / 100])) + " ms";
  };
  return "p50 " + at(50) + ", p99 " + at(99) + ", longest " + at(100);
}

// MUSTER_FULL_SIZE: 500 clients, each with 10 streamed requests, one after the other.
TEST_F(Zero, UnderLoadItComesFromZeroGrowsAndLosesNoRequest) {
  const int clients = full_size() ? 500 : 60, each = full_size() ? 10 : 3;
  Servers servers;
  json service = goes_to_zero(servers.port(), 4);
  service["spec"]["autoscaling"]["target"] = std::to_string(clients / 4);
  service["spec"]["drainSeconds"] = 5;
  s_.cluster->create(service);
  std::vector<std::string> activators;
  for (const char* name : {"load-1", "load-2"}) activators.push_back(start_activator(name, "1000").ip);
  ASSERT_TRUE(wait_size(0, 120s)) << s_.say("web");
  ASSERT_TRUE(s_.wait_pods("web", 0));
  ASSERT_TRUE(s_.cluster->wait(20s, [] { return led_to() == 2; })) << slice().dump(2);

  Proxy proxy([&] {
    std::vector<std::pair<std::string, int>> all;
    const json there = slice();
    if (!there.is_null()) {
      for (const auto& endpoint : there["endpoints"]) all.emplace_back(endpoint["addresses"][0], port());
    }
    if (!all.empty()) return all;
    for (const auto& pod : s_.pods("web")) {
      const bool ready =
          std::ranges::any_of(pod["status"].value("conditions", json::array()),
                              [](const json& c) { return c["type"] == "Ready" && c["status"] == "True"; });
      if (ready && !pod["metadata"].contains("deletionTimestamp"))
        all.emplace_back(pod["status"]["podIP"], servers.port());
    }
    return all;
  });
  std::mutex mutex;
  std::vector<double> from_zero, later;
  int lost = 0, most = 0;
  {
    std::list<std::thread> threads;
    std::atomic<int> at_work = clients;
    for (int i = 0; i < clients; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < each; ++n) {
          auto to = proxy.next();
          for (int wait = 0; !to && wait < 100; ++wait) std::this_thread::sleep_for(100ms), to = proxy.next();
          const auto took = to ? stream_words(to->first, to->second) : std::nullopt;
          const std::lock_guard lock(mutex);
          if (took) (n == 0 ? from_zero : later).push_back(*took);
          lost += took ? 0 : 1;
        }
        --at_work;
      });
    }
    while (at_work > 0) {
      most = std::max(most, s_.status("web").value("readyReplicas", 0));
      std::this_thread::sleep_for(200ms);
    }
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(from_zero.size() + later.size(), static_cast<std::size_t>(clients * each));
  EXPECT_GE(most, 1) << s_.say("web");

  // The same request with and without an activator in the path.
  std::vector<double> direct, through;
  const auto to = proxy.next();
  for (int n = 0; n < 20 && to; ++n) {
    if (const auto took = stream_words(to->first, servers.port())) direct.push_back(*took);
    if (const auto took = stream_words(activators[0], port())) through.push_back(*took);
  }
  EXPECT_EQ(through.size(), 20U);
  std::cout << clients << " clients x " << each << " streams: " << lost << " lost, up to " << most
            << " replicas\nfirst word of the first request, from zero: " << percentiles(from_zero)
            << "\nfirst word of all others: " << percentiles(later)
            << "\none client, first word, direct: " << percentiles(direct)
            << "\none client, first word, through an activator: " << percentiles(through) << "\n";
  ASSERT_TRUE(wait_size(0, 120s)) << s_.say("web");
}

}  // namespace
}  // namespace muster::test
