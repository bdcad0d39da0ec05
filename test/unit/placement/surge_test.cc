// RULES.md 5.12: replicas of services are moved without being missed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_cluster.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::job;
using testing::node;
using testing::Q;
using Kind = Decision::Kind;

// Replicas of one GPU of the service serve/web, and jobs that want their places. Disturbances count as free
// unless the test says otherwise.
struct Serving {
  Cluster cluster;
  std::int64_t now = 100'000;  // seconds

  explicit Serving(const std::vector<NodeSpec>& nodes, Q serve = {}) {
    cluster.upsert_pool(testing::pool("default"));
    cluster.upsert_queue(testing::queue("top", "", {1000}));
    cluster.upsert_queue(testing::project("serve", "top", serve));
    cluster.upsert_queue(testing::project("a", "top", {100}));
    cluster.upsert_queue(testing::project("b", "top"));
    for (const NodeSpec& n : nodes) cluster.upsert_node(n);
  }

  static JobSpec replica(const std::string& name, bool preemptible = false, std::int32_t max_surge = 1) {
    JobSpec j = job("serve/" + name, 1, 1);
    j.preemptible = preemptible;
    j.serves = true;
    j.service = "serve/web";
    j.max_surge = max_surge;
    return j;
  }
  void runs(const JobSpec& j, std::vector<PodPlace> pods, bool is_ready = true, std::int64_t ago = 3600) {
    cluster.upsert_job(j);
    cluster.set_assignment(j.id, {"default", Time{(now - ago) * 1000}, std::move(pods)});
    ready(j.id, is_ready, ago);
  }
  void ready(const std::string& id, bool is_ready, std::int64_t ago = 3600) {
    Progress p;
    p.began = Time{(now - ago) * 1000};
    p.is_ready = is_ready;
    p.start_took = seconds(60);
    cluster.set_progress(id, p);
  }
  Plan plan() { return muster::placement::plan(cluster, Time{++now * 1000}); }
  std::vector<std::string> decisions() {
    std::vector<std::string> list;
    for (const Decision& d : plan().decisions) {
      static constexpr const char* kWords[] = {"start ", "replace ", "grow ", "shrink ", "move ", "evict "};
      list.push_back(kWords[static_cast<int>(d.kind)] + d.job + (d.surges ? " when ready" : ""));
    }
    return list;
  }
  std::string node_of(const std::string& id) const {
    const Assignment* a = cluster.assignment(id);
    return a == nullptr ? "" : a->pods.at(0).node;
  }
  // What a caller does when the new pods are ready: it confirms the places, and ends the old pods.
  void arrive(const std::string& id) {
    cluster.set_assignment(id, *cluster.assignment(id));
    cluster.set_leaving(id, {});
    ready(id, true, 0);
  }
};

TEST(SurgeTest, AReplicaIsMadeElsewhereBeforeItGoes) {
  Serving c({node("n1", 4), node("n2", 1)});
  c.runs(Serving::replica("web-0"), {{0, 0, "n1", {0}}});
  c.cluster.upsert_job(job("a/big", 1, 4));
  EXPECT_THAT(c.decisions(), ElementsAre("move serve/web-0 when ready"));
  EXPECT_EQ(c.node_of("serve/web-0"), "n2") << "it starts there at once";
  ASSERT_EQ(c.cluster.leaving("serve/web-0").size(), 1u);
  EXPECT_EQ(c.cluster.leaving("serve/web-0")[0].node, "n1");
  EXPECT_TRUE(c.cluster.nominated("a/big"));
  EXPECT_THAT(c.decisions(), IsEmpty()) << "the old one serves still";
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
  c.arrive("serve/web-0");
  EXPECT_THAT(c.decisions(), ElementsAre("start a/big"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(SurgeTest, WhatCannotBeMadeBeforeItGoesStays) {
  struct {
    const char* why;
    std::int32_t max_surge = 1;
    bool is_ready = true;
    Q serve{};
    std::int32_t spare = 1;
  } const kCases[] = {{"its service allows no replica more", 0},
                      {"it does not serve", 1, false},
                      {"the limit of its Project", 1, true, {-1, 1}},
                      {"there is no room for it", 1, true, {}, 0}};
  for (const auto& one : kCases) {
    Serving c({node("n1", 4), node("n2", one.spare)}, one.serve);
    c.runs(Serving::replica("web-0", false, one.max_surge), {{0, 0, "n1", {0}}}, one.is_ready);
    c.cluster.upsert_job(job("a/big", 1, 4));
    EXPECT_THAT(c.decisions(), IsEmpty()) << one.why;
    EXPECT_EQ(c.node_of("serve/web-0"), "n1") << one.why;
  }
}

TEST(SurgeTest, NoMoreAtOnceThanTheServiceAllows) {
  Serving c({node("n1", 4), node("n2", 4), node("n3", 2)});
  c.runs(Serving::replica("web-0"), {{0, 0, "n1", {0}}});
  c.runs(Serving::replica("web-1"), {{0, 0, "n2", {0}}});
  c.cluster.upsert_job(job("a/one", 1, 4, 1));
  c.cluster.upsert_job(job("a/two", 1, 4, 2));
  EXPECT_EQ(c.decisions().size(), 1u);
  const std::string first = c.node_of("serve/web-0") == "n3" ? "serve/web-0" : "serve/web-1";
  const std::string second = first == "serve/web-0" ? "serve/web-1" : "serve/web-0";
  EXPECT_THAT(c.decisions(), IsEmpty());
  c.arrive(first);
  EXPECT_THAT(c.decisions(), ElementsAre("start a/one", "move " + second + " when ready"));
  c.arrive(second);
  EXPECT_THAT(c.decisions(), ElementsAre("start a/two"));
}

TEST(SurgeTest, AMoveThatIsNotOwedHasToPayAndCostsTheReplicaNothing) {
  Serving c({node("n1", 4), node("n2", 1)});
  auto top = testing::queue("top", "", {1000});
  top.max_overhead.reset();
  c.cluster.upsert_queue(top);
  for (const char* name : {"a", "b", "serve"}) {
    auto p = testing::project(name, "top", {0});
    p.max_overhead.reset();
    c.cluster.upsert_queue(p);
  }
  c.runs(Serving::replica("web-0", true), {{0, 0, "n1", {0}}});
  c.cluster.upsert_job(job("b/big", 1, 4, c.now * 1000));
  // 1 GPU starts for 60 s, and 3 of the 4 that b/big takes idle without it.
  const Plan early = c.plan();
  EXPECT_THAT(early.decisions, IsEmpty());
  ASSERT_TRUE(early.wake);
  const std::int64_t due = early.wake->ms / 1000;
  EXPECT_GE(due, c.now + 14);
  EXPECT_LE(due, c.now + 21);
  c.now = due;
  const Plan p = c.plan();
  ASSERT_EQ(p.decisions.size(), 1u);
  EXPECT_TRUE(p.decisions[0].surges);
  EXPECT_FALSE(p.decisions[0].owed);
  EXPECT_EQ(p.decisions[0].cost, WorkTime{});
}

// Of those that may be taken, the replica would cost least.
TEST(SurgeTest, TheLastReplicaThatServesGoesOnlyIfNobodyElseWouldDo) {
  for (const int replicas : {1, 2}) {
    for (const bool other : {false, true}) {
      Serving c({node("n1", 3)});
      for (int i = 0; i < replicas; ++i)
        c.runs(Serving::replica("web-" + std::to_string(i), true), {{0, 0, "n1", {i}}}, true, 10);
      if (other)
        c.runs(job("b/long", 1, 3 - replicas),
               {{0, 0, "n1", replicas == 1 ? std::vector{1, 2} : std::vector{2}}});
      if (!other)
        c.runs(
            [&] {
              JobSpec fixed = job("a/fixed", 1, 3 - replicas);
              fixed.preemptible = false;
              return fixed;
            }(),
            {{0, 0, "n1", replicas == 1 ? std::vector{1, 2} : std::vector{2}}});
      c.cluster.upsert_job(job("a/owed", 1, 1));
      const auto said = c.decisions();
      ASSERT_EQ(said.size(), 1u) << replicas << other;
      EXPECT_EQ(said[0].starts_with("evict serve/web-"), replicas == 2 || !other) << said[0];
    }
  }
}

}  // namespace
}  // namespace muster::placement
