#include "play/work.h"

#include <gtest/gtest.h>

namespace muster::simulate {
namespace {

using placement::Time;

Time at(std::int64_t seconds) {
  return Time{seconds * 1000};
}

TEST(Work, EndsWhenItIsDone) {
  Work w;
  w.set(placement::seconds(100), 4, std::nullopt);
  EXPECT_FALSE(w.ends());  // it does not run
  w.start(at(10), 4, 4000);
  EXPECT_EQ(w.ends(), at(110));
  w.resize(at(60), 1, 1000);  // half is done; what is left takes four times as long
  EXPECT_EQ(w.ends(), at(260));
  w.resize(at(60), 3, 3000);  // 66.7 s, rounded up to whole seconds
  EXPECT_EQ(w.ends(), at(127));
  w.advance(at(70));
  EXPECT_EQ(w.done().milli_gpu_ms, (50 * 4 + 10 * 3) * 1'000'000);
}

TEST(Work, WithoutAnEndItNeverEnds) {
  Work w;
  w.set(std::nullopt, 1, std::nullopt);
  w.start(at(0), 1, 0);
  EXPECT_FALSE(w.ends());
}

TEST(Work, StandsStillWithoutItsPods) {
  Work w;
  w.set(placement::seconds(100), 2, placement::seconds(30));
  w.start(at(0), 2, 0);
  w.resize(at(40), 0, 0);
  EXPECT_FALSE(w.ends());
  EXPECT_TRUE(w.runs());
  // The checkpoint due at 60 s is not written: 10 s are lost, not none.
  EXPECT_EQ(w.ms_at_full_size(w.stop(at(70)).pod_ms), 10'000);
  EXPECT_FALSE(w.runs());
}

TEST(Work, LosesWhatIsNotSaved) {
  Work w;
  w.set(placement::seconds(100), 1, std::nullopt);
  w.start(at(0), 1, 1000);
  w.save(at(20));
  EXPECT_EQ(w.stop(at(50)).pod_ms, 30'000);
  EXPECT_EQ(w.done().pod_ms, 20'000);
  w.start(at(100), 1, 1000);
  EXPECT_EQ(w.ends(), at(180));
  EXPECT_EQ(w.stop(at(110)).pod_ms, 10'000);  // what an earlier attempt saved stays
  EXPECT_EQ(w.done().pod_ms, 20'000);
}

// Checkpoints by itself are counted from the start of the attempt, whatever happens in between.
TEST(Work, SavesByItself) {
  Work w;
  w.set(placement::seconds(1000), 2, placement::seconds(30));
  w.start(at(5), 2, 0);
  w.resize(at(50), 1, 0);  // saved at 35 s; at 65 s the next
  EXPECT_EQ(w.stop(at(70)).pod_ms, 5'000);
  EXPECT_EQ(w.done().pod_ms, 45 * 2'000 + 15 * 1'000);
}

}  // namespace
}  // namespace muster::simulate
