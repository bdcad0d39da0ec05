// Parts of URLs.
#include "../../../client/src/url.h"

#include <gtest/gtest.h>

namespace muster::client {
namespace {

TEST(Url, HostIsReplacedWhereItStandsAndNotInTheScheme) {
  EXPECT_EQ(with_host("https://10.0.0.1:6443", "api.test"), "https://api.test");
  EXPECT_EQ(with_host("https://h", "api.test"), "https://api.test");
  EXPECT_EQ(with_host("https://s/clusters/s", "api.test"), "https://api.test/clusters/s");
  EXPECT_EQ(with_host("https://[::1]:6443/x", "api.test"), "https://api.test/x");
}

TEST(Url, HostIsWhatStandsBetweenSchemeAndPath) {
  EXPECT_EQ(host_of("https://h:1/a://b"), "h:1");
  EXPECT_EQ(host_of("https://h"), "h");
  EXPECT_EQ(host_of(""), "");
}

TEST(Url, LoopbackIsTheWholeHostAndNotHowItBegins) {
  for (const char* here :
       {"localhost", "localhost:6443", "127.0.0.1", "127.8.9.10:6443", "[::1]", "[::1]:6443"})
    EXPECT_TRUE(is_loopback(here)) << here;
  for (const char* elsewhere :
       {"", "localhost.evil.example", "localhost.evil.example:6443", "127.evil.example",
        "127.0.0.1.evil.example", "[::1].evil.example", "[::11]:6443", "128.0.0.1"})
    EXPECT_FALSE(is_loopback(elsewhere)) << elsewhere;
}

}  // namespace
}  // namespace muster::client
