// The text of a watch: its lines, and what one of them says.
#include "watch/watch_event.h"

#include <gtest/gtest.h>

#include <chrono>

#include "watch/fake_collection.h"

namespace muster::client {
namespace {

using namespace std::chrono_literals;
using namespace testing;

TEST(LineSplitter, PiecesOfAnySize) {
  const std::string text = "one\n\ntwo two\nthree" + std::string(3000, 'x') + "\nrest";
  for (std::size_t piece = 1; piece < 64; ++piece) {
    LineSplitter lines;
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      lines.feed(std::string_view{text}.substr(at, piece));
      while (const auto line = lines.next()) out.emplace_back(*line);
    }
    EXPECT_EQ(out, (std::vector<std::string>{"one", "", "two two", "three" + std::string(3000, 'x')}));
    EXPECT_EQ(lines.unfinished(), 4u);
  }
}

// Were each piece to cost what has come before it, this would take half a minute.
TEST(LineSplitter, ABigObjectInSmallPiecesCostsTimeInProportion) {
  std::string object = thing_json(Meta{"ns", "big", "u-big", "7"}, 1);
  object.pop_back();
  object += R"(,"text":")" + std::string(16 << 20, 'x') + R"("})";
  const std::string line = event_line("ADDED", object);
  const auto start = std::chrono::steady_clock::now();
  LineSplitter lines;
  int found = 0;
  for (std::size_t at = 0; at < line.size(); at += 256) {
    lines.feed(std::string_view{line}.substr(at, 256));
    while (const auto l = lines.next()) {
      const auto event = parse_watch_event(*l);
      ASSERT_TRUE(event);
      EXPECT_TRUE(event->object == object);
      EXPECT_EQ(event->version, "7");
      ++found;
    }
  }
  EXPECT_EQ(found, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(WatchEvent, OddLines) {
  const auto parse = [](std::string text) {
    static LineSplitter lines;
    lines.clear();
    lines.feed(text + "\n");
    return parse_watch_event(*lines.next());
  };
  // Fields may come in any order, and names may be escaped.
  auto event = parse(
      R"({"object":{"metadata":{"labels":{"resourceVersion":"x"},"resourceVersion":"5"}},"type":"ADDED"})");
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(event->version, "5");
  event = parse(
      R"({"type":"ERROR","object":{"kind":"Status","code":429,"reason":"TooManyRequests","message":"slow down"}})");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->error->code, ErrorCode::kTooManyRequests);
  for (const char* bad :
       {"", "{", "null", "7", R"({"type":"ADDED"})", R"({"type":5,"object":{}})",
        R"({"type":"ADDED","object":{}})", R"({"type":"ADDED","object":{"metadata":{"name":"x"}}})",
        R"({"type":"ADDED","object":{"metadata":)", R"({"type":"BOOKMARK","object":{"metadata":{}}})",
        "\xff\xfe"}) {
    EXPECT_FALSE(parse(bad)) << bad;
  }
}

}  // namespace
}  // namespace muster::client
