// RULES.md 4 against all possible placements of small gangs: what is placed keeps every rule, and how often
// is a gang that could be placed not placed?
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "place/place.h"
#include "pool/topology.h"
#include "small_cluster.h"

namespace muster::placement {
namespace {

using testing::node;
using testing::role;
using testing::SmallCluster;

struct Dice {
  std::mt19937_64 engine;
  std::int64_t upto(std::int64_t n) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n + 1));
  }
};

const std::string kRack = "rack";
const std::string kHost(kHostLevel);

struct Pod {
  int role, index;
};
struct Instance {
  std::vector<NodeSpec> nodes;
  JobSpec job;
  std::vector<Pod> pods;  // roles in order, then index
};

// `rules`: with required topology, groups and colocation.
Instance some_instance(Dice& dice, int roles, bool rules) {
  Instance in;
  const auto nodes = 2 + dice.upto(2);
  for (std::int64_t i = 0; i < nodes; ++i) {
    NodeSpec n =
        node("n" + std::to_string(i), static_cast<std::int32_t>(dice.upto(4)), "H100", 2 + dice.upto(6));
    n.allocatable.memory = Bytes{(2 + dice.upto(8)) * testing::kGi};
    n.labels[kRack] = "r" + std::to_string(i % 2);
    in.nodes.push_back(n);
  }
  in.job = testing::job("a/j", 1, 0);
  in.job.roles.clear();
  for (int r = 0; r < roles; ++r) {
    const auto gpus = static_cast<std::int32_t>(dice.upto(2));
    in.job.roles.push_back(role("r" + std::to_string(r),
                                static_cast<std::int32_t>(1 + dice.upto(roles == 1 ? 5 : 2)), gpus,
                                1 + dice.upto(3), 1 + dice.upto(3)));
    for (int i = 0; i < in.job.roles.back().replicas; ++i) in.pods.push_back({r, i});
  }
  if (!rules) return in;
  if (dice.upto(1) == 0) in.job.topology.required = dice.upto(2) == 0 ? kHost : kRack;
  if (in.pods.size() % 2 == 0 && dice.upto(1) == 0)
    in.job.groups = {{2, {dice.upto(1) == 0 ? kHost : kRack, ""}}};
  if (roles > 1 && dice.upto(2) == 0) in.job.roles[1].topology.required = kRack;
  if (roles > 1 && dice.upto(2) == 0 && in.job.roles[1].replicas <= in.job.roles[0].replicas)
    in.job.roles[1].colocate_with = 0;
  return in;
}

std::string domain(const Instance& in, const std::string& level, int node_index) {
  return in.nodes[static_cast<std::size_t>(node_index)].labels.at(level);
}

// `at`: the node of each pod.
bool valid(const Instance& in, const std::vector<int>& at) {
  std::vector<Resources> free;
  for (const NodeSpec& n : in.nodes) free.push_back(n.allocatable);
  for (std::size_t p = 0; p < at.size(); ++p) {
    const RoleSpec& r = in.job.roles[static_cast<std::size_t>(in.pods[p].role)];
    Resources& f = free[static_cast<std::size_t>(at[p])];
    f -= r.per_pod;
    if (f.gpu.value < 0 || f.cpu.value < 0 || f.memory.value < 0 || f.pods < 0) return false;
  }
  const auto same = [&](const std::string& level, std::size_t p, std::size_t q) {
    return level.empty() || domain(in, level, at[p]) == domain(in, level, at[q]);
  };
  for (std::size_t p = 0; p < at.size(); ++p) {
    for (std::size_t q = 0; q < p; ++q) {
      if (!same(in.job.topology.required, p, q)) return false;
      const auto& own = in.job.roles[static_cast<std::size_t>(in.pods[p].role)].topology.required;
      if (in.pods[p].role == in.pods[q].role && !same(own, p, q)) return false;
      for (const GroupRule& g : in.job.groups) {
        const auto size = static_cast<std::size_t>(g.size);
        if (p / size == q / size && !same(g.rule.required, p, q)) return false;
      }
      const int with = in.job.roles[static_cast<std::size_t>(in.pods[p].role)].colocate_with;
      if (in.pods[q].role == with && in.pods[q].index == in.pods[p].index && at[p] != at[q]) return false;
    }
  }
  return true;
}

bool exists(const Instance& in) {
  std::vector<int> at(in.pods.size(), 0);
  while (true) {
    if (valid(in, at)) return true;
    std::size_t k = 0;
    while (k < at.size() && ++at[k] == static_cast<int>(in.nodes.size())) at[k++] = 0;
    if (k == at.size()) return false;
  }
}

struct Rates {
  int possible = 0, missed = 0, wrong = 0;
};

Rates measure(int instances, std::uint64_t seed, const std::function<Instance(Dice&)>& make) {
  Dice dice{std::mt19937_64(seed)};
  Rates rates;
  for (int k = 0; k < instances; ++k) {
    const Instance in = make(dice);
    SmallCluster w(in.nodes);
    PoolSpec p = testing::pool("default");
    p.topology = {kRack};
    p.order = dice.upto(1) == 0 ? NodeOrder::kPack : NodeOrder::kSpread;
    w.cluster.upsert_pool(p);
    w.cluster.upsert_job(in.job);
    ClusterModel& s = w.cluster.state();
    Statement statement(s);
    const auto places =
        place(s, statement,
              {s.jobs().find("a/j"), s.find_pool("default"), View::kNow, Hold::kRunning, {}, kWholePool});
    const bool possible = exists(in);
    rates.possible += possible ? 1 : 0;
    rates.missed += possible && !places ? 1 : 0;
    if (!places) continue;
    std::vector<int> at(in.pods.size(), -1);
    for (const PodPlace& place : *places) {
      for (std::size_t q = 0; q < at.size(); ++q) {
        if (in.pods[q].role == place.role && in.pods[q].index == place.index) at[q] = place.node[1] - '0';
      }
    }
    const bool all = std::find(at.begin(), at.end(), -1) == at.end();
    rates.wrong += all && valid(in, at) ? 0 : 1;
  }
  ::testing::Test::RecordProperty("possible", rates.possible);
  ::testing::Test::RecordProperty("missed", rates.missed);
  return rates;
}

TEST(GangOracle, OneRoleIsPlacedWheneverItCanBe) {
  const Rates r = measure(3000, 1, [](Dice& d) { return some_instance(d, 1, false); });
  EXPECT_GT(r.possible, 500);
  EXPECT_EQ(r.missed, 0);
  EXPECT_EQ(r.wrong, 0);
}

TEST(GangOracle, OneRoleUnderRulesIsPlacedWheneverItCanBe) {
  const Rates r = measure(3000, 2, [](Dice& d) { return some_instance(d, 1, true); });
  EXPECT_GT(r.possible, 500);
  EXPECT_EQ(r.missed, 0);
  EXPECT_EQ(r.wrong, 0);
}

TEST(GangOracle, RolesThatDoNotCompeteArePlacedWheneverTheyCanBe) {
  const Rates r = measure(3000, 3, [](Dice& d) {
    Instance in = some_instance(d, 2, false);
    // One takes GPUs and next to no CPU, the other the reverse.
    in.job.roles[0].gpus = static_cast<std::int32_t>(1 + d.upto(1));
    in.job.roles[0].per_pod = {MilliGpu{in.job.roles[0].gpus * std::int64_t{1000}}, MilliCpu{0}, Bytes{0}, 1};
    in.job.roles[1].gpus = 0;
    in.job.roles[1].per_pod.gpu = {};
    return in;
  });
  EXPECT_GT(r.possible, 500);
  EXPECT_EQ(r.missed, 0);
  EXPECT_EQ(r.wrong, 0);
}

// A heuristic: these are the rates that it is known to keep.
TEST(GangOracle, RolesThatCompeteAreSeldomMissed) {
  const Rates r =
      measure(1500, 4, [](Dice& d) { return some_instance(d, static_cast<int>(2 + d.upto(1)), false); });
  EXPECT_GT(r.possible, 200);
  EXPECT_LE(r.missed * 100, r.possible) << r.missed << " of " << r.possible;
  EXPECT_EQ(r.wrong, 0);
}

TEST(GangOracle, RolesThatCompeteUnderRulesAreSeldomMissed) {
  const Rates r =
      measure(1500, 5, [](Dice& d) { return some_instance(d, static_cast<int>(2 + d.upto(1)), true); });
  EXPECT_GT(r.possible, 200);
  EXPECT_LE(r.missed * 100, r.possible) << r.missed << " of " << r.possible;
  EXPECT_EQ(r.wrong, 0);
}

}  // namespace
}  // namespace muster::placement
