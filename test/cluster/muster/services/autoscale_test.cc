// Autoscaling live: the test plays the servers. Pods of simulated nodes get addresses of this machine, one
// for each replica, and what answers there says how busy it is.
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <thread>

#include "metrics_servers.h"
#include "service_fixture.h"

namespace muster::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kServers = 3;

// Each says how many requests it runs.
class Servers {
 public:
  int port() const { return servers_.port(); }
  void all_run(int n) {
    for (auto& r : running) r = n;
  }

  std::array<std::atomic<int>, kServers> running{};  // less than 0: it answers with an error
  std::atomic<int> asked = 0;

 private:
  controller::HttpAnswer answer(int i) {
    ++asked;
    const int n = running[static_cast<std::size_t>(i)];
    if (n < 0) return {503, "not now\n"};
    return {200,
            "# TYPE vllm:num_requests_running gauge\n"
            "vllm:num_requests_running{engine=\"0\",model_name=\"a/b\"} " +
                std::to_string(n) + ".0\n"};
  }

  MetricsServers servers_{kServers, [this](int i) { return answer(i); }};  // last: it uses the others
};

// Each has a queue under a name of its own, in which only hot entries matter, and says how long first tokens
// took: at each answer two more requests.
class NamedServers {
 public:
  int port() const { return servers_.port(); }

  std::atomic<int> hot = 0;
  std::atomic<int> milliseconds = 100;  // of each first token

 private:
  controller::HttpAnswer answer(int i) {
    auto& [requests, in_all] = counted_[static_cast<std::size_t>(i)];
    requests += 2;
    in_all += 2 * milliseconds;
    return {200, "queue_depth{tier=\"hot\"} " + std::to_string(hot) + "\nqueue_depth{tier=\"cold\"} 99\n" +
                     "vllm:time_to_first_token_seconds_sum " + std::to_string(in_all / 1000.0) +
                     "\nvllm:time_to_first_token_seconds_count " + std::to_string(requests) + "\n"};
  }

  std::array<std::pair<int, std::int64_t>, kServers> counted_{};
  MetricsServers servers_{kServers, [this](int i) { return answer(i); }};  // last: it uses the others
};

// One service, whose pods get addresses as they come.
class Watched {
 public:
  Watched(const Stage& stage, std::string name) : s_(stage), name_(std::move(name)) {}

  bool wait(Milliseconds timeout, const std::function<bool()>& done) const {
    return s_.cluster->wait(timeout, [&] {
      give_addresses();
      return done();
    });
  }
  bool wait_size(int n) const {
    return wait(40s, [&] {
      const json status = s_.status(name_);
      return status.value("desiredReplicas", 0) == n && status.value("readyReplicas", 0) == n &&
             status.value("replicas", 0) == n;
    });
  }
  bool wait_reason(const std::string& reason) const {
    return wait(20s, [&] { return s_.condition(name_, "ScalingActive")["reason"] == reason; });
  }
  // So long that a wrong size would show: several readings, and the delay.
  bool let_it_read(const Servers& servers) const {
    const int before = servers.asked;
    return wait(60s, [&] { return servers.asked >= before + 10 * kServers; });
  }

 private:
  // As a kubelet would have it: each running pod at an address of its own.
  void give_addresses() const {
    for (const auto& pod : s_.pods(name_)) {
      const std::string pod_name = pod["metadata"]["name"];
      const std::string ip = pod["status"].value("podIP", "");
      if (ip.empty() || ip.starts_with("127.") || pod["metadata"].contains("deletionTimestamp")) continue;
      const std::string replica = pod["metadata"]["labels"]["muster.dev/job"];
      const int ordinal = std::stoi(replica.substr(replica.rfind('-') + 1));
      const std::string mine = MetricsServers::address(ordinal % kServers);
      const json status = {{"status", {{"podIP", mine}, {"podIPs", {{{"ip", mine}}}}}}};
      // It may have gone meanwhile.
      static_cast<void>(s_.cluster->real().request("PATCH",
                                                   "/api/v1/namespaces/team/pods/" + pod_name + "/status",
                                                   status.dump(), "application/merge-patch+json"));
    }
  }

  const Stage& s_;
  std::string name_;
};

json follows_load(int port, int most) {
  return {{"port", port},
          {"autoscaling",
           {{"maxReplicas", most},
            {"metric", "RequestsRunning"},
            {"target", "4"},
            {"window", "2s"},
            {"panicWindow", "2s"},
            {"scaleDownDelay", "4s"}}}};
}

TEST_F(Served, AnAutoscaledOneFollowsAnyMetricWithinLimitsAndNotBelowItsSchedule) {
  NamedServers servers;
  const Watched named(s_, "named");
  const auto message = [&] { return s_.condition("named", "ScalingActive")["message"].get<std::string>(); };
  s_.cluster->create(
      service_object("named", 1,
                     {{"port", servers.port()},
                      {"autoscaling",
                       {{"maxReplicas", 3},
                        {"metrics",
                         {{{"name", "queue_depth"}, {"labels", {{"tier", "hot"}}}, {"target", "2"}},
                          {{"metric", "TimeToFirstToken"}, {"target", "500m"}}}},
                        {"scaleUpLimit", {{"replicas", 1}, {"period", "8s"}}},
                        {"window", "2s"},
                        {"panicWindow", "2s"},
                        {"scaleDownDelay", "4s"}}}}));
  ASSERT_TRUE(named.wait_size(1)) << s_.say("named");
  ASSERT_TRUE(named.wait_reason("ValidMetricFound")) << s_.say("named");
  servers.hot = 4;
  ASSERT_TRUE(named.wait_size(2)) << s_.say("named");
  servers.hot = 0;
  ASSERT_TRUE(named.wait_size(1)) << s_.say("named");

  // Thrice too slow, and one replica more in any 8 s.
  servers.milliseconds = 1500;
  ASSERT_TRUE(named.wait(30s, [&] { return s_.status("named")["desiredReplicas"] == 2; })) << s_.say("named");
  const auto two = std::chrono::steady_clock::now();
  ASSERT_TRUE(named.wait(40s, [&] { return s_.status("named")["desiredReplicas"] == 3; })) << s_.say("named");
  EXPECT_GE(std::chrono::steady_clock::now() - two, 5s) << "as it is seen from here";
  ASSERT_TRUE(named.wait_size(3)) << s_.say("named");

  // It is fast again, but at this time of the day there are two at least.
  servers.milliseconds = 10;
  s_.cluster->patch(
      path_of_service("named"),
      {{"spec",
        {{"autoscaling",
          {{"schedules", {{{"start", "* * * * *"}, {"duration", "1h"}, {"minReplicas", 2}}}}}}}}});
  ASSERT_TRUE(named.wait_size(2)) << s_.say("named");
  EXPECT_TRUE(named.wait(40s, [&] {
    return message().find("at least 2 by spec.autoscaling.schedules[0]") != std::string::npos;
  })) << message();
  s_.cluster->patch(path_of_service("named"), {{"spec", {{"autoscaling", {{"schedules", nullptr}}}}}});
  ASSERT_TRUE(named.wait_size(1)) << s_.say("named");
}

TEST_F(Served, AnAutoscaledOneFollowsWhatItsReplicasSayAndHoldsWhenTheyDoNot) {
  Servers servers;
  const Watched busy(s_, "busy");
  s_.cluster->create(service_object("busy", 2, follows_load(servers.port(), 3)));
  ASSERT_TRUE(busy.wait_size(1)) << "minReplicas, whatever replicas says: " << s_.say("busy");
  ASSERT_TRUE(busy.wait_reason("ValidMetricFound")) << s_.say("busy");
  EXPECT_EQ(s_.condition("busy", "ScalingActive")["status"], "True");

  servers.running[0] = 40;
  ASSERT_TRUE(busy.wait_size(3)) << s_.say("busy");
  const auto pods = s_.uids("busy");
  EXPECT_TRUE(s_.cluster->wait(20s, [&] {
    return s_.cluster->get(
               "/apis/policy/v1/namespaces/team/poddisruptionbudgets/busy")["spec"]["minAvailable"] == 2;
  })) << "the budget follows the size";

  // One of three does not answer, and the others are idle: nothing goes.
  servers.all_run(0);
  servers.running[1] = -1;
  ASSERT_TRUE(busy.wait_reason("ReadingsPartial")) << s_.say("busy");
  ASSERT_TRUE(busy.let_it_read(servers));
  EXPECT_EQ(s_.status("busy")["desiredReplicas"], 3);
  // None answers; nor does the controller that read them before live.
  servers.all_run(-1);
  ASSERT_TRUE(busy.wait_reason("ReadingsFailed")) << s_.say("busy");
  EXPECT_THAT(s_.condition("busy", "ScalingActive")["message"].get<std::string>(),
              AllOf(HasSubstr("3 of 3 replicas that serve were not read"),
                    HasSubstr("/metrics answers with 503"), HasSubstr("the size is held")));
  s_.muster->kill();
  s_.muster = s_.cluster->muster();
  s_.scale("busy", 7);  // kubectl scale has no say
  ASSERT_TRUE(busy.let_it_read(servers));
  EXPECT_EQ(s_.status("busy")["desiredReplicas"], 3) << s_.say("busy");
  EXPECT_EQ(s_.uids("busy"), pods);

  // All of them are idle, and say so.
  servers.all_run(0);
  ASSERT_TRUE(busy.wait_size(1)) << s_.say("busy");
  EXPECT_EQ(s_.condition("busy", "ScalingActive")["status"], "True");
  EXPECT_TRUE(s_.cluster->wait(10s, [&] {
    const auto events = s_.events("busy");
    return events.contains("Rescaled") && events.contains("ReadingsPartial") &&
           events.contains("ValidMetricFound") && events.contains("ReplicasMade") &&
           events.contains("ReplicasRemoved");
  })) << testing::PrintToString(s_.events("busy"));

  // Without it the number is again whose it was.
  s_.cluster->patch(path_of_service("busy"), {{"spec", {{"replicas", 2}, {"autoscaling", nullptr}}}});
  ASSERT_TRUE(busy.wait_size(2)) << s_.say("busy");
  EXPECT_EQ(s_.condition("busy", "ScalingActive")["reason"], "ScalingDisabled");
}

}  // namespace
}  // namespace muster::test
