#include "muster/client/events.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/client/testing/virtual_world.h"
#include "watch/fake_collection.h"

namespace muster::client {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using nlohmann::json;

struct Rig {
  VirtualWorld world;
  FakeTransport transport{world.env()};
  ApiClient api{world.env(), transport};
  EventRecorder recorder{api, "muster.dev/controller", "muster-0"};
  std::map<std::string, json> events;  // by namespace/name
  int writes = 0;
  Fault fault;
  std::shared_ptr<boost::asio::cancellation_signal> signal;

  Rig() {
    transport.set_handler([this](const HttpRequest& r) { return answer(r); });
    transport.set_fault_hook([this](const HttpRequest&) { return fault; });
  }
  HttpResponse answer(const HttpRequest& r) {
    ++writes;
    json body = json::parse(r.body);
    if (r.method == Method::kPost) {
      const std::string key = body["metadata"]["namespace"].get<std::string>() + "/" +
                              body["metadata"]["name"].get<std::string>();
      EXPECT_NE(r.target.find("/apis/events.k8s.io/v1/namespaces/" +
                              body["metadata"]["namespace"].get<std::string>() + "/events"),
                std::string::npos);
      if (events.contains(key)) return json_answer(409, status_json(409, "AlreadyExists"));
      events[key] = body;
      return json_answer(201, r.body);
    }
    EXPECT_EQ(r.method, Method::kPatch);
    for (auto& [key, event] : events) {
      if (!r.target.contains("/" + event["metadata"]["name"].get<std::string>())) continue;
      event.merge_patch(body);
      return json_answer(200, event.dump());
    }
    return json_answer(404, status_json(404, "NotFound"));
  }
  void start() { signal = world.start(recorder.run()); }
  void record(std::string reason, std::string note = "a sentence", std::string name = "job-1",
              std::string ns = "team") {
    EventTarget target{"muster.dev/v1alpha1", "TrainingJob", std::move(ns), std::move(name), "uid-1"};
    recorder.record(target, EventType::kNormal, std::move(reason), "Admit", std::move(note));
  }
};

TEST(Events, AreWrittenAsTheApiWantsThem) {
  Rig rig;
  rig.start();
  rig.record("Admitted", "on 2 nodes");
  rig.world.settle();
  ASSERT_EQ(rig.events.size(), 1u);
  const json& e = rig.events.begin()->second;
  EXPECT_EQ(e["apiVersion"], "events.k8s.io/v1");
  EXPECT_EQ(e["reportingController"], "muster.dev/controller");
  EXPECT_EQ(e["reportingInstance"], "muster-0");
  EXPECT_EQ(e["type"], "Normal");
  EXPECT_EQ(e["reason"], "Admitted");
  EXPECT_EQ(e["action"], "Admit");
  EXPECT_EQ(e["note"], "on 2 nodes");
  EXPECT_EQ(e["eventTime"], "2023-11-14T22:13:20.000000Z");
  EXPECT_EQ(e["regarding"]["uid"], "uid-1");
  EXPECT_TRUE(e["metadata"]["name"].get<std::string>().starts_with("job-1."));
  EXPECT_FALSE(e.contains("series"));
}

TEST(Events, RepetitionBecomesASeriesAndAPauseOfSixMinutesEndsIt) {
  Rig rig;
  rig.start();
  for (int i = 0; i < 100; ++i) {
    rig.record("Waiting");
    rig.world.run_for(1s);
  }
  rig.world.run_for(30s);
  ASSERT_EQ(rig.events.size(), 1u);
  EXPECT_EQ(rig.events.begin()->second["series"]["count"], 100);
  EXPECT_EQ(rig.events.begin()->second["series"]["lastObservedTime"], "2023-11-14T22:14:59.000000Z");
  EXPECT_LE(rig.writes, 15);  // counts are written now and then, not each time
  rig.record("Other");
  rig.record("Waiting", "another sentence");
  rig.world.settle();
  EXPECT_EQ(rig.events.size(), 3u);
  rig.world.run_for(6min + 1s);
  rig.record("Waiting");
  rig.world.settle();
  EXPECT_EQ(rig.events.size(), 4u);
}

TEST(Events, ASeriesWhoseObjectHasExpiredStartsAnew) {
  Rig rig;
  rig.start();
  rig.record("Waiting");
  rig.world.run_for(20s);
  rig.events.clear();
  rig.record("Waiting");
  rig.world.run_for(20s);
  ASSERT_EQ(rig.events.size(), 1u);
  EXPECT_EQ(rig.events.begin()->second["series"]["count"], 2);
}

TEST(Events, NamesAreUniqueAndLegalNotesAreCut) {
  Rig rig;
  rig.start();
  std::string note(1022, 'x');
  note += "\xc3\xa4\xc3\xa4";  // two letters of two bytes
  for (int i = 0; i < 50; ++i) rig.record("R" + std::to_string(i), note, std::string(253, 'n'));
  rig.record("Cluster", "of a node", "node-1", "");
  rig.world.settle();
  ASSERT_EQ(rig.events.size(), 51u);
  for (const auto& [key, e] : rig.events) {
    EXPECT_LE(e["metadata"]["name"].get<std::string>().size(), 253u);
    EXPECT_LE(e["note"].get<std::string>().size(), 1024u);
    if (e["reason"] == "Cluster") {
      EXPECT_EQ(e["metadata"]["namespace"], "default");
    } else {
      EXPECT_EQ(e["note"].get<std::string>().size(), 1024u);
    }
  }
}

TEST(Events, TheOldestAreDroppedWhenTheServerCannotKeepUp) {
  Rig rig;
  rig.start();
  rig.fault.kind = FaultKind::kHangBefore;
  rig.record("First");
  rig.world.settle();
  for (int i = 0; i < 1500; ++i) rig.record("R" + std::to_string(i));
  EXPECT_EQ(rig.recorder.dropped(), 500u);
  rig.fault = Fault{};
  rig.world.run_for(1min);
  // The first is sent again, at the cost of one more.
  EXPECT_EQ(rig.recorder.dropped(), 501u);
  EXPECT_EQ(rig.events.size(), 1000u);
  std::set<std::string> reasons;
  for (const auto& [key, e] : rig.events) reasons.insert(e["reason"]);
  EXPECT_TRUE(reasons.contains("First"));
  EXPECT_TRUE(reasons.contains("R1499"));
  EXPECT_FALSE(reasons.contains("R500"));
}

TEST(Events, LostAnswersDoNotDoubleThem) {
  Rig rig;
  rig.start();
  rig.fault.kind = FaultKind::kLostAfter;
  rig.record("Admitted");
  rig.record("Waiting");
  rig.world.run_for(1ms);
  rig.fault = Fault{};
  rig.record("Started");
  rig.world.run_for(1min);
  std::map<std::string, int> count;
  for (const auto& [key, e] : rig.events) ++count[e["reason"]];
  EXPECT_EQ(count, (std::map<std::string, int>{{"Admitted", 1}, {"Started", 1}, {"Waiting", 1}}));
}

TEST(Events, CancelledFlushesForTwoSecondsAtMost) {
  for (const bool silent : {false, true}) {
    Rig rig;
    bool ended = false;
    auto task = [](EventRecorder& r, bool& out) -> Task<void> {
      co_await r.run();
      out = true;
    };
    auto signal = rig.world.start(task(rig.recorder, ended));
    rig.record("Admitted");
    rig.world.run_for(1s);
    rig.record("Admitted");  // its count would be written later
    rig.record("Stopped");
    if (silent) rig.fault.kind = FaultKind::kHangBefore;
    signal->emit(boost::asio::cancellation_type::terminal);
    rig.world.run_for(2s);
    EXPECT_TRUE(ended);
    EXPECT_EQ(rig.events.size(), silent ? 1u : 2u);
  }
}

}  // namespace
}  // namespace muster::client
