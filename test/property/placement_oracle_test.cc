// RULES.md 5 against brute force: small clusters, one claimant, all sets of victims. The oracle shares with
// the code under test the fair shares (rule 1 has tests of its own), nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <optional>

#include "model/cluster_model.h"
#include "placement_history.h"
#include "shares/shares.h"

namespace muster::placement {
namespace {

using testing::Dice;
using testing::job;
using testing::node;
using testing::queue;

constexpr int kInstances = 10'000;
constexpr std::int64_t kNow = 1'000'000'000;  // milliseconds

// The same instances in every run; MUSTER_SEED=N hunts with those from N on.
std::uint64_t nth_seed(int n) {
  const char* first = std::getenv("MUSTER_SEED");
  return (first == nullptr ? 0 : std::stoull(first)) + static_cast<std::uint64_t>(n);
}

struct Runner {
  std::string id, leaf;
  std::int64_t pods = 1, gpus = 1, priority = 0, began = 0;
  bool preemptible = true;
  std::vector<int> nodes;  // of its pods
  std::int64_t amount() const { return pods * gpus; }
  // Lost work as the rule counts it, up to a common factor: since its start, and 60 s to start again.
  std::int64_t cost() const { return (kNow - began + 60'000) * amount(); }
};

struct Leaf {
  std::int64_t quota = 0, limit = -1;
};

struct Instance {
  std::vector<std::int64_t> nodes;  // GPUs of each
  std::map<std::string, Leaf> leaves;
  std::vector<Runner> running;
  Runner claimant;
  bool movable = false;
};

Instance some_instance(std::uint64_t seed, bool movable) {
  Dice dice(seed);
  Instance x;
  x.movable = movable;
  for (std::int64_t n = 1 + dice.upto(3); n > 0; --n) x.nodes.push_back(1 + dice.upto(3));
  for (const char* name : {"a", "b", "c"}) {
    Leaf& leaf = x.leaves[name];
    leaf.quota = dice.upto(6);
    if (dice.upto(5) == 0) leaf.limit = leaf.quota + dice.upto(4);
  }
  auto free = x.nodes;
  const auto some_leaf = [&] { return std::string(1, static_cast<char>('a' + dice.upto(2))); };
  for (std::int64_t k = dice.upto(5); k >= 0; --k) {
    Runner r;
    r.leaf = some_leaf();
    r.id = r.leaf + "/" + std::to_string(k);
    r.pods = movable ? 1 : 1 + dice.upto(2);
    r.gpus = 1 + dice.upto(2);
    r.priority = dice.upto(2);
    r.began = kNow - (1 + dice.upto(50)) * 100'000 - k;  // all different
    r.preemptible = dice.upto(4) != 0;
    for (std::int64_t p = 0; p < r.pods; ++p) {
      const auto n = static_cast<int>(dice.upto(static_cast<std::int64_t>(x.nodes.size()) - 1));
      if (free[static_cast<std::size_t>(n)] < r.gpus) break;
      free[static_cast<std::size_t>(n)] -= r.gpus;
      r.nodes.push_back(n);
    }
    if (static_cast<std::int64_t>(r.nodes.size()) < r.pods) {
      for (const int n : r.nodes) free[static_cast<std::size_t>(n)] += r.gpus;
      continue;
    }
    x.running.push_back(r);
  }
  x.claimant.leaf = some_leaf();
  x.claimant.id = x.claimant.leaf + "/claimant";
  x.claimant.pods = 1 + dice.upto(2);
  x.claimant.gpus = 1 + dice.upto(2);
  x.claimant.priority = dice.upto(2);
  return x;
}

// What an instance is about: GPUs, or as many devices that placement knows by name.
enum class What : std::uint8_t { kGpus, kDevices };

// Of the device, instead of GPUs. Lost work is then measured in CPUs, of which there are enough.
void ask_for_devices(RoleSpec& role) {
  role.per_pod.cpu = MilliCpu{role.gpus * kMilliPerGpu};
  role.per_pod.gpu = {};
  role.named = {{"rdma/hca", role.gpus}};
  role.gpus = 0;
}
QueueSpec of_devices(QueueSpec q) {
  for (Bounds* b : {&q.in_default_pool.quota, &q.in_default_pool.limit}) {
    if (b->gpu) b->named = {{"rdma/hca", b->gpu->value / kMilliPerGpu}};
    b->gpu.reset();
  }
  return q;
}

JobSpec spec_of(const Runner& r, bool movable, What what) {
  JobSpec j =
      job(r.id, static_cast<std::int32_t>(r.pods), static_cast<std::int32_t>(r.gpus), r.began, r.priority);
  j.roles[0].per_pod.cpu = {};
  j.roles[0].per_pod.memory = {};
  if (what == What::kDevices) ask_for_devices(j.roles[0]);
  j.preemptible = r.preemptible;
  j.interactive = !movable;
  return j;
}

Cluster cluster_of(const Instance& x, What what = What::kGpus) {
  Cluster c;
  const auto bounds = [&](QueueSpec q) { return what == What::kDevices ? of_devices(std::move(q)) : q; };
  c.upsert_pool(testing::pool("default"));
  c.upsert_queue(bounds(queue("top", "", {1000})));
  for (const auto& [name, leaf] : x.leaves)
    c.upsert_queue(bounds(testing::project(name, "top", {leaf.quota, leaf.limit})));
  for (std::size_t n = 0; n < x.nodes.size(); ++n) {
    NodeSpec one = node("n" + std::to_string(n), static_cast<std::int32_t>(x.nodes[n]));
    one.named = {{"rdma/hca", x.nodes[n]}};
    c.upsert_node(one);
  }
  std::vector<std::int32_t> next(x.nodes.size());
  for (const Runner& r : x.running) {
    c.upsert_job(spec_of(r, x.movable, what));
    Assignment a{"default", Time{r.began}, {}};
    for (std::size_t p = 0; p < r.nodes.size(); ++p) {
      const auto n = static_cast<std::size_t>(r.nodes[p]);
      PodPlace place{0, static_cast<std::int32_t>(p), "n" + std::to_string(n), {}};
      for (std::int64_t g = 0; g < r.gpus && what == What::kGpus; ++g) place.gpus.push_back(next[n]++);
      a.pods.push_back(place);
    }
    c.set_assignment(r.id, a);
    Progress progress;
    progress.began = Time{r.began};
    c.set_progress(r.id, progress);
  }
  c.upsert_job(spec_of(x.claimant, x.movable, what));
  return c;
}

// --- the oracle

struct Best {
  int means = 0;  // 0 free, 1 reclaim by guarantee, 2 by fairness, 3 preempt, 4 both
  std::size_t victims = 0;
  std::int64_t cost = 0;
};

class Oracle {
 public:
  Oracle(const Instance& x, std::map<std::string, std::int64_t> fair) : x_(x), fair_(std::move(fair)) {
    for (const Runner& r : x.running) used_[r.leaf] += r.amount();
  }

  // `kept_for_sure`: without the sets after which some of the own leaf could be back at once and others claim
  // back what the claimant has taken. By RULES.md 5.5 it waits then; whether it must, the places of all
  // decide.
  std::optional<Best> best(bool kept_for_sure = false) const {
    for (int means = 0; means <= 5; ++means) {
      std::optional<Best> found;
      for (std::size_t bits = 0; bits < (std::size_t{1} << x_.running.size()); ++bits) {
        if ((bits == 0) != (means == 0) || !legal(bits, means) || !fits(bits)) continue;
        if (kept_for_sure && means >= 4 && !is_kept(bits, means)) continue;
        Best b{means, 0, 0};
        for (std::size_t i = 0; i < x_.running.size(); ++i) {
          if ((bits >> i & 1) != 0) ++b.victims, b.cost += x_.running[i].cost();
        }
        if (!found || std::tie(b.cost, b.victims) < std::tie(found->cost, found->victims)) found = b;
      }
      if (found) return found;
    }
    return std::nullopt;
  }

  bool fits(std::size_t gone) const {
    auto free = x_.nodes;
    for (std::size_t i = 0; i < x_.running.size(); ++i) {
      if ((gone >> i & 1) != 0) continue;
      for (const int n : x_.running[i].nodes) free[static_cast<std::size_t>(n)] -= x_.running[i].gpus;
    }
    std::int64_t room = 0;
    for (const auto f : free) room += f / x_.claimant.gpus;
    return room >= x_.claimant.pods;
  }

  bool within_limit(std::int64_t gone_own) const {
    const Leaf& mine = x_.leaves.at(x_.claimant.leaf);
    return mine.limit < 0 || used(x_.claimant.leaf) - gone_own + x_.claimant.amount() <= mine.limit;
  }

 private:
  std::int64_t used(const std::string& leaf) const {
    const auto found = used_.find(leaf);
    return found == used_.end() ? 0 : found->second;
  }

  // What its leaf may have when it reclaims, in thousandths of a GPU.
  std::int64_t bound_of(int means) const {
    const std::int64_t fair = fair_.at(x_.claimant.leaf);
    const bool guarantee = means == 1 || means == 4;
    return guarantee ? std::min(x_.leaves.at(x_.claimant.leaf).quota * 1000, fair) : fair;
  }

  // Of the own leaf none can be back at once, or with all of them it has no more than it may.
  bool is_kept(std::size_t bits, int means) const {
    std::int64_t left = -x_.claimant.amount(), smallest = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t gpus : x_.nodes) left += gpus;
    for (std::size_t i = 0; i < x_.running.size(); ++i) {
      const Runner& r = x_.running[i];
      if ((bits >> i & 1) == 0) {
        left -= r.amount();
      } else if (r.leaf == x_.claimant.leaf) {
        smallest = std::min(smallest, r.amount());
      }
    }
    return left < smallest || (used(x_.claimant.leaf) + x_.claimant.amount()) * 1000 <= bound_of(means);
  }

  bool legal(std::size_t bits, int means) const {
    const std::string& own = x_.claimant.leaf;
    std::map<std::string, std::int64_t> gone, largest;
    for (std::size_t i = 0; i < x_.running.size(); ++i) {
      if ((bits >> i & 1) == 0) continue;
      const Runner& r = x_.running[i];
      if (!r.preemptible) return false;
      if (r.leaf == own && r.priority >= x_.claimant.priority) return false;
      gone[r.leaf] += r.amount();
      largest[r.leaf] = std::max(largest[r.leaf], r.amount());
    }
    const std::int64_t own_gone = gone.contains(own) ? gone.at(own) : 0;
    const bool others = gone.size() > (own_gone > 0 ? 1u : 0u);
    if (!within_limit(own_gone)) return false;
    if (means == 0) return true;
    const bool reclaims = means == 1 || means == 2 || means >= 4;
    if ((means == 1 || means == 2) && own_gone > 0) return false;
    if (means == 3 && others) return false;
    if (means >= 4 && (!others || own_gone == 0)) return false;
    const std::int64_t after = used(own) - own_gone + x_.claimant.amount();
    if (own_gone > 0 && after > std::max(fair_.at(own), used(own))) return false;
    if (!reclaims) return true;
    const bool guarantee = means == 1 || means == 4;
    if (after * 1000 > bound_of(means)) return false;
    for (const auto& [leaf, sum] : gone) {
      if (leaf == own) continue;
      const std::int64_t quota = x_.leaves.at(leaf).quota * 1000;
      const std::int64_t over = guarantee ? quota : fair_.at(leaf);
      // Over before each removal: the largest goes last.
      if ((used(leaf) - (sum - largest.at(leaf))) * 1000 <= over) return false;
      if (!guarantee && (used(leaf) - sum) * 1000 < std::min(quota, fair_.at(leaf))) return false;
    }
    return true;
  }

  const Instance& x_;
  std::map<std::string, std::int64_t> fair_;  // milli
  std::map<std::string, std::int64_t> used_;  // GPUs
};

std::map<std::string, std::int64_t> fair_of(Cluster& c, const Instance& x, What what = What::kGpus) {
  c.state().settle();
  const auto all = fair_shares(c.state(), c.state().find_pool("default"));
  std::map<std::string, std::int64_t> fair;
  for (const auto& [name, leaf] : x.leaves) {
    const Resources& share = all[static_cast<std::size_t>(c.state().tree().find_queue(name, true))];
    fair[name] = what == What::kGpus ? share.gpu.value : share.named[0] * kMilliPerGpu;
  }
  return fair;
}

std::string text_of(const Instance& x, const std::map<std::string, std::int64_t>& fair) {
  std::string out = "nodes:";
  for (const auto n : x.nodes) out += " " + std::to_string(n);
  for (const auto& [name, l] : x.leaves)
    out += "; " + name + " quota " + std::to_string(l.quota) + " limit " + std::to_string(l.limit) +
           " fair " + std::to_string(fair.at(name));
  const auto one = [&](const Runner& r) {
    out += "\n  " + r.id + " " + std::to_string(r.pods) + "x" + std::to_string(r.gpus) + " priority " +
           std::to_string(r.priority) + (r.preemptible ? "" : " fixed") + " cost " +
           std::to_string(r.cost()) + " on";
    for (const int n : r.nodes) out += " n" + std::to_string(n);
  };
  for (const Runner& r : x.running) one(r);
  one(x.claimant);
  return out;
}

class PlacementOracle : public ::testing::TestWithParam<What> {};
INSTANTIATE_TEST_SUITE_P(, PlacementOracle, ::testing::Values(What::kGpus, What::kDevices),
                         [](const auto& what) { return what.param == What::kGpus ? "Gpus" : "Devices"; });

TEST_P(PlacementOracle, WhoCanStartAndWithHowManyVictims) {
  const What what = GetParam();
  int starts = 0, evicting = 0, more = 0, dearer = 0, waits = 0;
  std::int64_t extra = 0, worst = 0;  // victims; percent of the cheapest set
  for (int n = 0; n < kInstances; ++n) {
    const std::uint64_t seed = nth_seed(n);
    const Instance x = some_instance(seed, false);
    Cluster c = cluster_of(x, what);
    const auto fair = fair_of(c, x, what);
    auto best = Oracle(x, fair).best();
    const Plan p = plan(c, Time{kNow});
    const bool placed = c.assignment(x.claimant.id) != nullptr;
    if (!placed && best && best->means >= 4) {
      best = Oracle(x, fair).best(true);
      waits += best ? 0 : 1;
    }
    ASSERT_EQ(placed, best.has_value()) << "seed " << seed << "\n" << text_of(x, fair);
    std::size_t victims = 0;
    std::int64_t cost = 0;
    for (const Decision& d : p.decisions) {
      if (d.kind != Decision::Kind::kEvict) continue;
      ++victims;
      for (const Runner& r : x.running) cost += r.id == d.job ? r.cost() : 0;
    }
    if (!best) {
      ASSERT_EQ(victims, 0u) << "seed " << seed << "\n" << text_of(x, fair);
      continue;
    }
    ++starts;
    if (best->victims == 0) {
      ASSERT_EQ(victims, 0u) << "seed " << seed;
      continue;
    }
    ++evicting;
    if (victims > best->victims) ++more, extra += static_cast<std::int64_t>(victims - best->victims);
    if (cost > best->cost) ++dearer, worst = std::max(worst, cost * 100 / best->cost - 100);
  }
  // Lower priorities of a leaf go first, whatever they cost: such sets may be dearer, and that is no fault.
  std::cout << kInstances << " instances: " << starts << " start, " << evicting
            << " of them with victims; more victims than needed in " << more << " (" << extra
            << " in all), dearer than the cheapest set in " << dearer << " (by " << worst
            << "% at most); by both means " << waits << " could not keep what they take\n";
  EXPECT_GT(evicting, kInstances / 50);
  EXPECT_LE(more * 100, evicting) << "the search has become worse";
  EXPECT_LE(waits * 100, evicting) << "who may take by both means waits too often";
}

// With jobs of one pod that may be moved: some go to places that are free while all are still where they
// were, and the claimant's pods then find room. All choices are tried.
class Moves {
 public:
  explicit Moves(const Instance& x) : x_(x), at_once_(x.nodes) {
    for (const Runner& r : x.running) at_once_[static_cast<std::size_t>(r.nodes[0])] -= r.gpus;
    in_the_end_ = at_once_;
  }
  bool possible(std::size_t next = 0) {
    if (next == x_.running.size()) return fits(0);
    if (possible(next + 1)) return true;
    const Runner& r = x_.running[next];
    const auto from = static_cast<std::size_t>(r.nodes[0]);
    bool found = false;
    for (std::size_t to = 0; r.preemptible && !found && to < at_once_.size(); ++to) {
      if (to == from || at_once_[to] < r.gpus) continue;
      at_once_[to] -= r.gpus, in_the_end_[to] -= r.gpus, in_the_end_[from] += r.gpus;
      found = possible(next + 1);
      at_once_[to] += r.gpus, in_the_end_[to] += r.gpus, in_the_end_[from] -= r.gpus;
    }
    return found;
  }

 private:
  bool fits(std::int64_t pod) {
    if (pod == x_.claimant.pods) return true;
    for (auto& free : in_the_end_) {
      if (free < x_.claimant.gpus) continue;
      free -= x_.claimant.gpus;
      const bool rest = fits(pod + 1);
      free += x_.claimant.gpus;
      if (rest) return true;
    }
    return false;
  }

  const Instance& x_;
  std::vector<std::int64_t> at_once_, in_the_end_;
};

TEST(PlacementMoves, WhetherMovesMakeRoom) {
  int possible = 0, missed = 0;
  for (int n = 0; n < kInstances; ++n) {
    const std::uint64_t seed = nth_seed(n) + 1'000'000;
    const Instance x = some_instance(seed, true);
    Cluster c = cluster_of(x);
    const auto fair = fair_of(c, x);
    const Oracle oracle(x, fair);
    if (oracle.fits(0) || oracle.best() || !oracle.within_limit(0)) continue;  // moves are what is left
    const bool can = Moves(x).possible();
    const Plan p = plan(c, Time{kNow});
    const bool placed = c.assignment(x.claimant.id) != nullptr;
    for (const Decision& d : p.decisions) ASSERT_NE(d.kind, Decision::Kind::kEvict) << "seed " << seed;
    ASSERT_TRUE(can || !placed) << "seed " << seed << "\n" << text_of(x, fair);
    possible += can ? 1 : 0;
    missed += can && !placed ? 1 : 0;
  }
  std::cout << possible << " could be placed by moving others; " << missed << " of them were not\n";
  EXPECT_GT(possible, 50);
  EXPECT_LE(missed * 50, possible) << "consolidation has become worse";
}

}  // namespace
}  // namespace muster::placement
