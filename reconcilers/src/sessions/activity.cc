#include "muster/reconcilers/sessions/activity.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/reconcilers/common/json_reader.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

std::expected<crds::Time, std::string> time_in(const Json& object) {
  const std::string at = text(find(&object, "last_activity"));
  if (at.empty()) return std::unexpected("its answer has no text last_activity");
  auto time = crds::parse_time(at);
  if (!time) return std::unexpected("its last_activity is no time: " + time.error());
  return *time;
}

}  // namespace

std::expected<crds::Time, std::string> last_activity_of(std::string_view body) {
  const Json answer = Json::parse(body, nullptr, false);
  if (answer.is_object()) return time_in(answer);
  if (!answer.is_array() || answer.empty())
    return std::unexpected("its answer is neither a JSON object nor a list of some");
  std::optional<crds::Time> newest;
  for (const Json& one : answer) {
    const auto at = time_in(one);
    if (!at) return at;
    newest = newest ? std::max(*newest, *at) : *at;
  }
  return *newest;
}

Idleness both(Idleness gpus, Idleness use) {
  Idleness all{.is_known = gpus.is_known && use.is_known, .idle = std::min(gpus.idle, use.idle)};
  // Either of them says that it is used: then it does not matter what the other would say.
  const bool is_used =
      (gpus.is_known && gpus.idle == crds::Duration{}) || (use.is_known && use.idle == crds::Duration{});
  if (is_used) all = {.is_known = true};
  if (!all.is_known) all.problem = gpus.is_known || gpus.problem.empty() ? use.problem : gpus.problem;
  all.of_gpus = all.of_use = true;
  return all;
}

}  // namespace muster::reconcilers
