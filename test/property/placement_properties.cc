// What must hold for all clusters and all histories of them: I1 to I9 of placement/README.md after every
// step, and what rules promise that no single example shows.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>

#include "audit/audit.h"
#include "audit/recount.h"
#include "could_start.h"
#include "explain/reasons.h"
#include "placement_history.h"
#include "shares/admission.h"

namespace muster::placement {
namespace {

using testing::all;
using testing::Dice;
using testing::History;
using testing::text_of;

// The same histories in every run, so that a failure comes with the change that has caused it; to hunt for
// others: RC_PARAMS="max_success=10000".
const bool kSameEveryTime = setenv("RC_PARAMS", "seed=1", 0) == 0;

// A history's whole randomness; nothing smaller is simpler.
std::uint64_t some_seed() {
  return *rc::gen::noShrink(
      rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::uint64_t>(0, 1'000'000'000)));
}

// A plan with I1 to I9.
Plan sound_plan(History& h) {
  std::vector<std::string> broken;
  Plan p = audited_plan(h.cluster, h.now, broken);
  RC_ASSERT(all(broken) == "");
  return p;
}

// What is wrong after a step, as sentences; empty: nothing.
std::string wrong_after_step(History& h) {
  std::vector<std::string> broken = h.cluster.audit();
  const Plan p = audited_plan(h.cluster, h.now, broken);
  if (!broken.empty()) return all(broken);
  // Work conservation.
  for (const auto& [id, spec] : h.jobs) {
    if (could_start(h.cluster, spec))
      return id + " waits and could start: " + h.cluster.pending_reason(id)->message;
    if (could_grow(h.cluster, spec, h.now)) return id + " could be larger and harm nobody";
  }
  // Nothing changes by itself before the time that the plan names.
  h.wait();
  if (p.wake) h.now = std::min(h.now, *p.wake - Duration{1});
  const Plan again = audited_plan(h.cluster, h.now, broken);
  return all(broken) + text_of(h.cluster, again);
}

TEST(PlacementProperties, InvariantsHoldAfterEveryStep) {
  ASSERT_TRUE(rc::check("after each of 200 steps", [] {
    const auto seed = some_seed();
    History h(seed);
    for (int i = 0; i < 200; ++i) {
      h.step();
      RC_ASSERT(wrong_after_step(h) == "");
    }
  }));
}

TEST(PlacementProperties, InvariantsHoldWithQuotasOfDevices) {
  ASSERT_TRUE(rc::check("after each of 200 steps", [] {
    const auto seed = some_seed();
    History h(seed, true);
    for (int i = 0; i < 200; ++i) {
      h.step();
      RC_ASSERT(wrong_after_step(h) == "");
    }
  }));
}

// Fresh seeds have found something in them. found_test.cc has each as small as it could be made.
TEST(PlacementProperties, HistoriesThatHaveFoundSomething) {
  for (const std::uint64_t seed : {71594738, 145289766, 465364539, 726394458}) {
    History h(seed);
    for (int i = 0; i < 200; ++i) {
      h.step();
      ASSERT_EQ(wrong_after_step(h), "") << "in step " << i << " of history " << seed << ":\n" << h.log;
    }
  }
}

TEST(PlacementProperties, HistoriesInBatchesThatHaveFoundSomething) {
  for (const std::uint64_t seed : {376537092}) {
    History h(seed);
    for (int i = 0; i < 10; ++i) {
      for (int k = 0; k < 20; ++k) h.step();
      ASSERT_EQ(wrong_after_step(h), "") << "in batch " << i << " of history " << seed << ":\n" << h.log;
    }
  }
}

TEST(PlacementProperties, ManyChangesBetweenTwoPlans) {
  ASSERT_TRUE(rc::check("after each of 10 batches", [] {
    const auto seed = some_seed();
    History h(seed);
    for (int i = 0; i < 10; ++i) {
      for (int k = 0; k < 20; ++k) h.step();
      RC_ASSERT(wrong_after_step(h) == "");
    }
  }));
}

TEST(PlacementProperties, TheSameHistoryGivesTheSameBytes) {
  ASSERT_TRUE(rc::check("two runs of 40 steps", [] {
    const auto seed = some_seed();
    const auto run = [&] {
      History h(seed);
      std::string text;
      for (int i = 0; i < 40; ++i) {
        h.step();
        const Plan p = plan(h.cluster, h.now);
        text += text_of(h.cluster, p);
      }
      return text;
    };
    RC_ASSERT(run() == run());
  }));
}

// Pods that are asked to go do so, time passes, nothing else happens. The plans that it takes until they have
// nothing to say any more; what they said, where that are too many.
struct Rest {
  int plans = 0;
  std::string circle;
};
Rest come_to_rest(History& h) {
  constexpr int kMost = 200, kMaxWakes = 200;
  Rest rest;
  int wakes = 0;
  std::vector<std::string> said;
  for (;;) {
    const Plan p = sound_plan(h);
    if (!p.decisions.empty()) {
      said.push_back(std::to_string(h.now.ms) + ":\n" + text_of(h.cluster, p));
      wakes = 0;
      if (++rest.plans > kMost) {
        for (std::size_t k = said.size() - 12; k < said.size(); ++k) rest.circle += said[k];
        return rest;
      }
    }
    h.now = h.now + seconds(1);
    if (h.let_go() || !p.decisions.empty()) continue;
    if (!p.wake || ++wakes > kMaxWakes) return rest;
    h.now = std::max(h.now, *p.wake);
  }
}

TEST(PlacementProperties, PlansComeToRest) {
  ASSERT_TRUE(rc::check("after 40 steps", [] {
    const auto seed = some_seed();
    History h(seed);
    for (int i = 0; i < 40; ++i) {
      h.step();
      plan(h.cluster, h.now);
    }
    RC_ASSERT(come_to_rest(h).circle == "");
  }));
}

bool is_below(const ClusterModel& s, const std::string& job, QueueId at) {
  const JobId id = s.jobs().find(job);
  if (id == kNoId) return false;
  const auto path = way_up(s.tree(), s.job(id).leaf);
  return std::find(path.begin(), path.end(), at) != path.end();
}

// What jobs hold or are promised, by job and pool.
std::map<std::pair<std::string, PoolId>, std::int64_t> gpus_held(const ClusterModel& s) {
  std::map<std::pair<std::string, PoolId>, std::int64_t> held;
  for (const Job& j : s.jobs().all()) {
    for (const Allocation& c : j.allocations) {
      if (c.node != kNoId) held[{j.spec.id, c.pool}] += c.amounts.gpu.value;
    }
  }
  return held;
}

// Others may take from it at most what it holds beyond the quota that it had.
TEST(PlacementProperties, MoreQuotaNeverCostsWhatRanWithinQuota) {
  ASSERT_TRUE(rc::check("after 40 steps and rest", [] {
    const auto seed = some_seed();
    History h(seed);
    for (int i = 0; i < 40; ++i) {
      h.step();
      plan(h.cluster, h.now);
    }
    if (h.queues.empty() || !come_to_rest(h).circle.empty()) return;
    ClusterModel& s = h.cluster.state();
    const auto chosen =
        std::next(h.queues.begin(), h.dice.upto(static_cast<std::int64_t>(h.queues.size()) - 1));
    QueueSpec richer = chosen->second;
    const QueueId at = s.tree().find_queue(richer.name, richer.is_project);
    std::map<PoolId, std::int64_t> quota, held;
    for (std::size_t i = 0; i < s.pools.size(); ++i) {
      const auto pool = static_cast<PoolId>(i);
      quota[pool] = s.tree().share(at, pool).quota.gpu.value_or(MilliGpu{}).value;
      held[pool] = Recount(s).of(at, pool).target().gpu.value;
    }
    const auto before = gpus_held(s);
    for (Share* share : {&richer.in_default_pool, &richer.in_pool["other"]})
      share->quota.gpu = share->quota.gpu.value_or(MilliGpu{}) + MilliGpu{(1 + h.dice.upto(8)) * 1000};
    h.cluster.upsert_queue(richer);
    const Plan p = sound_plan(h);
    auto after = gpus_held(s);
    std::map<PoolId, std::int64_t> lost;
    for (const Decision& d : p.decisions) {
      if (d.reason != EvictReason::kReclaimed || !is_below(s, d.job, at) || is_below(s, d.beneficiary, at))
        continue;
      for (const auto& [key, amount] : before) {
        if (key.first == d.job) lost[key.second] += amount - after[key];
      }
    }
    for (const auto& [pool, amount] : lost) {
      if (held[pool] - amount < std::min(held[pool], quota[pool]))
        RC_FAIL(richer.name + " had " + std::to_string(held[pool]) + " with a quota of " +
                std::to_string(quota[pool]) + ", and with more loses " + std::to_string(amount) + "\n" +
                text_of(h.cluster, p));
    }
  }));
}

// Equal nodes, queues and jobs come in any order, and equal jobs of a Project have their names exchanged:
// each Project and each Queue gets the same amounts.
TEST(PlacementProperties, TheOrderOfEqualsChangesNoAmounts) {
  ASSERT_TRUE(rc::check("two orders of one cluster", [] {
    const auto seed = some_seed();
    Dice dice(seed);
    std::map<std::string, NodeSpec> nodes;
    std::map<std::string, std::int64_t> kind_of;
    std::map<std::string, JobSpec> jobs;
    std::vector<QueueSpec> queues;
    for (const auto& q : testing::kQueues)
      queues.push_back(testing::queue(q, "", {dice.upto(12), -1, dice.upto(3)}));
    for (const auto& p : testing::kProjects)
      queues.push_back(testing::project(p, dice.of(testing::kQueues), {dice.upto(8), -1, dice.upto(3)}));
    const NodeSpec kinds[] = {testing::some_node(dice), testing::some_node(dice)};
    for (int i = 0; i < 6; ++i) {
      const auto kind = dice.upto(1);
      NodeSpec n = kinds[kind];
      n.name = "n" + std::to_string(i);
      kind_of[n.name] = kind;
      n.labels["kubernetes.io/hostname"] = n.name;
      nodes[n.name] = n;
    }
    for (int i = 0; i < 6; ++i) {
      JobSpec j = testing::some_job(dice, Time{1000});
      j.submitted = Time{1000 - dice.upto(2)};
      j.avoid_nodes.clear();  // would make nodes unequal
      for (std::int64_t k = 1 + dice.upto(2); k > 0; --k) {
        JobSpec one = j;
        one.id = (j.project.empty() ? "none" : j.project) + "/" + std::to_string(i) + "-" + std::to_string(k);
        jobs[one.id] = one;
      }
    }
    const PoolSpec pools[] = {testing::some_pool(dice, "default"), testing::some_pool(dice, "other")};
    const auto amounts = [&](bool shuffled) {
      Cluster c;
      for (const PoolSpec& p : pools) c.upsert_pool(p);
      std::vector<NodeSpec> some_nodes;
      std::vector<JobSpec> some_jobs;
      auto some_queues = queues;
      for (const auto& [name, n] : nodes) some_nodes.push_back(n);
      for (const auto& [id, j] : jobs) some_jobs.push_back(j);
      if (shuffled) {
        dice.shuffle(some_queues), dice.shuffle(some_jobs);
        auto others = some_nodes;  // equal ones change places with each other
        dice.shuffle(others);
        for (NodeSpec& n : some_nodes) {
          const auto equal = std::find_if(others.begin(), others.end(), [&](const NodeSpec& o) {
            return kind_of.at(o.name) == kind_of.at(n.name);
          });
          n = *equal;
          others.erase(equal);
        }
        // "p0/1-1" and "p0/1-2" are equal but for their names.
        for (JobSpec& j : some_jobs) j.id.back() = static_cast<char>('4' - (j.id.back() - '0'));
      }
      for (const auto& q : some_queues) c.upsert_queue(q);
      for (const auto& n : some_nodes) c.upsert_node(n);
      for (const auto& j : some_jobs) c.upsert_job(j);
      plan(c, Time{2000});
      std::string text;
      for (const auto& q : queues) {
        for (const auto& p : testing::kPools) {
          const Resources used = c.usage(q.name, q.is_project, p).allocated;
          const Resources fair = c.fair_share(q.name, q.is_project, p);
          text += q.name + " in " + p + ":";
          for (const Resources& r : {used, fair})
            text += " " + std::to_string(r.gpu.value) + " GPUs, " + std::to_string(r.cpu.value) + " CPUs, " +
                    std::to_string(r.memory.value) + " bytes;";
          text += "\n";
        }
      }
      return text;
    };
    const std::string first = amounts(false);
    RC_ASSERT(amounts(true) == first);
  }));
}

// What is remembered between plans (refusals, eligible nodes, versions) changes no answer: a cluster that is
// told the end state at once refuses for the same reasons.
TEST(PlacementProperties, MemoryChangesNoVerdict) {
  ASSERT_TRUE(rc::check("against a cluster without a past", [] {
    const auto seed = some_seed();
    History h(seed);
    for (int i = 0; i < 50; ++i) {
      h.step();
      plan(h.cluster, h.now);
    }
    ClusterModel& s = h.cluster.state();
    // Who is being moved goes on where it may not start any more; a cluster without a past sees a start.
    for (const Job& j : s.jobs().all()) {
      if (!j.moving) continue;
      const auto path = way_up(s.tree(), j.leaf);
      Resources amounts;
      for (const Allocation& c : j.allocations) amounts += c.amounts;
      if (reason_of_leaf(s.tree(), j.leaf, path) ||
          !breach(s.tree(), path, s.find_pool(j.assignment->pool), amounts, applicant(j.spec)).empty())
        return;
    }
    // What is leaving is charged where its node belongs, unless it is known from before the node
    // changed its pool.
    for (const Job& j : s.jobs().all()) {
      for (const Leaving& l : j.leaving) {
        if (l.allocation.pool != s.node(l.allocation.node).pool) return;
      }
    }
    Cluster fresh;
    for (const Pool& p : s.pools) {
      if (p.known) fresh.upsert_pool(p.spec);
    }
    for (const TreeNode& t : s.tree().queues()) {
      if (t.known) fresh.upsert_queue(t.spec);
    }
    for (const Node& n : s.nodes().all()) {
      if (n.known) fresh.upsert_node(n.spec);
    }
    std::map<std::string, OtherPod> others;
    for (const auto& [key, c] : s.others.all()) {
      if (c.cut >= 0) {  // slices stand beside their pod, "x/1/1g.10gb"
        others[key.substr(0, key.rfind('/'))]
            .slices[s.node(c.node).cut[static_cast<std::size_t>(c.cut)].profile] = c.slices;
        continue;
      }
      OtherPod& p = others[key];
      p.key = key;
      p.node = s.node(c.node).spec.name;
      p.amounts = c.amounts;
      p.gpu_count = static_cast<std::int32_t>(c.gpus.size()) + c.unnamed;
      p.gpus = c.gpus;
      p.project = c.leaf == kNoId ? "" : s.tree().queue(c.leaf).spec.name;
      p.preemptible = !c.non_preemptible;
    }
    for (const auto& [key, p] : others) fresh.upsert_other_pod(p);
    for (const auto& [id, spec] : h.jobs) {
      fresh.upsert_job(spec);
      if (h.cluster.nominated(id)) {
        fresh.nominate(id, *h.cluster.assignment(id));
      } else if (const Assignment* a = h.cluster.assignment(id)) {
        fresh.set_assignment(id, *a, s.job(s.jobs().find(id)).displaced);
      }
      fresh.set_leaving(id, h.cluster.leaving(id));
      fresh.set_progress(id, s.job(s.jobs().find(id)).progress);
    }
    // Past use is no memory of plans: it counts by RULES.md 1.6.
    for (const auto& [id, by_pool] : s.past) {
      const QueueSpec& spec = s.tree().queue(id).spec;
      auto& past = fresh.state().past[fresh.state().queue_of(spec.name, spec.is_project)];
      for (const auto& [pool, use] : by_pool) past[fresh.state().pool_of(s.pool(pool).spec.name)] = use;
    }
    const Plan p = plan(fresh, h.now);
    // A reservation is not told: who was kept off by it may start before there is another.
    for (const Decision& d : p.decisions) {
      if (d.kind != Decision::Kind::kStart) continue;
      const PendingReason* old = h.cluster.pending_reason(d.job);
      if (old != nullptr && old->reason == Reason::kReserved) return;
      RC_FAIL(d.job + " would start, and was told: " + (old == nullptr ? "nothing" : old->message));
    }
    for (const auto& [id, spec] : h.jobs) {
      if (!h.cluster.leaving(id).empty()) continue;  // says nothing until all has gone
      const PendingReason* old = h.cluster.pending_reason(id);
      const PendingReason* now = fresh.pending_reason(id);
      if ((old == nullptr) != (now == nullptr))
        RC_FAIL(id + " has a verdict in one only: " + (old == nullptr ? now : old)->message);
      if (old == nullptr) continue;
      if (old->reason != now->reason || old->position != now->position ||
          old->project_position != now->project_position) {
        const auto say = [](const PendingReason& r) {
          return std::to_string(r.position) + ", " + std::to_string(r.project_position) +
                 " in its project: " + r.message;
        };
        RC_FAIL(id + " at " + say(*old) + " / " + say(*now));
      }
    }
  }));
}

}  // namespace
}  // namespace muster::placement
