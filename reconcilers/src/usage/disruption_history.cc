#include "muster/reconcilers/usage/disruption_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace muster::reconcilers {
namespace {

using crds::Json;

std::string text(const Json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string disruptions_name(std::size_t file) {
  return fmt::format("muster-disruptions-{}", file);
}

std::string line_of(const PastDisruption& one) {
  Json line = {{"at", crds::to_string(one.what.at)},
               {"job", one.job},
               {"reason", one.what.reason},
               {"message", one.what.message},
               {"gave", crds::to_string(one.what.gave)},
               {"cost", one.what.cost},
               {"owed", one.what.owed}};
  if (!one.user.empty()) line["user"] = one.user;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<PastDisruption> parse_disruption(std::string_view line) {
  const auto object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto at = crds::parse_time(text(object, "at"));
  const auto gave = crds::parse_gpu(text(object, "gave"));
  PastDisruption one{text(object, "job"), text(object, "user"), {}};
  if (!at || !gave || one.job.empty()) return std::nullopt;
  one.what = {.at = *at, .reason = text(object, "reason"), .message = text(object, "message"), .gave = *gave};
  if (const auto cost = object.find("cost"); cost != object.end() && cost->is_number_integer())
    one.what.cost = std::max<std::int64_t>(cost->get<std::int64_t>(), 0);
  if (const auto owed = object.find("owed"); owed != object.end() && owed->is_boolean())
    one.what.owed = owed->get<bool>();
  return one;
}

std::vector<PastDisruption> parse_disruptions(std::string_view text) {
  std::vector<PastDisruption> all;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (auto one = parse_disruption(text.substr(0, end))) all.push_back(std::move(*one));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return all;
}

void DisruptionHistory::load(std::size_t file, std::string_view text) {
  for (auto& one : parse_disruptions(text)) {
    if (!lines_.contains(key_of(one))) put(std::move(one), file);
  }
  // New lines go on where the latest one is.
  if (!lines_.empty()) current_ = lines_.rbegin()->second.file;
}

void DisruptionHistory::put(PastDisruption one, std::size_t file) {
  const std::size_t bytes = line_of(one).size() + 1;
  files_[file].lines += 1;
  files_[file].bytes += bytes;
  Key key = key_of(one);
  lines_[std::move(key)] = {std::move(one), file, bytes};
}

void DisruptionHistory::begin_next_file() {
  current_ = (current_ + 1) % kFiles;
  std::erase_if(lines_, [&](const auto& line) { return line.second.file == current_; });
  files_[current_] = {};
  changed_.insert(current_);
}

void DisruptionHistory::note(PastDisruption one) {
  const auto known = lines_.find(key_of(one));
  if (known != lines_.end()) {
    auto& line = known->second;
    if (line.one == one) return;
    files_[line.file].bytes -= line.bytes;
    line.bytes = line_of(one).size() + 1;
    files_[line.file].bytes += line.bytes;
    line.one = std::move(one);
    changed_.insert(line.file);
    return;
  }
  const bool all_in_use = std::ranges::all_of(files_, [](const File& file) { return file.lines > 0; });
  if (all_in_use && key_of(one) < lines_.begin()->first) return;
  const File& file = files_[current_];
  if (file.lines >= kMaxLines || file.bytes + line_of(one).size() + 1 > kMaxBytes) begin_next_file();
  changed_.insert(current_);
  put(std::move(one), current_);
}

std::string DisruptionHistory::text_of(std::size_t file) const {
  std::string text;
  for (const auto& [key, line] : lines_) {
    if (line.file == file) text += line_of(line.one) + '\n';
  }
  return text;
}

}  // namespace muster::reconcilers
