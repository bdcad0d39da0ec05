#include "report.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace muster::bench {
namespace {

const auto kStarted = std::chrono::steady_clock::now();

// Four significant digits; counts and other large numbers whole.
std::string number(double value) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  const double size = std::abs(value);
  const bool whole = value == std::floor(value) || size >= 1000;
  const int decimals = whole ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

// In characters, not bytes, as far as the text is UTF-8 without combining marks.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t to, bool right) {
  const std::string space(to > width(text) ? to - width(text) : 0, ' ');
  return right ? space + text : text + space;
}

}  // namespace

std::string Goal::text() const {
  char text[64];
  std::snprintf(text, sizeof text, "%s %g", sense == Sense::kAtMost ? "<=" : ">=", limit);
  return text;
}

void Report::add(std::string name, double value, std::string unit, std::optional<Goal> goal) {
  rows_.push_back({std::move(name), value, std::move(unit), goal});
}

std::string Report::table() const {
  std::vector<std::vector<std::string>> lines = {{"name", "value", "unit", "goal", ""}};
  for (const Row& row : rows_) {
    const std::string verdict = !row.goal ? "" : row.goal->met(row.value) ? "ok" : "missed";
    lines.push_back({row.name, number(row.value), row.unit, row.goal ? row.goal->text() : "", verdict});
  }
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) text += padded(line[i], widths[i], i == 1) + "  ";
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

std::string Report::json() const {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const Row& row : rows_) {
    Json one = {{"name", row.name}, {"value", nullptr}, {"unit", row.unit}, {"goal", nullptr}};
    if (std::isfinite(row.value)) one["value"] = std::round(row.value * 1000) / 1000;
    if (row.goal) one["goal"] = row.goal->text();
    rows.push_back(std::move(one));
  }
  return Json{{"bench", bench_}, {"rows", std::move(rows)}}.dump();
}

void Report::print(bool as_json) const {
  std::printf("%s%s", (as_json ? json() : table()).c_str(), as_json ? "\n" : "");
  std::fflush(stdout);
}

double percentile(std::vector<double> sample, double percent) {
  if (sample.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(sample);
  const double rank = std::ceil(percent / 100 * static_cast<double>(sample.size()));
  const auto index = static_cast<std::size_t>(std::max(1.0, rank)) - 1;
  return sample[std::min(index, sample.size() - 1)];
}

void log_to_standard_error() {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
}

void progress(std::string_view text) {
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - kStarted;
  std::fprintf(stderr, "[%7.2f s] %.*s\n", since.count(), static_cast<int>(text.size()), text.data());
}

}  // namespace muster::bench
