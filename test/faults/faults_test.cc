// The client against a real API server through a proxy that does harm. Each case: while somebody else changes
// objects over a direct connection, harm befalls our list and watch; in the end the store holds what the
// server holds, and handlers heard a consistent story of states that truly were. And: no write is done twice.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "muster/client/config.h"
#include "muster/client/curl_transport.h"
#include "muster/client/events.h"
#include "muster/client/informer.h"
#include "muster/client/leader_election.h"
#include "muster/testcluster/testcluster.h"
#include "proxy.h"

namespace muster::faults {
namespace {

using namespace std::chrono_literals;
using client::Ptr;
using nlohmann::json;
using testcluster::TestCluster;
using SteadyClock = std::chrono::steady_clock;

struct Thing {
  client::Meta meta;
  std::string value;
};

client::Result<Thing> decode(std::string_view text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) {
    client::Error error;
    error.code = client::ErrorCode::kDecode;
    return std::unexpected(error);
  }
  const json& m = parsed["metadata"];
  Thing thing;
  thing.meta = {m.value("namespace", ""), m["name"], m["uid"], m["resourceVersion"]};
  if (parsed.contains("data")) thing.value = parsed["data"].value("value", "");
  return thing;
}

constexpr std::string_view kPath = "/api/v1/namespaces/default/configmaps";

std::string status(int code, std::string_view reason, std::string_view message) {
  return json{{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", json::object()},
              {"status", "Failure"}, {"message", message}, {"reason", reason},
              {"code", code}}
      .dump();
}

Harm answer(int code, std::string_view reason) {
  Harm harm;
  harm.kind = HarmKind::kAnswer;
  harm.status = code;
  harm.body = status(code, reason, "harm done on purpose");
  return harm;
}

Harm harm_of(HarmKind kind, std::size_t after = 0) {
  Harm harm;
  harm.kind = kind;
  harm.after = after;
  return harm;
}

bool is_watch(const Seen& seen) {
  return seen.target.contains("watch=true");
}
bool is_streaming_list(const Seen& seen) {
  return seen.target.contains("sendInitialEvents=true");
}
bool is_later_watch(const Seen& seen) {
  return is_watch(seen) && !is_streaming_list(seen);
}
bool is_list(const Seen& seen) {
  return seen.method == "GET" && !is_watch(seen);
}
bool is_later_page(const Seen& seen) {
  return is_list(seen) && seen.target.contains("continue=");
}

// Changes ConfigMaps over its own connection, and knows every state it has made.
class Changer {
 public:
  Changer(TestCluster& cluster, std::uint64_t seed) : cluster_(cluster), random_(seed) {}

  void change_one() {
    const std::string name = "thing-" + std::to_string(random_() % 40);
    const std::string path = std::string(kPath) + "/" + name;
    const bool exists = known_.contains(name);
    if (exists && random_() % 3 == 0) {
      const auto gone = cluster_.request("DELETE", path);
      ASSERT_TRUE(gone && gone->ok()) << (gone ? gone->body : gone.error());
      known_.erase(name);
      return;
    }
    json body = {
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"metadata", {{"name", name}}},
        {"data", {{"value", std::to_string(random_())}, {"bulk", std::string(random_() % 3000, 'x')}}}};
    const auto written =
        cluster_.request(exists ? "PUT" : "POST", exists ? path : std::string(kPath), body.dump());
    ASSERT_TRUE(written && written->ok()) << (written ? written->body : written.error());
    const json made = json::parse(written->body);
    known_.insert(name);
    states_.emplace(made["metadata"]["uid"], made["metadata"]["resourceVersion"]);
    uids_.insert(made["metadata"]["uid"]);
  }
  bool ever_was(const Thing& t) const { return states_.contains({t.meta.uid, t.meta.resource_version}); }
  bool ever_lived(const Thing& t) const { return uids_.contains(t.meta.uid); }

 private:
  TestCluster& cluster_;
  std::mt19937_64 random_;
  std::set<std::string> known_, uids_;
  std::set<std::pair<std::string, std::string>> states_;
};

// Our client: one event loop, its informer behind the proxy.
struct Client {
  boost::asio::io_context io{1};
  client::RealClock clock;
  client::RandomSource random{client::RandomSource::seed_from_system()};
  client::Environment env{io.get_executor(), clock, random};
  std::unique_ptr<client::CurlTransport> transport;
  std::unique_ptr<client::ApiClient> api;

  explicit Client(const std::string& url) {
    client::ClientConfig config;
    config.server = url;
    client::CurlOptions curl;
    curl.max_connections = 8;
    transport = std::make_unique<client::CurlTransport>(env, config, curl);
    client::ApiOptions options;
    options.timeout = 3s;
    api = std::make_unique<client::ApiClient>(env, *transport, options);
  }

  template <class Predicate>
  bool run_until(Predicate done, std::chrono::seconds limit) {
    const auto deadline = SteadyClock::now() + limit;
    while (!done()) {
      if (SteadyClock::now() > deadline) return false;
      io.restart();
      io.run_for(5ms);
    }
    return true;
  }

  template <class T>
  T run(client::Task<T> task) {
    std::optional<T> out;
    client::spawn(env.executor, keep(std::move(task), out));
    if (!run_until([&] { return out.has_value(); }, 60s))
      throw std::runtime_error("the coroutine never ended");
    return std::move(*out);
  }
  template <class T>
  static client::Task<void> keep(client::Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }
};

// What handlers may hear: per key Added, Updated…, Deleted of one uid, versions that grow.
struct Story {
  std::map<client::Key, Ptr<Thing>> known;
  std::vector<Thing> states, ends;
  std::vector<std::string> complaints;
  int events = 0;

  void complain(const std::string& what, const Thing& t) {
    complaints.push_back(what + ": " + t.meta.key() + " " + t.meta.uid + "@" + t.meta.resource_version);
  }
  void hear(const client::StoreEvent<Thing>& event) {
    ++events;
    if (const auto* a = std::get_if<client::Added<Thing>>(&event)) {
      states.push_back(*a->now);
      if (!known.emplace(a->now->meta.key(), a->now).second) complain("added twice", *a->now);
    } else if (const auto* u = std::get_if<client::Updated<Thing>>(&event)) {
      states.push_back(*u->now);
      Ptr<Thing>& before = known[u->now->meta.key()];
      if (before != u->before) complain("updated from another state", *u->now);
      if (u->before->meta.uid != u->now->meta.uid) complain("updated to another uid", *u->now);
      if (client::compare_resource_versions(u->before->meta.resource_version,
                                            u->now->meta.resource_version) != std::partial_ordering::less) {
        complain("updated backwards", *u->now);
      }
      before = u->now;
    } else if (const auto* d = std::get_if<client::Deleted<Thing>>(&event)) {
      ends.push_back(*d->last);
      const auto it = known.find(d->last->meta.key());
      if (it == known.end() || it->second->meta.uid != d->last->meta.uid)
        return complain("deleted what was not there", *d->last);
      known.erase(it);
    }
  }
};

class Faults : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    testcluster::Options options;
    options.with_controller_manager = false;
    options.with_kwok = false;
    auto started = TestCluster::start(options);
    ASSERT_TRUE(started) << started.error();
    cluster_ = std::make_unique<TestCluster>(std::move(*started));
    Upstream upstream;
    const std::string url = cluster_->server_url();
    upstream.port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
    upstream.ca = cluster_->ca_certificate();
    upstream.certificate = cluster_->admin_certificate();
    upstream.key = cluster_->admin_key();
    proxy_ = std::make_unique<Proxy>(upstream);
  }
  static void TearDownTestSuite() {
    proxy_.reset();
    cluster_.reset();
  }
  void SetUp() override {
    ASSERT_TRUE(cluster_);
    proxy_->set_judge(nullptr);
    const auto cleaned = cluster_->request("DELETE", std::string(kPath));
    ASSERT_TRUE(cleaned && cleaned->ok());
    proxy_->reset_counts();
  }

  // "namespace/name uid version value" of each, as the server itself says over a direct connection.
  static std::set<std::string> server_holds() {
    std::set<std::string> out;
    const auto answered = cluster_->request("GET", std::string(kPath));
    EXPECT_TRUE(answered && answered->ok());
    const json list = json::parse(answered->body);
    for (const json& item : list["items"]) out.insert(line(*decode(item.dump())));
    return out;
  }
  static std::string line(const Thing& t) {
    return t.meta.key() + " " + t.meta.uid + " " + t.meta.resource_version + " " + t.value;
  }
  static std::set<std::string> store_holds(const client::Store<Thing>& store) {
    std::set<std::string> out;
    for (const auto& [key, thing] : store.all()) out.insert(line(*thing));
    return out;
  }

  // The whole of a case. `judge` deals the harm during the changes; afterwards none befalls anybody.
  void follow(client::WatcherOptions options, Proxy::Judge judge, int least_harm) {
    options.ns = "default";
    options.idle_deadline = 2s;
    options.backoff_min = 50ms;
    options.backoff_max = 400ms;
    Changer changer(*cluster_, 7);
    for (int i = 0; i < 60; ++i) changer.change_one();
    proxy_->set_judge(std::move(judge));
    Client client(proxy_->url());
    client::Informer<Thing> informer(*client.api, client::resources::kConfigMaps, decode, options);
    Story story;
    informer.store().add_handler([&](const client::StoreEvent<Thing>& e) { story.hear(e); });
    boost::asio::cancellation_signal stop;
    client::spawn(client.env.executor, informer.run(), &stop);
    std::atomic<bool> changed = false;
    std::thread other([&] {
      for (int i = 0; i < 150; ++i) {
        changer.change_one();
        std::this_thread::sleep_for(15ms);
      }
      changed = true;
    });
    EXPECT_TRUE(client.run_until([&] { return changed && proxy_->harmed() >= least_harm; }, 40s));
    other.join();
    EXPECT_GE(proxy_->harmed(), least_harm) << "the harm of this case never came about";
    proxy_->set_judge(nullptr);
    const std::set<std::string> truth = server_holds();
    EXPECT_TRUE(client.run_until([&] { return store_holds(informer.store()) == truth; }, 30s))
        << "in state " << to_string(informer.watcher().state());
    EXPECT_EQ(store_holds(informer.store()), truth);
    EXPECT_EQ(story.complaints, std::vector<std::string>{});
    EXPECT_EQ(story.known, informer.store().all());
    for (const Thing& t : story.states) EXPECT_TRUE(changer.ever_was(t)) << "invented: " << line(t);
    for (const Thing& t : story.ends) EXPECT_TRUE(changer.ever_lived(t)) << "invented end: " << line(t);
    const auto& stats = informer.watcher().stats();
    std::cout << "  harm " << proxy_->harmed() << ", streaming lists " << stats.streaming_lists
              << ", paged lists " << stats.paged_lists << ", watches " << stats.watches << ", gone "
              << stats.gone << ", errors " << stats.errors << ", handler events " << story.events << "\n";
    stop.emit(boost::asio::cancellation_type::terminal);
    client.run_until([] { return false; }, 0s);
  }

  static inline std::unique_ptr<TestCluster> cluster_;
  static inline std::unique_ptr<Proxy> proxy_;
};

client::WatcherOptions pages_of(int size) {
  client::WatcherOptions options;
  options.streaming_list = false;
  options.page_size = size;
  return options;
}

// Harm for the first `times` requests that `which` picks.
Proxy::Judge first(int times, bool (*which)(const Seen&), Harm harm) {
  return [=, left = times](const Seen& seen) mutable {
    if (!which(seen) || left == 0) return Harm{};
    --left;
    return harm;
  };
}

TEST_F(Faults, NoHarm) {
  follow({}, nullptr, 0);
}

TEST_F(Faults, WatchCutInTheMiddleOfAnObject) {
  // Every stream, at an odd place each time: in the initial events first, later in the watch.
  follow(
      {},
      [n = 0](const Seen& seen) mutable {
        if (!is_watch(seen) || n >= 12) return Harm{};
        ++n;
        return harm_of(HarmKind::kCut, static_cast<std::size_t>(n) * 1711);
      },
      6);
}

TEST_F(Faults, HalfAStreamingListThenPages) {
  follow({}, first(3, is_streaming_list, harm_of(HarmKind::kCut, 9000)), 2);
}

TEST_F(Faults, HalfAList) {
  follow(pages_of(7), first(4, is_list, harm_of(HarmKind::kCut, 3000)), 4);
}

TEST_F(Faults, GoneOnOpen) {
  Proxy::Judge cut_and_refuse = [n = 0](const Seen& seen) mutable {
    if (!is_watch(seen) || n >= 8) return Harm{};
    ++n;
    if (is_later_watch(seen)) return answer(410, "Expired");
    return harm_of(HarmKind::kCut, 60'000);
  };
  follow(pages_of(500), cut_and_refuse, 4);
}

TEST_F(Faults, GoneInTheStream) {
  Harm harm = harm_of(HarmKind::kInsert, 2500);
  harm.body = R"({"type":"ERROR","object":)" + status(410, "Expired", "too old resource version") + "}\n";
  follow(pages_of(20), first(5, is_later_watch, harm), 3);
}

TEST_F(Faults, GoneBetweenPages) {
  follow(pages_of(7), first(3, is_later_page, answer(410, "Expired")), 1);
}

TEST_F(Faults, TooManyRequests) {
  Harm busy = answer(429, "TooManyRequests");
  busy.retry_after = "1";
  follow(pages_of(500), first(4, [](const Seen& s) { return s.method == "GET"; }, busy), 4);
}

TEST_F(Faults, SlowDrip) {
  follow({}, [](const Seen& seen) { return is_watch(seen) ? harm_of(HarmKind::kDrip) : Harm{}; }, 1);
}

TEST_F(Faults, SilenceInTheStreamingList) {
  follow(
      {},
      [n = 0](const Seen& seen) mutable {
        if (!is_watch(seen) || n >= 4) return Harm{};
        return harm_of(HarmKind::kSilence, 4000 + 9000 * static_cast<std::size_t>(n++));
      },
      2);
}

TEST_F(Faults, SilenceOfAPagedList) {
  follow(pages_of(7), first(2, is_list, harm_of(HarmKind::kSilence, 100)), 2);
}

TEST_F(Faults, GarbageInTheStream) {
  Harm harm = harm_of(HarmKind::kInsert, 1500);
  harm.body = "<html>bad gateway</html>\n";
  follow({}, first(4, is_watch, harm), 2);
}

TEST_F(Faults, SilenceInTheWatch) {
  follow(pages_of(500), first(2, is_later_watch, harm_of(HarmKind::kSilence, 3000)), 2);
}

TEST_F(Faults, RandomHarm) {
  client::WatcherOptions options = pages_of(9);
  options.server_timeout_min = options.server_timeout_max = 1s;  // many requests
  follow(
      options,
      [random = std::mt19937_64{11}](const Seen&) mutable {
        const std::size_t after = random() % 20'000;
        switch (random() % 12) {
          case 0:
            return harm_of(HarmKind::kCut, after);
          case 1:
            return answer(410, "Expired");
          case 2:
            return answer(429, "TooManyRequests");
          case 3:
            return answer(504, "Timeout");
          case 4:
            return harm_of(HarmKind::kLostAnswer);
          case 5:
            return harm_of(HarmKind::kDrip);
          case 6:
            return harm_of(HarmKind::kSilence, after);
          default:
            return Harm{};
        }
      },
      6);
}

// --- what else a real server must take from us

TEST_F(Faults, EventsAndTheirSeriesAreTakenByARealServer) {
  Client client(proxy_->url());
  client::EventRecorder recorder(*client.api, "muster.dev/controller", "faults-test-0");
  boost::asio::cancellation_signal stop;
  client::spawn(client.env.executor, recorder.run(), &stop);
  const client::EventTarget target{"v1", "ConfigMap", "default", "thing-1", "some-uid"};
  const client::EventTarget cluster_wide{"v1", "Node", "", "node-1", "other-uid"};
  recorder.record(target, client::EventType::kWarning, "Waiting", "Admit", "have 2, need 6");
  recorder.record(cluster_wide, client::EventType::kNormal, "Seen", "Look", std::string(3000, 'x'));
  ASSERT_TRUE(client.run_until([] { return proxy_->forwarded("POST") == 2; }, 10s));
  client.run_until([] { return false; }, 1s);
  recorder.record(target, client::EventType::kWarning, "Waiting", "Admit", "have 2, need 6");
  stop.emit(boost::asio::cancellation_type::terminal);
  EXPECT_TRUE(client.run_until([] { return proxy_->forwarded("PATCH") == 1; }, 3s));
  client.run_until([] { return false; }, 1s);
  EXPECT_EQ(recorder.dropped(), 0u);
  const auto answered = cluster_->request("GET", "/apis/events.k8s.io/v1/namespaces/default/events");
  ASSERT_TRUE(answered && answered->ok());
  std::map<std::string, int> counts;
  const json list = json::parse(answered->body);
  for (const json& e : list["items"]) {
    if (e.value("reportingController", "") != "muster.dev/controller") continue;
    counts[e["reason"]] =
        e.contains("series") && !e["series"].is_null() ? e["series"]["count"].get<int>() : 1;
  }
  EXPECT_EQ(counts, (std::map<std::string, int>{{"Seen", 1}, {"Waiting", 2}}));
}

TEST_F(Faults, TheLeaseIsTakenRenewedAndReleasedOnARealServer) {
  Client client(proxy_->url());
  client::LeaderElectionOptions options;
  options.lease.ns = "default";
  options.lease.name = "faults";
  options.retry_period = 200ms;
  const auto holder = [] {
    const auto answered =
        cluster_->request("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/faults");
    return answered && answered->ok() ? json::parse(answered->body)["spec"].value("holderIdentity", "")
                                      : "none";
  };
  struct Run {
    static client::Task<void> until_ended(client::LeaderElection& election, std::optional<bool>& out) {
      out = co_await election.run();
    }
  };
  options.identity = "a";
  client::LeaderElection a(*client.api, options, {});
  options.identity = "b";
  client::LeaderElection b(*client.api, options, {});
  std::optional<bool> a_ended, b_ended;
  boost::asio::cancellation_signal stop_a, stop_b;
  client::spawn(client.env.executor, Run::until_ended(a, a_ended), &stop_a);
  ASSERT_TRUE(client.run_until([&] { return a.is_leader(); }, 10s));
  client::spawn(client.env.executor, Run::until_ended(b, b_ended), &stop_b);
  client.run_until([] { return false; }, 1s);
  EXPECT_GT(proxy_->forwarded("PUT"), 2);
  EXPECT_EQ(holder(), "a");
  EXPECT_FALSE(b.is_leader());
  stop_a.emit(boost::asio::cancellation_type::terminal);
  ASSERT_TRUE(client.run_until([&] { return b.is_leader(); }, 3s));
  EXPECT_EQ(a_ended, true);
  EXPECT_EQ(holder(), "b");
  stop_b.emit(boost::asio::cancellation_type::terminal);
  ASSERT_TRUE(client.run_until([&] { return b_ended.has_value(); }, 3s));
  EXPECT_EQ(holder(), "");
}

// --- writes

class FaultsOfWrites : public Faults {
 protected:
  // With a generated name a second execution would be a second object.
  static std::string fresh() {
    return json{{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"generateName", "w-"}}}}.dump();
  }
  client::Result<std::string> create(Proxy::Judge judge) {
    proxy_->set_judge(std::move(judge));
    Client client(proxy_->url());
    auto result = client.run(client.api->create(client::resources::kConfigMaps, "default", fresh(), "test"));
    proxy_->set_judge(nullptr);
    return result;
  }
  static bool is_post(const Seen& seen) { return seen.method == "POST"; }
};

TEST_F(FaultsOfWrites, A504AfterTheWriteWentThroughIsNotRepeated) {
  Harm harm = harm_of(HarmKind::kReplaced);
  harm.status = 504;
  harm.body = status(504, "Timeout", "request timed out");
  const auto result = create(first(5, is_post, harm));
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().outcome_unknown()) << to_string(result.error());
  EXPECT_FALSE(result.error().safe_to_repeat());
  EXPECT_EQ(proxy_->forwarded("POST"), 1);
  EXPECT_EQ(server_holds().size(), 1u);
}

TEST_F(FaultsOfWrites, ALostAnswerIsNotRepeated) {
  const auto result = create(first(5, is_post, harm_of(HarmKind::kLostAnswer)));
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().outcome_unknown()) << to_string(result.error());
  EXPECT_EQ(proxy_->forwarded("POST"), 1);
  EXPECT_EQ(server_holds().size(), 1u);
}

TEST_F(FaultsOfWrites, SilenceAfterTheWriteEndsAtTheDeadline) {
  const auto start = SteadyClock::now();
  const auto result = create(first(5, is_post, harm_of(HarmKind::kSilence, 0)));
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().outcome_unknown()) << to_string(result.error());
  EXPECT_LT(SteadyClock::now() - start, 10s);
  EXPECT_EQ(proxy_->forwarded("POST"), 1);
  EXPECT_EQ(server_holds().size(), 1u);
}

TEST_F(FaultsOfWrites, A429IsRepeatedAndDoneOnce) {
  const auto result = create(first(2, is_post, answer(429, "TooManyRequests")));
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(proxy_->forwarded("POST"), 1);
  EXPECT_EQ(server_holds().size(), 1u);
}

TEST_F(FaultsOfWrites, AnUpdateWhoseAnswerWasLostShowsOnReadingAndConflictsOnRepeating) {
  auto made = create(nullptr);
  ASSERT_TRUE(made);
  json object = json::parse(*made);
  object["data"]["value"] = "second";
  proxy_->set_judge(
      first(1, [](const Seen& s) { return s.method == "PUT"; }, harm_of(HarmKind::kLostAnswer)));
  Client client(proxy_->url());
  client::ObjectRef ref{"default", object["metadata"]["name"]};
  const auto lost = client.run(client.api->update(client::resources::kConfigMaps, ref, object.dump()));
  ASSERT_FALSE(lost);
  EXPECT_TRUE(lost.error().outcome_unknown());
  const auto read = client.run(client.api->get(client::resources::kConfigMaps, ref));
  ASSERT_TRUE(read);
  EXPECT_EQ(json::parse(*read)["data"]["value"], "second");
  const auto again = client.run(client.api->update(client::resources::kConfigMaps, ref, object.dump()));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, client::ErrorCode::kConflict);
}

}  // namespace
}  // namespace muster::faults
