#include "pods/lines.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace muster::plugin {
namespace {

// A kubelet leaves out zeros at the end of a fraction: "05Z", "05.1Z". Without the Z a shorter fraction
// comes first, as it should.
std::string_view sortable(const LogLine& line) {
  std::string_view time = line.time;
  if (time.ends_with('Z')) time.remove_suffix(1);
  return time;
}

}  // namespace

std::vector<std::string> LineCutter::take(std::string_view piece) {
  std::vector<std::string> lines;
  for (std::size_t end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
    lines.push_back(std::exchange(open_, {}) + std::string(piece.substr(0, end)));
    piece.remove_prefix(end + 1);
  }
  open_ += piece;
  return lines;
}

std::string LineCutter::rest() {
  return std::exchange(open_, {});
}

LogLine split_time(std::int32_t rank, const std::string& line) {
  const std::size_t space = line.find(' ');
  if (space == std::string::npos) return {rank, line, ""};
  return {rank, line.substr(0, space), line.substr(space + 1)};
}

void in_time_order(std::vector<LogLine>& lines) {
  std::ranges::stable_sort(lines, {}, [](const LogLine& l) { return std::tuple(sortable(l), l.rank); });
}

}  // namespace muster::plugin
