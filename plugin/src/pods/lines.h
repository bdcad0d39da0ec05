// The lines of several logs as one text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::plugin {

// Cuts a stream of pieces into lines.
class LineCutter {
 public:
  // The lines that are complete now, without their ends.
  std::vector<std::string> take(std::string_view piece);
  // What is left behind the last line end; "": nothing.
  std::string rest();

 private:
  std::string open_;
};

struct LogLine {
  std::int32_t rank = 0;
  std::string time;  // RFC 3339 with nanoseconds, as a kubelet writes it
  std::string text;
};
// "2026-01-31T10:00:00.123456789Z words" as a kubelet gives it with timestamps=true.
LogLine split_time(std::int32_t rank, const std::string& line);

// In the order of their times; those of one time in the order of their ranks.
void in_time_order(std::vector<LogLine>& lines);

}  // namespace muster::plugin
