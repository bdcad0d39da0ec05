#include "muster/reconcilers/arrays/index_set.h"

#include <gtest/gtest.h>

#include <random>

namespace muster::reconcilers {
namespace {

TEST(IndexSet, WritesRangesAsShortAsTheyGet) {
  IndexSet set(50);
  EXPECT_EQ(set.to_text(), "");
  for (const int i : {43, 0, 1, 2, 49}) set.insert(i);
  EXPECT_EQ(set.to_text(), "0-2,43,49");
  EXPECT_EQ(set.size(), 5);
  set.insert(1);
  EXPECT_EQ(set.size(), 5) << "it was in it already";
  set.erase(1);
  set.erase(7);
  EXPECT_EQ(set.to_text(), "0,2,43,49");
}

TEST(IndexSet, ReadsWhatItWrites) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const auto count = static_cast<std::int32_t>(random() % 70);
    IndexSet set(count);
    for (std::int32_t i = 0; i < count; ++i) {
      if (random() % 3 != 0) set.insert(i);
    }
    EXPECT_EQ(IndexSet::parse(set.to_text(), count), set) << set.to_text();
  }
}

TEST(IndexSet, LeavesOutWhatIsNoIndex) {
  EXPECT_EQ(IndexSet::parse("8-12,-3,x,4-,,2,99999999999,5-4", 10).to_text(), "2,8-9");
  EXPECT_EQ(IndexSet::parse("0-5", 0).size(), 0);
  EXPECT_FALSE(IndexSet(3).contains(-1));
  EXPECT_FALSE(IndexSet(3).contains(3));
}

TEST(IndexSet, TheLongestTextFitsTheSchema) {
  IndexSet pairs(10'000);
  for (std::int32_t i = 0; i < 10'000; ++i) {
    if (i % 3 != 2) pairs.insert(i);
  }
  IndexSet singles(10'000);
  for (std::int32_t i = 0; i < 10'000; i += 2) singles.insert(i);
  EXPECT_LE(pairs.to_text().size(), 40'000u);
  EXPECT_LE(singles.to_text().size(), 40'000u);
  EXPECT_GT(pairs.to_text().size(), singles.to_text().size());
}

}  // namespace
}  // namespace muster::reconcilers
