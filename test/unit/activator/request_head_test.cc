#include "request_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::activator {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(RequestHead, AsksTheReplicaToEndTheConnectionAfterTheAnswer) {
  const std::string text =
      "POST /v1/completions HTTP/1.1\r\nHost: web\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\n"
      "X-Case: Kept\r\nContent-Length: 4\r\n\r\nbody";
  const auto head = read_head(text);
  ASSERT_TRUE(head && *head);
  EXPECT_EQ((*head)->protocol, Protocol::kHttp1);
  EXPECT_EQ((*head)->passed_on,
            "POST /v1/completions HTTP/1.1\r\nHost: web\r\nX-Case: Kept\r\nContent-Length: 4\r\n"
            "Connection: close\r\n\r\n");
  EXPECT_EQ(text.substr((*head)->size), "body");
}

TEST(RequestHead, LeavesAChangeOfProtocolAlone) {
  const std::string text =
      "GET /ws HTTP/1.1\r\nHost: web\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
  const auto head = read_head(text);
  ASSERT_TRUE(head && *head);
  EXPECT_EQ((*head)->passed_on, text);
}

TEST(RequestHead, KnowsHttp2ByItsPreface) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (std::size_t n = 1; n < preface.size(); ++n) {
    const auto part = read_head(preface.substr(0, n));
    ASSERT_TRUE(part) << n;
    EXPECT_FALSE(*part) << n;
  }
  const auto head = read_head(preface + "frames");
  ASSERT_TRUE(head && *head);
  EXPECT_EQ((*head)->protocol, Protocol::kHttp2);
  EXPECT_EQ((*head)->passed_on, preface);
  EXPECT_EQ(refusal(Protocol::kHttp2, 429, "no").size(), 26U) << "SETTINGS and GOAWAY";
}

TEST(RequestHead, WaitsForItsEndAndRefusesWhatIsNone) {
  EXPECT_FALSE(*read_head("GET / HTTP/1.1\r\nHost: web\r\n"));
  EXPECT_THAT(read_head("\x16\x03\x01 hello\r\n\r\n").error(), HasSubstr("it is no HTTP"));
  EXPECT_THAT(read_head(std::string(kMaxHead + 1, 'x')).error(), HasSubstr("longer than 65536 bytes"));
}

TEST(RequestHead, ARefusalIsAWholeAnswer) {
  const std::string answer = refusal(Protocol::kHttp1, 429, "full\n", std::chrono::seconds{10});
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 429 Too Many Requests\r\n"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 10\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(answer, testing::EndsWith("Connection: close\r\n\r\nfull\n"));
  EXPECT_THAT(refusal(Protocol::kHttp1, 504, "late"), Not(HasSubstr("Retry-After")));
}

}  // namespace
}  // namespace muster::activator
