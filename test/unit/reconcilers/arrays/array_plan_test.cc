#include "muster/reconcilers/arrays/array_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace muster::reconcilers {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using State = IndexJob::State;

crds::Time at(int second) {
  return crds::Time{std::chrono::seconds{1'000 + second}};
}
IndexJob job(std::int32_t index, State state, int ended = 0) {
  return {.index = index, .state = state, .ended = at(ended)};
}
crds::JobArray array_of(std::int32_t count, std::int32_t parallelism) {
  return {.count = count, .parallelism = parallelism};
}
ArrayPlan plan(const crds::JobArray& array, const std::vector<IndexJob>& jobs, ArrayRecord before,
               bool suspended = false) {
  return plan_array(array, suspended, std::nullopt, before, jobs);
}
ArrayPlan plan(const crds::JobArray& array, const std::vector<IndexJob>& jobs) {
  return plan(array, jobs, ArrayRecord(array.count));
}
ArrayRecord succeeded(std::int32_t count, const std::string& which) {
  ArrayRecord record(count);
  record.succeeded = IndexSet::parse(which, count);
  return record;
}

TEST(ArrayPlan, MakesAsManyJobsAsMayRunAtOnce) {
  EXPECT_THAT(plan(array_of(100, 3), {}).create, ElementsAre(0, 1, 2));
  EXPECT_THAT(plan({.count = 2}, {}).create, ElementsAre(0, 1)) << "left out, all run at once";
  EXPECT_THAT(plan(array_of(100, 3), {job(0, State::kHolds), job(2, State::kNew)}).create, ElementsAre(1));
}

TEST(ArrayPlan, AnIndexThatHasEndedIsRecordedItsJobGoesAndTheNextBegins) {
  const auto next = plan(array_of(10, 2), {job(0, State::kSucceeded), job(1, State::kHolds)});
  EXPECT_EQ(next.record.succeeded.to_text(), "0");
  EXPECT_THAT(next.news, ElementsAre(0));
  EXPECT_THAT(next.remove, ElementsAre(0));
  EXPECT_THAT(next.create, ElementsAre(2));
  EXPECT_FALSE(next.end);
}

TEST(ArrayPlan, WhatIsInTheRecordIsNotRunAgain) {
  const auto next = plan(array_of(4, 4), {job(1, State::kNew)}, succeeded(4, "0-1"));
  EXPECT_THAT(next.remove, ElementsAre(0)) << "a late request of an earlier process";
  EXPECT_THAT(next.create, ElementsAre(2, 3));
  EXPECT_THAT(next.news, IsEmpty());
}

TEST(ArrayPlan, AllThatHaveSucceededCompleteTheArray) {
  const auto last = plan(array_of(3, 1), {job(2, State::kSucceeded)}, succeeded(3, "0-1"));
  ASSERT_TRUE(last.end);
  EXPECT_EQ(last.end->kind, ArrayEnd::Kind::kComplete);
  EXPECT_EQ(last.end->reason, "Completed");
  EXPECT_THAT(last.create, IsEmpty());
}

TEST(ArrayPlan, AFailedIndexLetsTheOthersGoOnAndFailsTheArrayInTheEnd) {
  const auto next = plan(array_of(3, 2), {job(0, State::kFailed), job(1, State::kHolds)});
  EXPECT_EQ(next.record.failed.to_text(), "0");
  EXPECT_THAT(next.remove, IsEmpty()) << "it stays for its logs";
  EXPECT_THAT(next.create, ElementsAre(2)) << "and takes nobody's turn";
  EXPECT_FALSE(next.end);
  ArrayRecord before = succeeded(3, "1");
  before.failed.insert(0);
  const auto last = plan(array_of(3, 2), {job(0, State::kFailed), job(2, State::kSucceeded)}, before);
  ASSERT_TRUE(last.end);
  EXPECT_EQ(last.end->kind, ArrayEnd::Kind::kFailed);
  EXPECT_EQ(last.end->reason, "IndexesFailed");
  EXPECT_EQ(last.end->message, "2 of 3 indexes have succeeded; indexes 0 has failed");
}

TEST(ArrayPlan, StopEndsItAtTheFirstFailure) {
  auto array = array_of(10, 3);
  array.failures = crds::ArrayFailures::kStop;
  const auto next = plan(array, {job(0, State::kHolds), job(1, State::kFailed), job(2, State::kNew)});
  ASSERT_TRUE(next.end);
  EXPECT_EQ(next.end->reason, "IndexFailed");
  EXPECT_THAT(next.remove, ElementsAre(0, 2));
  EXPECT_THAT(next.create, IsEmpty());
}

TEST(ArrayPlan, MoreFailuresThanAllowedEndIt) {
  auto array = array_of(10, 4);
  array.max_failures = 1;
  EXPECT_FALSE(plan(array, {job(0, State::kFailed), job(1, State::kHolds)}).end);
  const auto next = plan(array, {job(0, State::kFailed), job(1, State::kFailed), job(2, State::kHolds)});
  ASSERT_TRUE(next.end);
  EXPECT_EQ(next.end->reason, "MaxFailuresExceeded");
  EXPECT_EQ(next.end->message, "indexes 0-1 have failed, more than spec.array.maxFailures 1");
  EXPECT_THAT(next.remove, ElementsAre(2));
}

TEST(ArrayPlan, PoliciesOfSuccessStopTheRest) {
  auto any = array_of(10, 3);
  any.success.policy = crds::ArraySuccess::kAny;
  const std::vector<IndexJob> jobs = {job(0, State::kHolds), job(1, State::kSucceeded), job(2, State::kNew)};
  const auto one = plan(any, jobs);
  ASSERT_TRUE(one.end);
  EXPECT_EQ(one.end->reason, "EnoughSucceeded");
  EXPECT_THAT(one.remove, ElementsAre(0, 1, 2));
  auto two = array_of(10, 3);
  two.success = {crds::ArraySuccess::kAtLeast, 2};
  EXPECT_FALSE(plan(two, jobs).end);
  EXPECT_TRUE(plan(two, jobs, succeeded(10, "7")).end);
}

TEST(ArrayPlan, AResultEndsItAndTheFirstOneCounts) {
  auto array = array_of(4, 4);
  array.success.policy = crds::ArraySuccess::kResult;
  auto late = job(0, State::kSucceeded, 5), early = job(3, State::kSucceeded, 4);
  EXPECT_FALSE(plan(array, {late, early}).end) << "neither has said one";
  late.result = "1";
  early.result = R"({"loss":"0.5"})";
  const auto next = plan(array, {late, early, job(1, State::kHolds)});
  ASSERT_TRUE(next.end);
  EXPECT_EQ(next.end->message, R"(index 3 has a result: {"loss":"0.5"})");
  EXPECT_EQ(next.record.result, 3);
  EXPECT_EQ(next.record.said, early.result) << "its job goes";
  const auto none = plan(array, {job(3, State::kSucceeded)}, succeeded(4, "0-2"));
  ASSERT_TRUE(none.end);
  EXPECT_EQ(none.end->reason, "NoResult");
}

TEST(ArrayPlan, ASuspendedArrayBeginsNothingAndStillRecordsEnds) {
  const auto next = plan(array_of(10, 2), {job(0, State::kSucceeded)}, ArrayRecord(10), true);
  EXPECT_EQ(next.record.succeeded.to_text(), "0");
  EXPECT_THAT(next.create, IsEmpty());
}

TEST(ArrayPlan, LessParallelismTakesWhatHasNotBegunAndHoldsTheRest) {
  const std::vector<IndexJob> jobs = {job(0, State::kHolds), job(1, State::kWaits), job(2, State::kHolds),
                                      job(3, State::kNew)};
  const auto three = plan(array_of(10, 3), jobs);
  EXPECT_THAT(three.remove, ElementsAre(3));
  EXPECT_EQ(three.record.held.to_text(), "");
  const auto one = plan(array_of(10, 1), jobs);
  EXPECT_THAT(one.remove, ElementsAre(3));
  EXPECT_EQ(one.record.held.to_text(), "1-2") << "who holds no place gives way first";
  EXPECT_THAT(one.create, IsEmpty());
}

TEST(ArrayPlan, WhoWasHeldGoesOnBeforeAnythingNewBegins) {
  ArrayRecord before(10);
  for (const int i : {1, 2}) before.held.insert(i);
  const std::vector<IndexJob> jobs = {job(0, State::kHolds), job(1, State::kWaits), job(2, State::kWaits)};
  const auto two = plan(array_of(10, 2), jobs, before);
  EXPECT_EQ(two.record.held.to_text(), "2");
  EXPECT_THAT(two.create, IsEmpty());
  const auto four = plan(array_of(10, 4), jobs, before);
  EXPECT_EQ(four.record.held.to_text(), "");
  EXPECT_THAT(four.create, ElementsAre(3));
}

TEST(ArrayPlan, AJobThatSomebodyDeletesKeepsItsTurnUntilItIsGone) {
  auto leaving = job(1, State::kHolds);
  leaving.leaves = true;
  EXPECT_THAT(plan(array_of(10, 2), {job(0, State::kHolds), leaving}).create, IsEmpty());
  EXPECT_THAT(plan(array_of(10, 2), {job(0, State::kHolds)}).create, ElementsAre(1)) << "and runs again";
}

TEST(ArrayPlan, OfFailedJobsThoseStayThatFailedFirst) {
  ArrayRecord before(20);
  std::vector<IndexJob> jobs;
  for (int i = 0; i < 12; ++i) {
    before.failed.insert(i);
    jobs.push_back(job(i, State::kFailed, 100 - i));
  }
  EXPECT_THAT(plan(array_of(20, 1), jobs, before).remove, testing::UnorderedElementsAre(0, 1));
  const auto ended = plan_array(array_of(20, 1), false, ArrayEnd::Kind::kFailed, before, jobs);
  EXPECT_THAT(ended.remove, testing::UnorderedElementsAre(0, 1)) << "also when the array has ended";
}

crds::JobArray retried(crds::JobArray array, std::int32_t times) {
  array.retry_failed = times;
  return array;
}
ArrayRecord failed(std::int32_t count, const std::string& which) {
  ArrayRecord record(count);
  record.failed = IndexSet::parse(which, count);
  return record;
}

TEST(ArrayPlan, IndexesThatHaveFailedAreRunAgainOnceForEachHigherNumber) {
  const auto array = retried(array_of(6, 3), 1);
  const auto next = plan(array, {job(1, State::kFailed), job(4, State::kHolds)}, failed(6, "1,3"));
  EXPECT_EQ(next.record.failed.to_text(), "");
  EXPECT_EQ(next.record.again.to_text(), "1,3");
  EXPECT_EQ(next.record.retried, 1);
  EXPECT_EQ(next.retries, 2);
  EXPECT_THAT(next.remove, ElementsAre(0)) << "the old job goes first";
  EXPECT_THAT(next.create, ElementsAre(0, 2));
  // Its old job is still there: it counts no more.
  EXPECT_THAT(plan(array, {job(1, State::kFailed)}, next.record).news, IsEmpty());
  // The new one is there.
  auto again = job(1, State::kFailed);
  again.retry = 1;
  const auto failed_again = plan(array, {again}, next.record);
  EXPECT_EQ(failed_again.record.failed.to_text(), "1");
  EXPECT_EQ(failed_again.record.again.to_text(), "3");
  EXPECT_EQ(failed_again.retries, 0) << "the number is no higher";
}

TEST(ArrayPlan, ANumberWaitsUntilTheOneBeforeHasBegun) {
  ArrayRecord before = failed(4, "2");
  before.again.insert(1);
  before.retried = 1;
  const auto array = retried(array_of(4, 4), 2);
  const auto waits = plan(array, {job(1, State::kFailed)}, before);
  EXPECT_EQ(waits.record.retried, 1) << "nobody may know yet of a new job that index 1 has";
  EXPECT_EQ(waits.record.failed.to_text(), "2");
  auto fresh = job(1, State::kNew);
  fresh.retry = 1;
  const auto next = plan(array, {fresh}, before);
  EXPECT_EQ(next.record.retried, 2);
  EXPECT_EQ(next.record.again.to_text(), "2");
}

TEST(ArrayPlan, AnIndexThatRunsWhenOthersAreRetriedFailsAsAnyOther) {
  const auto next = plan(retried(array_of(2, 2), 1), {job(0, State::kHolds)}, failed(2, "1"));
  const auto later = plan(retried(array_of(2, 2), 1), {job(0, State::kFailed)}, next.record);
  EXPECT_EQ(later.record.failed.to_text(), "0");
  EXPECT_EQ(later.record.again.to_text(), "1");
}

TEST(ArrayPlan, AnArrayThatHasFailedGoesOnAndOneThatIsCompleteDoesNot) {
  const auto array = retried(array_of(3, 3), 4);
  ArrayRecord before = failed(3, "1");
  before.succeeded.insert(0);
  const auto next = plan_array(array, false, ArrayEnd::Kind::kFailed, before, {job(1, State::kFailed)});
  EXPECT_TRUE(next.reopened);
  EXPECT_FALSE(next.end);
  EXPECT_THAT(next.remove, ElementsAre(0));
  EXPECT_THAT(next.create, ElementsAre(2)) << "it had been stopped before its turn came";
  const auto complete = plan_array(array, false, ArrayEnd::Kind::kComplete, before, {});
  EXPECT_FALSE(complete.reopened);
  EXPECT_EQ(complete.record, before);
  EXPECT_THAT(complete.create, IsEmpty());
  const auto nothing = plan_array(array, false, ArrayEnd::Kind::kFailed, succeeded(3, "0-2"), {});
  EXPECT_FALSE(nothing.reopened) << "none of its indexes has failed";
  EXPECT_EQ(nothing.record.retried, 4);
}

// A cluster in which the operator dies between any two writes, and its successor begins with a cache that is
// behind. Every object has its history; what a process sees of one is not older than what it has written.
class CrashWorld {
 public:
  // `retries`: so often somebody asks for the indexes that have failed to be run again.
  CrashWorld(std::uint32_t seed, crds::JobArray array, int retries = 0)
      : random_(seed), array_(std::move(array)), retries_left_(retries) {
    records_.emplace_back(0, Status{ArrayRecord(array_.count), std::nullopt});
    begin_process();
  }

  // Until the array has ended; false: it does not.
  bool run() {
    for (int step = 0; step < 20'000; ++step) {
      const bool has_ended = latest_status().ended && all_settled();
      if (has_ended && (retries_left_ == 0 || latest_status().ended == ArrayEnd::Kind::kComplete))
        return true;
      if (retries_left_ > 0 && (has_ended || random_() % 40 == 0)) {
        --retries_left_;
        array_.retry_failed = array_.retry_failed.value_or(0) + 1 + static_cast<std::int32_t>(random_() % 2);
      }
      if (random_() % 3 == 0) {
        progress();
      } else if (random_() % 25 == 0) {
        begin_process();
      } else {
        reconcile();
      }
      // After a retry a lower index may begin, although a successor does not see yet what its predecessor has
      // begun. It holds one of them when it does.
      if (!array_.retry_failed) EXPECT_LE(open_jobs(), crds::parallelism_of(array_));
      if (testing::Test::HasFailure()) return false;
    }
    return false;
  }

  const ArrayRecord& record() const { return records_.back().second.record; }
  int ends(std::int32_t index) const {
    const auto found = ends_.find(index);
    return found == ends_.end() ? 0 : found->second;
  }
  int successes(std::int32_t index) const {
    const auto found = successes_.find(index);
    return found == successes_.end() ? 0 : found->second;
  }
  int all_ends() const {
    int all = 0;
    for (const auto& [index, n] : ends_) all += n;
    return all;
  }
  int retries() const { return retries_; }  // indexes that the record says are run again, each time counted
  int crashes() const { return processes_ - 1; }

 private:
  struct Status {
    ArrayRecord record;
    std::optional<ArrayEnd::Kind> ended;
  };
  struct Child {
    bool is_there = false;
    IndexJob job{};
    int born = 0;  // what tells it from another of its name
  };
  template <class T>
  using History = std::vector<std::pair<int, T>>;  // version -> state

  template <class T>
  static const T& as_of(const History<T>& history, int version) {
    auto it = history.end();
    while (std::prev(it)->first > version) --it;
    return std::prev(it)->second;
  }

  void begin_process() {
    ++processes_;
    watched_ = std::max(0, version_ - static_cast<int>(random_() % 8));
    sure_ = false;
    own_.clear();
    own_status_ = 0;
  }

  const Status& latest_status() const { return records_.back().second; }
  bool all_settled() const {
    for (const auto& [index, history] : children_) {
      if (history.back().second.is_there && history.back().second.job.state != State::kFailed) return false;
    }
    return true;
  }
  int open_jobs() const {
    int open = 0;
    for (const auto& [index, history] : children_) {
      const Child& child = history.back().second;
      open += child.is_there && !child.job.has_ended() ? 1 : 0;
    }
    return open;
  }

  // Some job comes on.
  void progress() {
    for (auto& [index, history] : children_) {
      Child child = history.back().second;
      if (!child.is_there || child.job.has_ended() || random_() % 3 != 0) continue;
      const auto dice = random_() % 10;
      child.job.state = child.job.state == State::kNew || child.job.state == State::kWaits ? State::kHolds
                        : dice < 2                                                         ? State::kWaits
                        : dice < 4                                                         ? State::kFailed
                                   : State::kSucceeded;
      child.job.ended = at(version_);
      if (child.job.has_ended()) ++ends_[index];
      if (child.job.state == State::kSucceeded) ++successes_[index];
      history.emplace_back(++version_, child);
    }
  }

  // One look of the operator, as ArrayReconciler does it. It may die after any write.
  void reconcile() {
    watched_ += static_cast<int>(random_() % static_cast<unsigned>(version_ - watched_ + 1));
    const Status seen = as_of(records_, std::max(watched_, own_status_));
    std::vector<IndexJob> jobs;
    std::vector<int> born;
    for (auto& [index, history] : children_) {
      if (history.front().first > std::max(watched_, own_[index])) continue;
      const Child& child = as_of(history, std::max(watched_, own_[index]));
      if (!child.is_there) continue;
      jobs.push_back(child.job);
      born.push_back(child.born);
    }
    const auto plan = plan_array(array_, false, seen.ended, seen.record, jobs);
    if (plan.record != seen.record || plan.end || plan.reopened) {
      const bool is_newest = records_.back().first <= std::max(watched_, own_status_);
      if (!is_newest) return;  // the API server refuses it
      retries_ += plan.retries;
      auto ended = plan.reopened ? std::nullopt : seen.ended;
      if (plan.end) ended = plan.end->kind;
      records_.emplace_back(++version_, Status{plan.record, ended});
      own_status_ = version_;
      sure_ = true;
      if (dies()) return;
    }
    for (const auto i : plan.remove) {
      auto& history = children_.at(jobs[i].index);
      const Child& child = history.back().second;
      // Of one that may have come on meanwhile the API server is told which version is meant.
      const bool is_older = history.back().first > std::max(watched_, own_[jobs[i].index]);
      if (jobs[i].state == State::kNew && is_older) return;
      if (child.is_there && child.born == born[i]) history.emplace_back(++version_, Child{});
      own_[jobs[i].index] = version_;
      if (dies()) return;
    }
    if (plan.create.empty()) return;
    if (!sure_) {
      const bool is_newest = records_.back().first <= std::max(watched_, own_status_);
      if (!is_newest) return;  // the watch has to come so far first
      sure_ = true;
    }
    for (const auto index : plan.create) {
      auto& history = children_[index];
      const bool is_there = !history.empty() && history.back().second.is_there;
      ++version_;
      if (!is_there) {
        const IndexJob fresh{.index = index, .retry = plan.record.retried};
        history.emplace_back(version_, Child{true, fresh, version_});
      }
      own_[index] = version_;
      if (dies()) return;
    }
  }

  bool dies() {
    if (random_() % 6 != 0) return false;
    begin_process();
    return true;
  }

  std::mt19937 random_;
  crds::JobArray array_;
  int version_ = 0, watched_ = 0, processes_ = 0;
  bool sure_ = false;
  History<Status> records_;
  std::map<std::int32_t, History<Child>> children_;
  std::map<std::int32_t, int> own_;  // versions that this process has written, or has read
  int own_status_ = 0;
  std::map<std::int32_t, int> ends_, successes_;
  int retries_left_ = 0, retries_ = 0;
};

TEST(ArrayPlan, HoweverOftenTheOperatorDiesEachIndexIsRunToItsEndOnce) {
  int crashes = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const auto count = static_cast<std::int32_t>(1 + seed % 23);
    CrashWorld world(seed, array_of(count, static_cast<std::int32_t>(1 + seed % std::min(7, count))));
    ASSERT_TRUE(world.run()) << "it does not come to its end";
    EXPECT_EQ(world.record().succeeded.size() + world.record().failed.size(), count);
    for (std::int32_t i = 0; i < count; ++i) EXPECT_EQ(world.ends(i), 1) << "index " << i;
    crashes += world.crashes();
    if (HasFailure()) return;
  }
  EXPECT_GT(crashes, 1000);
}

TEST(ArrayPlan, HoweverOftenTheOperatorDiesARetryRunsWhatHasFailedOnceMore) {
  int retries = 0, crashes = 0;
  for (std::uint32_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    const auto count = static_cast<std::int32_t>(1 + seed % 23);
    auto array = array_of(count, static_cast<std::int32_t>(1 + seed % std::min(7, count)));
    if (seed % 4 == 1) array.max_failures = 2;
    CrashWorld world(seed, array, 4);
    ASSERT_TRUE(world.run()) << "it does not come to its end";
    // What ends after an array with maxFailures has failed does not count, and is run again after a retry.
    const bool is_stopped = array.max_failures.has_value();
    for (std::int32_t i = 0; i < count; ++i) {
      const int recorded = world.record().succeeded.contains(i) ? 1 : 0;
      EXPECT_GE(world.successes(i), recorded) << "index " << i;
      if (!is_stopped) EXPECT_EQ(world.successes(i), recorded) << "index " << i;
    }
    if (!is_stopped) EXPECT_EQ(world.all_ends(), count + world.retries());
    retries += world.retries();
    crashes += world.crashes();
    if (HasFailure()) return;
  }
  EXPECT_GT(retries, 1000);
  EXPECT_GT(crashes, 1000);
}

TEST(ArrayPlan, AnArrayThatStopsEarlyRunsNoIndexTwiceEither) {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    auto array = array_of(20, 6);
    if (seed % 3 == 0) array.failures = crds::ArrayFailures::kStop;
    if (seed % 3 == 1) array.max_failures = 2;
    if (seed % 3 == 2) array.success = {crds::ArraySuccess::kAtLeast, 4};
    CrashWorld world(seed, array);
    ASSERT_TRUE(world.run()) << "it does not come to its end";
    for (std::int32_t i = 0; i < 20; ++i) {
      EXPECT_LE(world.ends(i), 1) << "index " << i;
      if (world.record().has(i)) EXPECT_EQ(world.ends(i), 1) << "index " << i;
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace muster::reconcilers
