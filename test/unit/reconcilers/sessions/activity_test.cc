// When a session was last used: what its program says, and how it is asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "muster/client/testing/fake_transport.h"
#include "muster/client/testing/virtual_world.h"
#include "muster/reconcilers/sessions/activity_monitor.h"

namespace muster::reconcilers {
namespace {

using client::testing::Fault;
using client::testing::FaultKind;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr crds::Time kNoon{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2} + std::chrono::hours{12}};

TEST(LastActivity, IsReadAsJupyterSaysIt) {
  EXPECT_EQ(
      last_activity_of(R"({"connections": 2, "kernels": 1, "last_activity": "2026-01-02T12:00:00.123456Z",
                                 "started": "2026-01-02T09:00:00Z"})"),
      kNoon);
  EXPECT_EQ(last_activity_of(R"([{"id": "a", "last_activity": "2026-01-02T11:00:00Z"},
                                 {"id": "b", "last_activity": "2026-01-02T12:00:00Z"}])"),
            kNoon)
      << "of several kernels the newest";
}

TEST(LastActivity, AnotherAnswerIsNoAnswer) {
  const auto problem = [](const char* body) {
    const auto said = last_activity_of(body);
    return said ? "it was understood" : said.error();
  };
  EXPECT_THAT(problem("<html>"), HasSubstr("neither a JSON object nor a list"));
  EXPECT_THAT(problem("[]"), HasSubstr("neither a JSON object nor a list")) << "nobody knows since when";
  EXPECT_THAT(problem("{}"), HasSubstr("no text last_activity"));
  EXPECT_THAT(problem(R"({"last_activity": 12})"), HasSubstr("no text last_activity"));
  EXPECT_THAT(problem(R"({"last_activity": "yesterday"})"), HasSubstr("is no time"));
  EXPECT_THAT(problem(R"([{"last_activity": "2026-01-02T11:00:00Z"}, 7])"),
              HasSubstr("no text last_activity"));
}

TEST(Activity, WithReadingsOfGpusBothHaveToSayIdle) {
  const Idleness gpus{.is_known = true, .idle = minutes{40}}, use{.is_known = true, .idle = minutes{7}};
  EXPECT_EQ(both(gpus, use).idle, minutes{7});
  EXPECT_EQ(both(use, gpus).idle, minutes{7});
  EXPECT_TRUE(both(gpus, use).is_known);
  EXPECT_TRUE(both(gpus, use).of_gpus && both(gpus, use).of_use);
  const Idleness silent{.idle = minutes{90}, .problem = "it does not answer"};
  EXPECT_FALSE(both(gpus, silent).is_known);
  EXPECT_EQ(both(gpus, silent).problem, "it does not answer");
  EXPECT_FALSE(both(silent, use).is_known);
  const Idleness busy{.is_known = true};
  EXPECT_TRUE(both(busy, silent).is_known) << "it is used, whatever the other would say";
  EXPECT_EQ(both(silent, busy).idle, seconds{0});
}

struct Monitored : testing::Test {
  Monitored() {
    pods.set_handler([this](const client::HttpRequest&) { return client::HttpResponse{status, {}, body}; });
    pods.set_fault_hook([this](const client::HttpRequest&) {
      Fault fault;
      if (silent) fault.kind = FaultKind::kHangBefore;
      return fault;
    });
  }
  crds::Time now() { return std::chrono::floor<seconds>(world.env().clock.wall()); }
  void used_at(crds::Time when) { body = R"({"last_activity": ")" + crds::to_string(when) + R"("})"; }
  Idleness look() { return monitor.look("nlp/note", what); }
  // Asks when it is time, and looks at the answer.
  Idleness read() {
    world.run_for(asking_interval(what.timeout));
    const int before = news;
    look();
    EXPECT_TRUE(world.run_until([&] { return news > before; }, seconds{60}));
    return look();
  }

  client::testing::VirtualWorld world;
  client::testing::FakeTransport pods{world.env()};
  int status = 200, news = 0;
  bool silent = false;
  std::string body;
  ActivityMonitor monitor{world.env(), pods, [this](const client::Key&) { ++news; }};
  ActivityWatch what{
      .attempt = "uid/1", .url = "http://10.0.0.7:8888/api/status?token=s3cret", .timeout = minutes{40}};
};

TEST_F(Monitored, TellsForHowLongNobodyHasUsedIt) {
  EXPECT_FALSE(look().is_known) << "it was not asked";
  EXPECT_EQ(look().problem, "");
  used_at(now() - minutes{7});
  const auto told = read();
  EXPECT_TRUE(told.is_known);
  EXPECT_FALSE(told.of_gpus);
  EXPECT_GE(told.idle, minutes{7});
  EXPECT_LE(told.idle, minutes{9});
  EXPECT_EQ(pods.requests().back().target, what.url);
  // Between two answers nobody knows whether somebody has come.
  world.run_for(seconds{30});
  EXPECT_EQ(look().idle, told.idle);
  used_at(now() + minutes{3});
  EXPECT_EQ(read().idle, seconds{0}) << "the node's clock is ahead";
}

TEST_F(Monitored, WhatWasBeforeTheAttemptDoesNotCount) {
  used_at(now() - minutes{90});
  what.since = now();
  EXPECT_LE(read().idle, minutes{2});
}

TEST_F(Monitored, WhoDoesNotAnswerIsNotIdle) {
  used_at(now() - minutes{30});
  EXPECT_TRUE(read().is_known);
  status = 403;
  EXPECT_TRUE(read().is_known) << "one answer may be missing";
  for (int i = 0; i < 3; ++i) read();
  EXPECT_FALSE(look().is_known);
  EXPECT_EQ(look().problem, "http://10.0.0.7:8888/api/status answers with 403") << "without its token";
  silent = true;
  EXPECT_THAT(read().problem, testing::Not(HasSubstr("s3cret")));
  what.url.clear();
  EXPECT_EQ(look().problem, "its pod has no address");
  ASSERT_TRUE(monitor.again("nlp/note"));
  monitor.forget("nlp/note");
  EXPECT_FALSE(monitor.again("nlp/note"));
}

TEST_F(Monitored, AnotherAttemptBeginsWithoutAPast) {
  used_at(now() - minutes{30});
  read();
  what.attempt = "uid/2";
  EXPECT_FALSE(look().is_known);
}

TEST(AskingInterval, IsATwentiethOfTheTimeoutWithinBounds) {
  EXPECT_EQ(asking_interval(seconds{2}), seconds{1});
  EXPECT_EQ(asking_interval(minutes{10}), seconds{30});
  EXPECT_EQ(asking_interval(std::chrono::hours{9}), minutes{1});
}

}  // namespace
}  // namespace muster::reconcilers
