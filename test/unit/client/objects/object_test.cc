// Keys, versions, metadata: small functions by tables.
#include "muster/client/object.h"

#include <gtest/gtest.h>

namespace muster::client {
namespace {

TEST(Object, KeysAreMadeAndSplit) {
  EXPECT_EQ(make_key("ns", "name"), "ns/name");
  EXPECT_EQ(make_key("", "node"), "node");
  EXPECT_EQ(split_key("ns/name"), (std::pair<std::string_view, std::string_view>("ns", "name")));
  EXPECT_EQ(split_key("node"), (std::pair<std::string_view, std::string_view>("", "node")));
}

TEST(Object, ResourceVersionsAreDecimalsOfAnyLength) {
  const auto less = std::partial_ordering::less;
  const auto unordered = std::partial_ordering::unordered;
  EXPECT_EQ(compare_resource_versions("9", "10"), less);
  EXPECT_EQ(compare_resource_versions("123456789012345678901234567890", "123456789012345678901234567891"),
            less);
  EXPECT_EQ(compare_resource_versions("7", "7"), std::partial_ordering::equivalent);
  EXPECT_EQ(compare_resource_versions("18446744073709551616", "18446744073709551615"),
            std::partial_ordering::greater);
  for (const char* bad : {"", "0", "01", "1a", "-1", "1.0", " 1"}) {
    EXPECT_EQ(compare_resource_versions(bad, "1"), unordered) << bad;
    EXPECT_EQ(compare_resource_versions("1", bad), unordered) << bad;
  }
}

TEST(Object, MetaOfAnyObject) {
  const auto meta =
      decode_meta(R"({"kind":"X","metadata":{"name":"n","namespace":"s","uid":"u","resourceVersion":"5"}})");
  ASSERT_TRUE(meta);
  EXPECT_EQ(meta->key(), "s/n");
  EXPECT_EQ(meta->uid, "u");
  EXPECT_EQ(meta->resource_version, "5");
  for (const char* bad :
       {"", "{}", "[]", R"({"metadata":{}})", R"({"metadata":{"name":5}})", R"({"metadata":7})"}) {
    const auto none = decode_meta(bad);
    ASSERT_FALSE(none) << bad;
    EXPECT_EQ(none.error().code, ErrorCode::kDecode);
  }
}

}  // namespace
}  // namespace muster::client
