// The header Retry-After.
#include "http/retry_after.h"

#include <gtest/gtest.h>

namespace muster::client {
namespace {

using namespace std::chrono_literals;

TEST(RetryAfter, IsSeconds) {
  const WallTime now{1'700'000'000s};
  EXPECT_EQ(read_retry_after("7", now), 7s);
  EXPECT_EQ(read_retry_after("0", now), 0s);
  EXPECT_EQ(read_retry_after("3600", now), 3600s);
}

// 1 700 000 000 s is Tue, 14 Nov 2023 22:13:20 GMT.
TEST(RetryAfter, IsADateInEachFormThatRfc9110Names) {
  const WallTime now{1'700'000'000s};
  EXPECT_EQ(read_retry_after("Tue, 14 Nov 2023 22:13:35 GMT", now), 15s);
  EXPECT_EQ(read_retry_after("Tuesday, 14-Nov-23 22:13:35 GMT", now), 15s);
  EXPECT_EQ(read_retry_after("Tue Nov 14 22:13:35 2023", now), 15s);
  EXPECT_EQ(read_retry_after("Tue, 14 Nov 2023 22:13:35 GMT", now + 14s + 500ms), 500ms);
  EXPECT_EQ(read_retry_after("Tue, 14 Nov 2023 22:13:05 GMT", now), 0s) << "it has passed";
}

TEST(RetryAfter, IsNothingElse) {
  const WallTime now{1'700'000'000s};
  for (const char* bad : {"", "-7", "7x", "x", "1.5", "soon", "Tue, 14 Nov", "22:13:35", "4294967296"}) {
    EXPECT_EQ(read_retry_after(bad, now), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace muster::client
