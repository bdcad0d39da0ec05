// Activators that are asked in virtual time.
#include "muster/reconcilers/services/activators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "muster/client/testing/fake_transport.h"
#include "muster/client/testing/virtual_world.h"

namespace muster::reconcilers {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ChoosePort, IsTheSameForANameAndNeverOneThatIsTaken) {
  const ActivatorOptions options{.first_port = 100, .last_port = 109};
  const auto port = choose_port("team/web", {}, options);
  EXPECT_GE(port, 100);
  EXPECT_LE(port, 109);
  EXPECT_EQ(choose_port("team/web", {}, options), port);
  std::set<std::int32_t> taken;
  for (int i = 0; i < 10; ++i) {
    const auto next = choose_port("team/web", taken, options);
    EXPECT_NE(next, 0);
    EXPECT_TRUE(taken.insert(next).second);
  }
  EXPECT_EQ(choose_port("team/web", taken, options), 0);
}

TEST(ActivationSlice, StandsBesideThatOfKubernetes) {
  crds::InferenceService service;
  service.metadata.name = "web";
  service.metadata.ns = "team";
  service.metadata.uid = "u";
  service.status.activator_port = 20017;
  const auto slice = activation_slice_json(service, {"10.0.0.1", "10.0.0.2"});
  EXPECT_EQ(slice["metadata"]["name"], "web-activator");
  EXPECT_EQ(slice["metadata"]["labels"]["kubernetes.io/service-name"], "web");
  EXPECT_EQ(slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"], "muster.dev");
  EXPECT_EQ(slice["addressType"], "IPv4");
  EXPECT_EQ(slice["ports"][0]["port"], 20017);
  EXPECT_EQ(slice["ports"][0]["name"], "http") << "as that of the Service";
  EXPECT_EQ(slice["endpoints"].size(), 2U);
  EXPECT_EQ(activation_slice_json(service, {"fd00::1"})["addressType"], "IPv6");
}

struct ActivatorsTest : testing::Test {
  ActivatorsTest() {
    pods.set_latency(milliseconds{100}, milliseconds{100});
    pods.set_handler([this](const client::HttpRequest& request) {
      const std::string host = request.target.substr(0, request.target.find("/demand"));
      const auto found = answers.find(host);
      return found == answers.end() ? client::HttpResponse{503, {}, "no"}
                                    : client::HttpResponse{200, {}, found->second};
    });
  }
  static std::string line(const std::string& service, int port, int held) {
    return "muster_activator_requests_held{namespace=\"team\",service=\"" + service + "\",port=\"" +
           std::to_string(port) + "\"} " + std::to_string(held) + "\n";
  }
  void say(const std::string& ip, const std::string& lines) {
    answers["http://" + ip + ":8080"] = lines + "muster_activator_version 7\n";
  }
  static client::Pod pod(const std::string& name, const std::string& ip, bool ready = true) {
    client::Pod p;
    p.meta = {"muster-system", name, "uid-" + name, "1"};
    p.ip = ip;
    p.ready = ready;
    p.phase = client::PodPhase::kRunning;
    return p;
  }

  client::testing::VirtualWorld world;
  client::testing::FakeTransport pods{world.env()};
  std::map<std::string, std::string> answers;
  std::map<client::Key, int> news;
  Activators all{world.env(), pods, [this](const client::Key& key) { ++news[key]; }, {}};
};

TEST_F(ActivatorsTest, AddUpWhatTheyHoldOfThoseThatListen) {
  say("10.0.0.1", line("web", 20001, 2) + line("other", 20002, 9));
  say("10.0.0.2", line("web", 20001, 3));
  EXPECT_THAT(all.look("team/web", 20001).missing, HasSubstr("no activator runs"));
  all.note(pod("a", "10.0.0.1"), false);
  EXPECT_THAT(all.look("team/web", 20001).missing, HasSubstr("none of 1 activators has answered"));
  all.note(pod("b", "10.0.0.2"), false);
  world.run_for(seconds{1});
  EXPECT_EQ(all.look("team/web", 20001).held, 5);
  EXPECT_EQ(all.look("team/web", 20001).missing, "");
  EXPECT_THAT(all.addresses("team/web", 20001), ElementsAre("10.0.0.1", "10.0.0.2"));
  EXPECT_THAT(all.addresses("team/other", 20002), ElementsAre("10.0.0.1"));
  EXPECT_THAT(all.addresses("team/web", 20009), IsEmpty()) << "they listen at another port";
  EXPECT_EQ(all.look("team/third", 20003).missing, "no activator listens for it yet");
  EXPECT_TRUE(all.is_ignored("team/third", 20003));
  EXPECT_GE(news["team/web"], 2);
  EXPECT_THAT(pods.requests().back().target, HasSubstr("/demand?after=7"));
}

TEST_F(ActivatorsTest, OneThatDoesNotAnswerOrIsNotReadyHoldsNothing) {
  say("10.0.0.1", line("web", 20001, 2));
  all.note(pod("a", "10.0.0.1"), false);
  world.run_for(seconds{1});
  ASSERT_EQ(all.look("team/web", 20001).held, 2);
  answers.clear();
  const int before = news["team/web"];
  world.run_for(seconds{1});
  EXPECT_EQ(all.look("team/web", 20001).held, 0);
  EXPECT_THAT(all.look("team/web", 20001).missing, HasSubstr("answers with 503"));
  EXPECT_GT(news["team/web"], before);
  say("10.0.0.1", line("web", 20001, 4));
  world.run_for(seconds{5});
  EXPECT_EQ(all.look("team/web", 20001).held, 4);

  all.note(pod("a", "10.0.0.1", false), false);
  EXPECT_THAT(all.look("team/web", 20001).missing, HasSubstr("none of 1 activators is ready"));
  EXPECT_THAT(all.addresses("team/web", 20001), IsEmpty());
  all.note(pod("a", "10.0.0.1"), false);
  world.run_for(seconds{1});
  EXPECT_EQ(all.look("team/web", 20001).held, 4);
  all.note(pod("a", "10.0.0.1"), true);
  EXPECT_THAT(all.look("team/web", 20001).missing, HasSubstr("no activator runs"));
}

TEST_F(ActivatorsTest, AfterStopNobodyIsAsked) {
  say("10.0.0.1", line("web", 20001, 2));
  all.note(pod("a", "10.0.0.1"), false);
  world.run_for(seconds{1});
  all.stop();
  world.run_for(seconds{1});
  EXPECT_TRUE(all.questions().empty());
  const auto asked = pods.requests().size();
  world.run_for(seconds{60});
  EXPECT_EQ(pods.requests().size(), asked);
}

// A process that begins, and a question that gets lost, are no reason to lead a service's requests nowhere.
TEST_F(ActivatorsTest, WhoHasOnlyNotAnsweredIsStillLedTo) {
  const std::vector<std::string> led = {"10.0.0.1", "10.0.0.2", "10.0.0.9"};
  client::testing::FaultKind fault = client::testing::FaultKind::kHangBefore;
  pods.set_fault_hook([&](const client::HttpRequest&) { return client::testing::Fault{.kind = fault}; });
  all.note(pod("a", "10.0.0.1"), false);
  all.note(pod("b", "10.0.0.2"), false);
  all.note(pod("c", "10.0.0.3"), false);
  EXPECT_TRUE(all.is_silent());
  EXPECT_THAT(all.addresses("team/web", 20001), IsEmpty());
  EXPECT_THAT(all.still_led("team/web", 20001, led), ElementsAre("10.0.0.1", "10.0.0.2"))
      << "9 is no activator, and to 3 nobody was led";
  all.note(pod("b", "10.0.0.2", false), false);
  EXPECT_THAT(all.still_led("team/web", 20001, led), ElementsAre("10.0.0.1")) << "it is not ready";
  all.note(pod("b", "10.0.0.2"), false);

  fault = client::testing::FaultKind::kNone;
  say("10.0.0.1", line("other", 20002, 0));
  say("10.0.0.2", line("web", 20001, 0));
  say("10.0.0.3", line("web", 20001, 0));
  world.run_for(seconds{30});
  EXPECT_FALSE(all.is_silent());
  EXPECT_THAT(all.still_led("team/web", 20001, led), ElementsAre("10.0.0.2", "10.0.0.3"))
      << "1 has said that it does not listen for it";

  fault = client::testing::FaultKind::kNotSent;
  world.run_for(seconds{30});
  EXPECT_TRUE(all.is_silent());
  EXPECT_THAT(all.addresses("team/web", 20001), IsEmpty());
  EXPECT_THAT(all.still_led("team/web", 20001, {"10.0.0.2", "10.0.0.3"}),
              ElementsAre("10.0.0.2", "10.0.0.3"));
  fault = client::testing::FaultKind::kNone;
  answers.clear();
  world.run_for(seconds{30});
  EXPECT_FALSE(all.is_silent()) << "503: it ends, and wants nobody any more";
  EXPECT_THAT(all.still_led("team/web", 20001, led), IsEmpty());
}

TEST(ActivationSlice, IsReadWhateverSomebodyHasMadeOfIt) {
  crds::InferenceService service;
  service.metadata.name = "web";
  service.status.activator_port = 20017;
  const auto slice = activation_slice_json(service, {"10.0.0.1", "10.0.0.2"});
  EXPECT_THAT(addresses_of_slice(slice, 20017), ElementsAre("10.0.0.1", "10.0.0.2"));
  EXPECT_THAT(addresses_of_slice(slice, 20018), IsEmpty()) << "nobody listens there for it any more";
  for (const char* text : {"", "null", "[]", R"({"ports": 1, "endpoints": {}})",
                           R"({"ports": [{"port": 20017}], "endpoints": [1, {"addresses": 2}]})"})
    EXPECT_THAT(addresses_of_slice(crds::Json::parse(text, nullptr, false), 20017), IsEmpty()) << text;
}

}  // namespace
}  // namespace muster::reconcilers
