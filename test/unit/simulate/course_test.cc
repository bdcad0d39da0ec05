// Amounts over time, as annotations state them.
#include "muster/simulate/course.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::simulate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

std::expected<std::int64_t, std::string> digit(const std::string& text) {
  if (text.size() == 1) return text[0] - '0';
  return std::unexpected("must be a digit");
}

TEST(Course, EachValueHoldsFromItsInstantOn) {
  const auto course = Course::parse("10s: 4,1m :7", digit);
  ASSERT_TRUE(course);
  EXPECT_EQ(course->at(9s, 1), 1);
  EXPECT_EQ(course->at(10s, 1), 4);
  EXPECT_EQ(course->at(59s, 1), 4);
  EXPECT_EQ(course->at(60s, 1), 7);
  EXPECT_EQ(course->next(0s), 10s);
  EXPECT_EQ(course->next(10s), 60s);
  EXPECT_EQ(course->next(60s), std::nullopt);
}

TEST(Course, SaysWhatIsWrong) {
  for (const char* text : {"", "5", "10s", "soon: 5", "10s: 5,", ": 5"})
    EXPECT_THAT(Course::parse(text, digit).error(), HasSubstr("instants, each with its value")) << text;
  EXPECT_EQ(Course::parse("10s: 50", digit).error(), "must be a digit");
  EXPECT_THAT(Course::parse("10s: 5, 10s: 6", digit).error(), HasSubstr("ascending order"));
}

TEST(Course, InstantsAscend) {
  EXPECT_THAT(*parse_instants("10m, 2h"), ElementsAre(10min, 2h));
  EXPECT_THAT(parse_instants("10m, soon").error(), HasSubstr("is \"10m, soon\""));
  EXPECT_THAT(parse_instants("").error(), HasSubstr("separated by commas"));
  EXPECT_THAT(parse_instants("10m, 5m").error(), HasSubstr("ascending order"));
}

}  // namespace
}  // namespace muster::simulate
