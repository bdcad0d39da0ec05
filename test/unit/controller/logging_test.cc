// What stands on standard error: one line a message, in JSON one object a line.
#include "process/logging.h"

#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/client/object.h"
#include "muster/reconcilers/common/log.h"

namespace muster::controller {
namespace {

using nlohmann::json;
using reconcilers::log_debug;
using reconcilers::log_error;
using reconcilers::log_info;
using reconcilers::log_warn;

class Logging : public testing::Test {
 protected:
  Logging() : before_(spdlog::default_logger()) {}
  ~Logging() override { spdlog::set_default_logger(before_); }

  template <class F>
  static std::vector<std::string> lines_of(LogFormat format, const std::string& level, F write) {
    set_up_logging(format, level);
    testing::internal::CaptureStderr();
    write();
    spdlog::default_logger()->flush();
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(text.empty() || text.back() == '\n') << text;
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      lines.push_back(text.substr(at, end - at));
      at = end == std::string::npos ? text.size() : end + 1;
    }
    return lines;
  }
  template <class F>
  static json only_line(F write) {
    const auto lines = lines_of(LogFormat::kJson, "info", write);
    EXPECT_EQ(lines.size(), 1u);
    const json object = lines.empty() ? json() : json::parse(lines[0], nullptr, false);
    EXPECT_TRUE(object.is_object()) << (lines.empty() ? "" : lines[0]);
    return object;
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(Logging, JsonHasTimeLevelMessageAndTheFields) {
  const json line = only_line([] { log_info("admitted", {{"job", "team/train"}, {"attempt", "2"}}); });
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["msg"], "admitted");
  EXPECT_EQ(line["job"], "team/train");
  EXPECT_EQ(line["attempt"], "2");
  EXPECT_EQ(line.size(), 5u);
  client::WallTime time;
  ASSERT_TRUE(client::parse_time(line["time"].get<std::string>(), time)) << line;
  const auto age = std::chrono::system_clock::now() - time;
  EXPECT_LT(age, std::chrono::minutes{5});
  EXPECT_GT(age, -std::chrono::minutes{5});
}

TEST_F(Logging, ValuesThatHoldAnythingStayValidJsonOnOneLine) {
  for (const std::string& value :
       {std::string("say \"no\""), std::string("a\nb\r\nc\ttab\\"), std::string("caf\xc3\xa9 \xe2\x82\xac"),
        std::string("{\"a\":1}"), std::string("\x01\x02\x7f"), std::string("nul\0inside", 10),
        std::string("{} %s {0}"), std::string()}) {
    const json line = only_line([&] { log_warn("strange", {{"value", value}, {"after", "x"}}); });
    EXPECT_EQ(line["value"], value);
    EXPECT_EQ(line["after"], "x");
    EXPECT_EQ(line["level"], "warning");
  }
  const json line =
      only_line([&] { log_error("broken", {{"value", "\xff\xfe half \xe2\x82"}, {"after", "x"}}); });
  EXPECT_THAT(line["value"].get<std::string>(), testing::HasSubstr(" half "));
  EXPECT_EQ(line["after"], "x");
}

// The separator of fields in a value must not shift what follows.
TEST_F(Logging, TheSeparatorInAValueIsHarmless) {
  const json line = only_line([] {
    log_info("odd", {{"value",
                      "a\x1f"
                      "b"},
                     {"job", "team/train"}});
  });
  EXPECT_EQ(line.value("job", ""), "team/train");
  EXPECT_EQ(line.size(), 5u) << line;
}

TEST_F(Logging, TextStaysOneLine) {
  const auto lines = lines_of(LogFormat::kText, "info", [] {
    log_info("admitted", {{"job", "team/train"}, {"why", "one\ntwo\r\nthree"}});
    log_info("two\nlines", {});
  });
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], testing::MatchesRegex(".*Z info admitted  job=team/train  why=one two  three"));
  EXPECT_THAT(lines[1], testing::HasSubstr("two lines"));
}

TEST_F(Logging, TheLevelIsTheLeastThatIsWritten) {
  const auto all = [] {
    log_debug("d", {});
    log_info("i", {});
    log_warn("w", {});
    log_error("e", {});
  };
  EXPECT_EQ(lines_of(LogFormat::kText, "debug", all).size(), 4u);
  EXPECT_EQ(lines_of(LogFormat::kText, "info", all).size(), 3u);
  EXPECT_EQ(lines_of(LogFormat::kJson, "warning", all).size(), 2u);
  EXPECT_EQ(lines_of(LogFormat::kJson, "error", all).size(), 1u);
}

}  // namespace
}  // namespace muster::controller
