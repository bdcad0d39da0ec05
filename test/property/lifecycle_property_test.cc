// Thousands of small clusters, each with its own seed of crashes, lost writes, faults and edits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "lifecycle_world.h"

namespace muster::reconcilers::sim {
namespace {

constexpr std::uint64_t kSeeds = 1500;
constexpr int kRounds = 150;

// A failing seed is printed; LifecycleWorld(seed, faults) alone plays it again. MUSTER_SEED=N plays other
// seeds, N further on.
void expect_all_seeds_hold(const Faults& faults, std::uint64_t first) {
  if (const char* further = std::getenv("MUSTER_SEED")) first += std::stoull(further);
  LifecycleWorld::Totals sum;
  for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
    LifecycleWorld world(seed, faults);
    world.storm(kRounds);
    world.settle();
    ASSERT_TRUE(world.violations().empty()) << "seed " << seed << ": " << world.violations().front();
    const auto& t = world.totals();
    sum.reconciles += t.reconciles;
    sum.writes += t.writes;
    sum.crashes += t.crashes;
    sum.conflicts += t.conflicts;
    sum.starts += t.starts;
    sum.restarts += t.restarts;
    sum.refusals += t.refusals;
    sum.withdrawals += t.withdrawals;
    sum.finished += t.finished;
    sum.resumes += t.resumes;
    sum.moves += t.moves;
    sum.shrinks += t.shrinks;
    sum.grows += t.grows;
  }
  fmt::print(
      "{} worlds: {} reconciles, {} writes, {} crashes, {} conflicts, {} starts, {} restarts, {} refusals, "
      "{} withdrawals, {} finished, {} pods that resume, {} moves, {} shrinks, {} grows\n",
      kSeeds, sum.reconciles, sum.writes, sum.crashes, sum.conflicts, sum.starts, sum.restarts, sum.refusals,
      sum.withdrawals, sum.finished, sum.resumes, sum.moves, sum.shrinks, sum.grows);
  // The storm must have been one, or the invariants held for want of trying.
  EXPECT_GT(sum.starts, static_cast<int>(kSeeds));
  EXPECT_GT(sum.restarts, static_cast<int>(kSeeds / 10));
  EXPECT_GT(sum.refusals, static_cast<int>(kSeeds / 10));
  EXPECT_GT(sum.withdrawals, static_cast<int>(kSeeds / 10));
  EXPECT_GT(sum.finished, static_cast<int>(kSeeds / 10));
  EXPECT_GT(sum.resumes, static_cast<int>(kSeeds / 10));
  EXPECT_GT(sum.moves, static_cast<int>(kSeeds / 10));
  EXPECT_GT(sum.shrinks, static_cast<int>(kSeeds / 10));
  EXPECT_GT(sum.grows, static_cast<int>(kSeeds / 10));
  if (faults.crash > 0) {
    EXPECT_GT(sum.crashes, static_cast<int>(kSeeds / 10));
  }
}

TEST(LifecycleProperty, HoldsWithoutCrashes) {
  expect_all_seeds_hold({.crash = 0, .refused_write = 0, .lost_answer = 0}, 1);
}

TEST(LifecycleProperty, HoldsWithACrashNowAndThen) {
  expect_all_seeds_hold({}, 100'000);
}

TEST(LifecycleProperty, HoldsWhenNearlyEveryWriteGoesWrong) {
  expect_all_seeds_hold({.crash = 80, .refused_write = 80, .lost_answer = 80}, 200'000);
}

// What further seeds have found. 310'216'145: a gang becomes smaller, and by that a checkpoint counts that
// not all had reported. 186'538'800: a gang that starts changes its size by a restart while one of its places
// is given back. 186'640'241: growth that was decided with a member that has left since, and whose pod is
// still there.
TEST(LifecycleProperty, HoldsWhereSomethingWasFound) {
  const Faults storm{.crash = 80, .refused_write = 80, .lost_answer = 80};
  for (const auto& [seed, faults] :
       {std::pair{310'216'145U, storm}, std::pair{186'538'800U, Faults{}}, std::pair{186'640'241U, storm}}) {
    LifecycleWorld world(seed, faults);
    world.storm(kRounds);
    world.settle();
    EXPECT_TRUE(world.violations().empty()) << "seed " << seed << ": " << world.violations().front();
  }
}

// The world is able to show a double use: a controller that frees places whose commit may have gone through
// is caught.
TEST(LifecycleProperty, ACarelessControllerIsCaught) {
  const Faults careless{.crash = 0, .refused_write = 0, .lost_answer = 200, .give_back_on_unknown = true};
  bool caught = false;
  for (std::uint64_t seed = 1; seed < 2000 && !caught; ++seed) {
    LifecycleWorld world(seed, careless);
    world.storm(kRounds);
    for (const auto& v : world.violations()) caught = caught || v.starts_with("GPU ");
  }
  EXPECT_TRUE(caught);
}

}  // namespace
}  // namespace muster::reconcilers::sim
