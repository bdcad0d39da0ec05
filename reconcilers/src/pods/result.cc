#include "muster/reconcilers/pods/result.h"

#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/json_reader.h"

namespace muster::reconcilers {
namespace {

constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxResult = 1024;

}  // namespace

std::string parse_result(std::string_view text) {
  if (text.size() > kMaxText) return {};
  while (!text.empty()) {
    const std::size_t at = text.find_last_of('\n');
    const std::string_view line = at == std::string_view::npos ? text : text.substr(at + 1);
    text = at == std::string_view::npos ? std::string_view() : text.substr(0, at);
    if (line.find("\"result\"") == std::string_view::npos) continue;
    const auto whole = crds::Json::parse(line, nullptr, false);
    if (!whole.is_object()) continue;
    const crds::Json* result = find(&whole, "result");
    if (result == nullptr || result->is_null()) continue;
    std::string printed = result->dump(-1, ' ', false, crds::Json::error_handler_t::replace);
    if (printed.size() <= kMaxResult) return printed;
  }
  return {};
}

std::string result_of(const client::Pod& pod) {
  for (const auto& end : pod.ended) {
    if (auto result = parse_result(end.message); !result.empty()) return result;
  }
  return {};
}

}  // namespace muster::reconcilers
