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

}  // namespace
}  // namespace muster::client
