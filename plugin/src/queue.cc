#include "queue.h"

#include <algorithm>
#include <tuple>

#include "muster/common/table.h"
#include "text.h"

namespace muster::plugin {
namespace {

struct Line {
  std::string pool;
  std::int32_t position = 0;
  std::vector<std::string> cells;

  auto order() const { return std::tuple(position == 0, pool, position, cells); }
};

std::string pool_of(const std::vector<std::string>& stated, const std::vector<std::string>& taken) {
  return !stated.empty() ? stated.front() : !taken.empty() ? taken.front() : "(default)";
}

Line line_of(const crds::ObjectMeta& meta, std::string pool, const crds::Waiting& w, crds::Time now) {
  const auto number = [](std::int32_t n) { return n == 0 ? std::string() : std::to_string(n); };
  const std::string eta =
      w.estimated_start ? (*w.estimated_start <= now ? "now" : for_people(*w.estimated_start - now)) : "";
  const std::string age = meta.creation_timestamp ? for_people(now - *meta.creation_timestamp) : "";
  Line line{pool, w.position, {}};
  line.cells = {std::move(pool),
                number(w.position),
                number(w.project_position),
                meta.ns,
                meta.name,
                w.reason,
                eta,
                age};
  return line;
}

}  // namespace

std::string queue(const std::vector<crds::TrainingJob>& jobs, crds::Time now) {
  std::vector<Line> lines;
  for (const auto& j : jobs) {
    if (j.status.phase == crds::Phase::kQueued)
      lines.push_back(
          line_of(j.metadata, pool_of(j.spec.pools, j.status.effective.pools), j.status.queue, now));
  }
  if (lines.empty()) return {};
  std::ranges::sort(lines, {}, &Line::order);
  std::vector<std::vector<std::string>> rows = {
      {"POOL", "POSITION", "IN PROJECT", "NAMESPACE", "NAME", "REASON", "ETA", "AGE"}};
  for (auto& l : lines) rows.push_back(std::move(l.cells));
  return table(rows);
}

}  // namespace muster::plugin
