#include "muster/common/base64.h"

#include <gtest/gtest.h>

#include <random>

namespace muster::common {
namespace {

// RFC 4648, section 10.
TEST(Base64, TheExamplesOfTheRfc) {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text), bytes);
  }
}

TEST(Base64, AnyBytesComeBack) {
  std::mt19937 random(1);
  for (int i = 0; i < 2'000; ++i) {
    std::string bytes;
    for (auto n = random() % 200; n > 0; --n) bytes += static_cast<char>(random());
    ASSERT_EQ(decode_base64(encode_base64(bytes)), bytes);
  }
}

TEST(Base64, WhiteSpaceOfAFoldedTextIsPassedOver) {
  EXPECT_EQ(decode_base64(" Zm9v\r\n\tYm Fy\n"), "foobar");
  EXPECT_EQ(decode_base64(" \n"), "");
}

TEST(Base64, EverythingElseIsRefused) {
  for (const char* bad : {"Z", "Zg", "Zg=", "Zm9vY", "====", "Zg==Zg==", "=Zg=", "Z===", "Zm9v-", "Zm9v----",
                          "Zm9_", "Zm9v*m9v", "Zm=v"}) {
    EXPECT_FALSE(decode_base64(bad)) << bad;
  }
}

}  // namespace
}  // namespace muster::common
