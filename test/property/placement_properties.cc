// Random nodes, trees and jobs, and random sequences of what happens to them. After each step and plan: the
// auditor finds nothing, a second plan is empty, nothing that could start waits, nobody started beyond a
// bound.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "admission.h"
#include "audit.h"
#include "place.h"
#include "placement/world.h"

namespace muster::placement {
namespace {

using testing::job;
using testing::kGi;
using testing::node;
using testing::role;

// The same histories in every run, so that a failure comes with the change that has caused it; to hunt for
// others: RC_PARAMS="max_success=10000".
const bool kSameEveryTime = setenv("RC_PARAMS", "seed=1", 0) == 0;

// The source of all choices of one history, so that a history can be played twice.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::int64_t upto(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n + 1));
  }
  bool one_in(std::int64_t n) { return upto(n - 1) == 0; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(upto(static_cast<std::int64_t>(list.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

const std::vector<std::string> kProjects = {"p0", "p1", "p2", "p3"};
const std::vector<std::string> kQueues = {"q0", "q1", "q2"};
const std::vector<std::string> kPools = {"default", "other"};

NodeSpec some_node(Dice& dice) {
  NodeSpec n = node("n" + std::to_string(dice.upto(7)), static_cast<std::int32_t>(dice.upto(2) * 4),
                    dice.one_in(2) ? "A100" : "H100", 4 + dice.upto(12));
  n.allocatable.memory = Bytes{(4 + dice.upto(28)) * kGi};
  n.allocatable.pods = 2 + dice.upto(20);
  n.usable = !dice.one_in(8);
  n.labels["pool"] = dice.one_in(3) ? "other" : "default";
  n.labels["rack"] = "r" + std::to_string(dice.upto(2));
  if (dice.one_in(6)) n.taints = {{"team", "x", dice.one_in(2) ? "NoSchedule" : "PreferNoSchedule"}};
  return n;
}

PoolSpec some_pool(Dice& dice) {
  PoolSpec p = testing::pool(dice.of(kPools));
  p.selector = {{"pool", Operator::kIn, {p.name}}};
  if (dice.one_in(10)) p.selector.clear();  // then nodes of the other one are in two pools
  p.order = dice.one_in(2) ? NodeOrder::kSpread : NodeOrder::kPack;
  p.is_default = p.name == "default" && !dice.one_in(10);
  p.topology = {"rack", "kubernetes.io/hostname"};
  return p;
}

QueueSpec some_queue(Dice& dice) {
  QueueSpec q;
  q.is_project = dice.one_in(2);
  q.name = q.is_project ? dice.of(kProjects) : dice.of(kQueues);
  q.parent = q.is_project || dice.one_in(2) ? dice.of(kQueues) : "";
  q.hold = dice.one_in(12);
  q.created = Time{dice.upto(3)};
  for (Share* s : {&q.in_default_pool, &q.in_pool["other"]}) {
    if (dice.one_in(2)) s->quota.gpu = MilliGpu{dice.upto(20) * 1000};
    if (dice.one_in(4)) s->quota.cpu = MilliCpu{dice.upto(30) * 1000};
    if (dice.one_in(3)) s->limit.gpu = MilliGpu{dice.upto(24) * 1000};
    if (dice.one_in(6)) s->limit.memory = Bytes{dice.upto(64) * kGi};
    s->weight = dice.upto(3);
    s->priority = dice.upto(2);
  }
  return q;
}

JobSpec some_job(Dice& dice) {
  const std::string& project = dice.of(kProjects);
  JobSpec j = job(project + "/j" + std::to_string(dice.upto(5)), 1, 0, dice.upto(20), dice.upto(2) * 25);
  j.preemptible = !dice.one_in(3);
  if (dice.one_in(12)) j.project.clear();
  for (std::int64_t n = dice.upto(2); n > 0; --n) j.pools.push_back(dice.of(kPools));
  j.roles.clear();
  for (std::int64_t n = dice.one_in(4) ? 2 : 1; n > 0; --n) {
    RoleSpec r = role("r" + std::to_string(n), static_cast<std::int32_t>(1 + dice.upto(5)),
                      static_cast<std::int32_t>(dice.of<std::int64_t>({0, 1, 1, 2, 4, 8})), 1 + dice.upto(3),
                      1 + dice.upto(3));
    if (dice.one_in(4)) r.models = {"H100"};
    if (dice.one_in(4)) r.tolerations = {{"", true, "", ""}};
    if (dice.one_in(6)) r.node_selector = {{"rack", "r1"}};
    if (dice.one_in(6)) r.preferred = {{5, {{{"rack", Operator::kIn, {"r0"}}}, {}}}};
    j.roles.push_back(r);
  }
  if (dice.one_in(10)) j.avoid_nodes = {"n1"};
  return j;
}

// An assignment as a broken history could have left it: any node, any GPUs.
Assignment some_assignment(Dice& dice, const JobSpec& j) {
  Assignment a{dice.of(kPools), Time{dice.upto(50)}, {}};
  for (std::size_t r = 0; r < j.roles.size(); ++r) {
    for (std::int32_t i = 0; i < j.roles[r].replicas; ++i) {
      PodPlace p{static_cast<std::int32_t>(r), i, "n" + std::to_string(dice.upto(8)), {}};
      for (std::int32_t g = 0; g < j.roles[r].gpus; ++g)
        p.gpus.push_back(static_cast<std::int32_t>(dice.upto(8)));
      a.pods.push_back(p);
    }
  }
  return a;
}

// A history: one change after the other. `specs` are the jobs that exist.
class History {
 public:
  explicit History(std::uint64_t seed) : dice_(seed) {
    for (const auto& p : kPools) {
      PoolSpec spec = testing::pool(p, {{"pool", Operator::kIn, {p}}});
      spec.is_default = p == "default";
      cluster.upsert_pool(spec);
    }
    for (const auto& q : kQueues) cluster.upsert_queue(testing::queue(q, "", {8 + dice_.upto(8)}));
    for (const auto& p : kProjects)
      cluster.upsert_queue(testing::project(p, dice_.of(kQueues), {dice_.upto(8)}));
    for (int i = 0; i < 6; ++i) cluster.upsert_node(some_node(dice_));
  }

  void step() {
    switch (dice_.upto(11)) {
      case 0:
        return cluster.upsert_node(some_node(dice_));
      case 1:
        return cluster.remove_node("n" + std::to_string(dice_.upto(7)));
      case 2:
        if (dice_.one_in(3))
          return dice_.one_in(4) ? cluster.remove_pool(dice_.of(kPools))
                                 : cluster.upsert_pool(some_pool(dice_));
        return remove_some_job();
      case 3:
        return cluster.upsert_queue(some_queue(dice_));
      case 4:
        if (dice_.one_in(4)) return cluster.remove_queue(dice_.of(kProjects), true);
        return confirm_or_withdraw();
      case 5:
        return remove_some_job();
      case 6:
        return other_pod();
      case 7:
        return cluster.remove_other_pod("x/" + std::to_string(dice_.upto(5)));
      case 8:
        return confirm_or_withdraw();
      case 9:
        if (!specs.empty() && dice_.one_in(3)) {
          const JobSpec& j = some_known();
          cluster.set_assignment(j.id, some_assignment(dice_, j));
        }
        return;
      default: {
        const JobSpec j = some_job(dice_);
        specs[j.id] = j;
        return cluster.upsert_job(j);
      }
    }
  }

  Cluster cluster;
  std::map<std::string, JobSpec> specs;

 private:
  const JobSpec& some_known() {
    return std::next(specs.begin(), dice_.upto(static_cast<std::int64_t>(specs.size()) - 1))->second;
  }
  void remove_some_job() {
    if (specs.empty()) return;
    const std::string id = some_known().id;
    cluster.remove_job(id);
    specs.erase(id);
  }
  void confirm_or_withdraw() {
    if (specs.empty()) return;
    const std::string id = some_known().id;
    if (dice_.one_in(2)) {
      auto pods = cluster.leaving(id);
      if (!pods.empty())
        pods.resize(static_cast<std::size_t>(dice_.upto(static_cast<std::int64_t>(pods.size()) - 1)));
      return cluster.set_leaving(id, pods);
    }
    const Assignment* held = cluster.assignment(id);
    if (held == nullptr || cluster.nominated(id)) return;
    if (dice_.one_in(3)) return cluster.clear_assignment(id);
    std::vector<std::size_t> displaced;
    if (dice_.one_in(3))
      displaced.push_back(
          static_cast<std::size_t>(dice_.upto(static_cast<std::int64_t>(held->pods.size()) - 1)));
    cluster.set_assignment(id, Assignment(*held), displaced);
  }
  void other_pod() {
    OtherPod p;
    p.key = "x/" + std::to_string(dice_.upto(5));
    p.node = "n" + std::to_string(dice_.upto(8));
    p.gpu_count = static_cast<std::int32_t>(dice_.upto(2));
    p.amounts = role("", 1, p.gpu_count, dice_.upto(3)).per_pod;
    if (p.gpu_count > 0 && dice_.one_in(2)) p.gpus = {static_cast<std::int32_t>(dice_.upto(3))};
    if (dice_.one_in(2)) p.project = dice_.of(kProjects);
    p.preemptible = dice_.one_in(2);
    cluster.upsert_other_pod(p);
  }

  Dice dice_;
};

std::string text_of(const Cluster& cluster, const Plan& plan) {
  std::string out;
  for (const Decision& d : plan.decisions) {
    out += std::to_string(static_cast<int>(d.kind)) + " " + d.job + " " + d.assignment.pool + " " + d.message;
    for (const PodPlace& p : d.assignment.pods) {
      out += " " + std::to_string(p.role) + "." + std::to_string(p.index) + "@" + p.node;
      for (const auto g : p.gpus) out += ":" + std::to_string(g);
    }
    out += "\n";
  }
  for (const auto& id : plan.verdicts) {
    const Verdict& v = *cluster.verdict(id);
    out += id + " " + std::string(to_string(v.reason)) + " " + std::to_string(v.position) + " " + v.message +
           "\n";
  }
  return out;
}

std::string all(const std::vector<std::string>& sentences) {
  std::string out;
  for (const auto& s : sentences) out += s + "\n";
  return out;
}

// A gang of one role that fits: counted without the code under test's own search, indexes or caches.
bool could_start(const Cluster& cluster, State& s, const JobSpec& spec) {
  const Job& j = s.job(s.find_job(spec.id));
  if (spec.roles.size() != 1 || j.leaf == kNoId) return false;
  const auto path = s.path(j.leaf);
  if (path.empty() || std::any_of(path.begin(), path.end(), [&](LeafId at) { return s.leaf(at).spec.hold; }))
    return false;
  const RoleSpec& r = spec.roles[0];
  for (const std::string& name :
       spec.pools.empty() ? std::vector<std::string>{cluster.default_pool()} : spec.pools) {
    const PoolId p = s.find_pool(name);
    if (p == kNoId || broken_bound(s, path, p, r.per_pod * r.replicas, spec.preemptible)) continue;
    std::int64_t room = 0;
    for (const Node& n : s.nodes) {
      if (!n.takes_part() || n.pool != p || !would_do(n.spec, r, spec.avoid_nodes)) continue;
      std::int64_t devices = n.spec.gpus - n.unhealthy - n.unnamed_gpus;
      for (const Gpu& g : n.gpus) devices -= g.uses.empty() ? 0 : 1;
      std::int64_t k = n.spec.allocatable.pods - n.used.pods - n.leaving.pods;
      if (r.gpus > 0) k = std::min(k, devices / r.gpus);
      k = std::min(
          k, (n.spec.allocatable.cpu.value - n.used.cpu.value - n.leaving.cpu.value) / r.per_pod.cpu.value);
      k = std::min(k, (n.spec.allocatable.memory.value - n.used.memory.value - n.leaving.memory.value) /
                          r.per_pod.memory.value);
      room += std::max<std::int64_t>(0, k);
    }
    if (room >= r.replicas) return true;
  }
  return false;
}

void check_after_plan(History& h, const Plan& p) {
  State& s = h.cluster.state();
  RC_ASSERT(all(h.cluster.audit()) == "");
  RC_ASSERT(all(audit_decisions(s, p)) == "");
  for (const Decision& d : p.decisions) {
    if (d.kind == Decision::Kind::kStart)
      RC_ASSERT(d.assignment.pods.size() ==
                static_cast<std::size_t>(s.request_of(s.job(s.find_job(d.job))).total.pods));
  }
  for (const auto& [id, spec] : h.specs) {
    if (h.cluster.assignment(id) != nullptr || !h.cluster.leaving(id).empty()) continue;
    const Verdict* v = h.cluster.verdict(id);
    RC_ASSERT(v != nullptr);
    RC_ASSERT(v->reason != Reason::kNone);
    RC_ASSERT(!v->message.empty());
    for (const Blocking& b : v->blocking) RC_ASSERT(b.need > b.have);
    if (could_start(h.cluster, s, spec)) RC_FAIL(id + " waits and could start: " + v->message);
  }
  // Nothing changes by itself before the time that the plan names.
  const Time last{1'000'000};
  const Plan again = plan(h.cluster, p.wake && *p.wake <= last ? *p.wake - Duration{1} : last);
  RC_ASSERT(text_of(h.cluster, again) == "");
}

TEST(PlacementProperties, InvariantsHoldAfterEveryStep) {
  ASSERT_TRUE(rc::check("after each of 60 steps", [](std::uint64_t seed) {
    History h(seed);
    for (int i = 0; i < 60; ++i) {
      h.step();
      RC_ASSERT(all(h.cluster.audit()) == "");
      check_after_plan(h, plan(h.cluster, Time{100 + i}));
    }
  }));
}

TEST(PlacementProperties, ManyChangesBetweenTwoPlans) {
  ASSERT_TRUE(rc::check("after each of 10 batches", [](std::uint64_t seed) {
    History h(seed);
    for (int i = 0; i < 10; ++i) {
      for (int k = 0; k < 20; ++k) h.step();
      check_after_plan(h, plan(h.cluster, Time{100 + i}));
    }
  }));
}

TEST(PlacementProperties, TheSameHistoryGivesTheSameBytes) {
  ASSERT_TRUE(rc::check("two runs of 40 steps", [](std::uint64_t seed) {
    const auto run = [&] {
      History h(seed);
      std::string text;
      for (int i = 0; i < 40; ++i) {
        h.step();
        const Plan p = plan(h.cluster, Time{100 + i});
        text += text_of(h.cluster, p);
      }
      return text;
    };
    RC_ASSERT(run() == run());
  }));
}

// What is remembered between plans (refusals, eligible nodes, versions) changes no answer: a cluster that is
// told the end state at once refuses for the same reasons.
TEST(PlacementProperties, MemoryChangesNoVerdict) {
  ASSERT_TRUE(rc::check("against a cluster without a past", [](std::uint64_t seed) {
    History h(seed);
    for (int i = 0; i < 50; ++i) {
      h.step();
      plan(h.cluster, Time{100 + i});
    }
    State& s = h.cluster.state();
    // What is leaving is charged where its node belongs, unless it is known from before the node changed its
    // pool.
    for (const Job& j : s.jobs) {
      for (const Leaving& l : j.leaving) {
        if (l.charge.pool != s.node(l.charge.node).pool) return;
      }
    }
    Cluster fresh;
    for (const Pool& p : s.pools) {
      if (p.known) fresh.upsert_pool(p.spec);
    }
    for (const TreeNode& t : s.tree) {
      if (t.known) fresh.upsert_queue(t.spec);
    }
    for (const Node& n : s.nodes) {
      if (n.known) fresh.upsert_node(n.spec);
    }
    for (const auto& [key, c] : s.others) {
      OtherPod p;
      p.key = key;
      p.node = s.node(c.node).spec.name;
      p.amounts = c.amounts;
      p.gpu_count = static_cast<std::int32_t>(c.gpus.size()) + c.unnamed;
      p.gpus = c.gpus;
      p.project = c.leaf == kNoId ? "" : s.leaf(c.leaf).spec.name;
      p.preemptible = !c.fixed;
      fresh.upsert_other_pod(p);
    }
    for (const auto& [id, spec] : h.specs) {
      fresh.upsert_job(spec);
      if (h.cluster.nominated(id)) {
        fresh.nominate(id, *h.cluster.assignment(id));
      } else if (const Assignment* a = h.cluster.assignment(id)) {
        fresh.set_assignment(id, *a, s.job(s.find_job(id)).displaced);
      }
      fresh.set_leaving(id, h.cluster.leaving(id));
      fresh.set_progress(id, s.job(s.find_job(id)).progress);
    }
    const Plan p = plan(fresh, Time{1000});
    for (const Decision& d : p.decisions) RC_ASSERT(d.kind != Decision::Kind::kStart);
    for (const auto& [id, spec] : h.specs) {
      if (!h.cluster.leaving(id).empty()) continue;  // says nothing until all has gone
      const Verdict* old = h.cluster.verdict(id);
      const Verdict* now = fresh.verdict(id);
      if ((old == nullptr) != (now == nullptr))
        RC_FAIL(id + " has a verdict in one only: " + (old == nullptr ? now : old)->message);
      if (old == nullptr) continue;
      if (old->reason != now->reason || old->position != now->position ||
          old->project_position != now->project_position) {
        RC_FAIL(id + ": " + old->message + " / " + now->message);
      }
    }
  }));
}

}  // namespace
}  // namespace muster::placement
