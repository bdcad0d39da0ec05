// Parts of URLs.
#include "http/url.h"

#include <gtest/gtest.h>

#include "http/target.h"

namespace muster::client {
namespace {

std::string with_host(const std::string& url, const std::string& host) {
  return Url::parse(url)->with_host(host);
}

TEST(Url, HostIsReplacedWhereItStandsAndNotInTheScheme) {
  EXPECT_EQ(with_host("https://10.0.0.1:6443", "api.test"), "https://api.test");
  EXPECT_EQ(with_host("https://h", "api.test"), "https://api.test");
  EXPECT_EQ(with_host("https://s/clusters/s", "api.test"), "https://api.test/clusters/s");
  EXPECT_EQ(with_host("https://[::1]:6443/x", "api.test"), "https://api.test/x");
}

TEST(Url, HasHostAndPort) {
  struct Case {
    const char *url, *host, *port, *authority;
  };
  for (const Case& c : {Case{"https://h:1/a://b", "h", "1", "h:1"}, Case{"https://h", "h", "443", "h"},
                        Case{"http://h/x", "h", "80", "h"},
                        Case{"https://[fd00::7]:6443/", "[fd00::7]", "6443", "[fd00::7]:6443"},
                        Case{"https://10.0.0.1:443", "10.0.0.1", "443", "10.0.0.1:443"}}) {
    const auto url = Url::parse(c.url);
    ASSERT_TRUE(url) << c.url;
    EXPECT_EQ(url->host(), c.host) << c.url;
    EXPECT_EQ(url->port(), c.port) << c.url;
    EXPECT_EQ(url->authority(), c.authority) << c.url;
  }
}

TEST(Url, WhatIsNoUrlIsRefused) {
  for (const char* text : {"", "h", "h:6443", "https://", "ftp://h", "file:///etc/passwd", "https://a b",
                           "https://h:port", "https://h:99999", "https://[::1"}) {
    EXPECT_FALSE(Url::parse(text)) << text;
  }
}

bool is_loopback_url(const std::string& host_and_port) {
  const auto url = Url::parse("https://" + host_and_port);
  return url && is_loopback(url->host());
}

TEST(Url, LoopbackIsTheWholeHostAndNotHowItBegins) {
  for (const char* here :
       {"localhost", "localhost:6443", "127.0.0.1", "127.8.9.10:6443", "[::1]", "[::1]:6443"})
    EXPECT_TRUE(is_loopback_url(here)) << here;
  for (const char* elsewhere :
       {"", "localhost.evil.example", "localhost.evil.example:6443", "127.evil.example",
        "127.0.0.1.evil.example", "[::1].evil.example", "[::11]:6443", "128.0.0.1"}) {
    EXPECT_FALSE(is_loopback_url(elsewhere)) << elsewhere;
    EXPECT_FALSE(is_loopback(elsewhere)) << elsewhere;
  }
}

TEST(Target, EverythingButUnreservedCharactersIsEncoded) {
  EXPECT_EQ(percent_encode(""), "");
  EXPECT_EQ(percent_encode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encode("a b/c=d,e!=f&g+h%"), "a%20b%2Fc%3Dd%2Ce%21%3Df%26g%2Bh%25");
  EXPECT_EQ(percent_encode(std::string_view("\0\xff", 2)), "%00%FF");
  EXPECT_EQ(Target("/pods").with("limit", "5").with("none", "").with("labelSelector", "a=b").take(),
            "/pods?limit=5&labelSelector=a%3Db");
}

}  // namespace
}  // namespace muster::client
