// Who leaves a GPU whose memory fills up, and when.
#include "muster/reconcilers/gpu_metrics/memory_pressure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::reconcilers {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

struct Full : testing::Test {
  // The next reading, 30 s after the last.
  bool read(std::optional<std::int32_t> percent) {
    now += seconds{30};
    return gpus.note("n1/0", now, percent, 95);
  }
  FullGpus gpus;
  client::TimePoint now{};
};

TEST_F(Full, OneReadingIsNotEnough) {
  EXPECT_FALSE(read(97));
  EXPECT_TRUE(read(95));
  EXPECT_TRUE(read(99)) << "as long as nobody has left";
}

TEST_F(Full, ALittleBelowTheBoundItIsAsItWas) {
  EXPECT_FALSE(read(97));
  EXPECT_FALSE(read(91)) << "not full, and not relieved either";
  EXPECT_TRUE(read(95));
  EXPECT_TRUE(read(91));
  EXPECT_FALSE(read(90)) << "relieved";
  EXPECT_FALSE(read(97)) << "it begins anew";
  EXPECT_TRUE(read(97));
}

TEST_F(Full, WithoutAReadingNothingIsKnown) {
  EXPECT_FALSE(read(97));
  EXPECT_FALSE(read(std::nullopt));
  EXPECT_FALSE(read(97));
  EXPECT_TRUE(read(97));
}

TEST_F(Full, OnceSomebodyHasLeftOthersStayForAWhile) {
  read(97);
  EXPECT_TRUE(read(97));
  gpus.has_left("n1/0", now);
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(read(97)) << i;
  EXPECT_TRUE(read(97)) << "five minutes later it is still full";
  EXPECT_FALSE(gpus.note("n1/1", now, 99, 95)) << "each GPU by itself";
}

TEST_F(Full, WhatNobodyLooksAtIsForgottenButForWhoHasLeft) {
  read(97);
  gpus.keep_only({}, now);
  EXPECT_FALSE(read(97)) << "the first reading of those who share it now";
  EXPECT_TRUE(read(97));
  gpus.has_left("n1/0", now);
  gpus.keep_only({}, now);
  EXPECT_FALSE(read(97));
  EXPECT_FALSE(read(97)) << "somebody has just left it";
}

Sharer sharer(const std::string& name, std::int32_t priority) {
  return {.job = "nlp/" + name, .says_priority = true, .priority = priority};
}
std::string goes(const std::vector<Sharer>& sharers) {
  const Sharer* who = who_goes(sharers);
  return who == nullptr ? "" : who->job.substr(4);
}

TEST(WhoGoes, TheOneOfLowestPriority) {
  EXPECT_EQ(goes({sharer("a", 100), sharer("b", 10), sharer("c", 50)}), "b");
  EXPECT_EQ(goes({sharer("a", 100)}), "") << "alone it would meet itself again";
}

TEST(WhoGoes, OfEqualsTheOneAdmittedLast) {
  Sharer old = sharer("a", 10), young = sharer("b", 10);
  old.admitted = crds::Time{seconds{100}};
  young.admitted = crds::Time{seconds{200}};
  EXPECT_EQ(goes({old, young}), "b");
  EXPECT_EQ(goes({young, old}), "b");
  young.admitted = old.admitted;
  EXPECT_EQ(goes({young, old}), "a") << "by name";
}

TEST(WhoGoes, TheOneThatIsIdleFirst) {
  Sharer idle = sharer("a", 100);
  idle.is_idle = true;
  EXPECT_EQ(goes({idle, sharer("b", 10)}), "a");
}

TEST(WhoGoes, NobodyWhoDoesNotSaySo) {
  Sharer waits = sharer("a", 10);
  waits.says_priority = false;
  EXPECT_EQ(goes({waits, sharer("b", 10)}), "b");
  EXPECT_EQ(goes({waits, sharer("b", 100)}), "") << "the other one has the lower priority, and waits";
  Sharer idle = sharer("b", 100);
  idle.is_idle = true;
  EXPECT_EQ(goes({waits, idle}), "b");
  waits.is_idle = true;
  EXPECT_EQ(goes({waits, waits}), "");
}

TEST(WhoGoes, NobodyInPlaceOfOneWhoHasJustGone) {
  Sharer rests = sharer("a", 10);
  rests.rests = true;
  EXPECT_EQ(goes({rests, sharer("b", 50), sharer("c", 100)}), "");
}

}  // namespace
}  // namespace muster::reconcilers
