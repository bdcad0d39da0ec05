#include "sequence.h"

#include <gtest/gtest.h>

namespace muster::test {
namespace {

using std::chrono::seconds;

const Event kGoes{"Evicted", "a/low", "Reclaimed", "b/new"};
const Event kAlsoGoes{"Evicted", "a/other", "Reclaimed", "b/new"};
const Event kGone{"Released", "a/low", "", ""};
const Event kStarts{"Admitted", "b/new", "", ""};

TEST(Sequence, EventsOfOneInstantAreOne) {
  const auto instants = by_instant({{seconds{1}, kGoes}, {seconds{1}, kGone}, {seconds{4}, kStarts}});
  EXPECT_EQ(instants, (Instants{{kGoes, kGone}, {kStarts}}));
}

TEST(Sequence, OneThingAfterTheOtherIsComparedInOrder) {
  const Instants expected{{kGoes, kGone, kStarts}};
  EXPECT_TRUE(is_single_threaded(expected));
  EXPECT_EQ(difference(expected, {kGoes, kGone, kStarts}), "");
  EXPECT_NE(difference(expected, {kGoes, kStarts, kGone}), "");
}

TEST(Sequence, WhatHappensTogetherIsComparedAsASet) {
  const Instants expected{{kGoes, kAlsoGoes}, {kStarts}};
  EXPECT_FALSE(is_single_threaded(expected));
  EXPECT_EQ(difference(expected, {kAlsoGoes, kGoes, kStarts}), "");
  EXPECT_NE(difference(expected, {kAlsoGoes, kStarts, kGoes}), "") << "the start is of a later instant";
}

TEST(Sequence, OneTooFewAndOneTooManyAreDifferences) {
  EXPECT_NE(difference({{kGoes}, {kGone}}, {kGoes}), "");
  EXPECT_NE(difference({{kGoes}}, {kGoes, kGone}), "");
  EXPECT_EQ(difference({}, {}), "");
}

TEST(Sequence, TheFirstInstantThatDiffersIsMarked) {
  const auto text = difference({{kGoes}, {kStarts}}, {kGoes, kGone});
  EXPECT_NE(text.find("! Admitted b/new"), std::string::npos) << text;
  EXPECT_NE(text.find("| Released a/low"), std::string::npos) << text;
  EXPECT_EQ(text.find("! Evicted"), std::string::npos) << text;
}

}  // namespace
}  // namespace muster::test
