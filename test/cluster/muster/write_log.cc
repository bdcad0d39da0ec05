#include "write_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace muster::test {

using nlohmann::json;

WriteLog::WriteLog(const std::filesystem::path& audit_log, std::string user)
    : in_(audit_log), user_(std::move(user)) {
  in_.seekg(0, std::ios::end);
}

void WriteLog::read() {
  std::string line;
  while (true) {
    const auto at = in_.tellg();
    if (!std::getline(in_, line) || in_.eof()) {  // nothing, or half a line
      in_.clear();
      in_.seekg(at);
      return;
    }
    const json entry = json::parse(line, nullptr, false);
    if (!entry.is_object() || entry.value("stage", "") != "ResponseComplete") continue;
    const std::string user = entry.value("/user/username"_json_pointer, std::string());
    if (!user_.empty() && user != user_) continue;
    const std::string verb = entry.value("verb", "");
    if (verb != "create" && verb != "patch" && verb != "delete" && verb != "update" &&
        verb != "deletecollection")
      continue;
    const std::string resource = entry.value("/objectRef/resource"_json_pointer, std::string());
    const std::string part = entry.value("/objectRef/subresource"_json_pointer, std::string());
    // Reviews store nothing, and a token is no object.
    if (resource == "leases" || resource.ends_with("reviews") || part == "token") continue;
    std::string kind =
        (user_.empty() ? user + ": " : "") + verb + " " + resource + (part.empty() ? "" : "/" + part);
    const int code = entry.value("/responseStatus/code"_json_pointer, 0);
    if (code >= 300) kind += " refused with " + std::to_string(code);
    ++kinds_[kind];
    ++all_;
    events_ += resource == "events" ? 1 : 0;
  }
}

const std::map<std::string, int>& WriteLog::kinds() {
  read();
  return kinds_;
}
int WriteLog::all() {
  read();
  return all_;
}
int WriteLog::but_for_events() {
  read();
  return all_ - events_;
}
int WriteLog::of(const std::string& kind) {
  read();
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? 0 : found->second;
}

std::string tell(const std::map<std::string, int>& later, const std::map<std::string, int>& earlier) {
  std::vector<std::pair<int, std::string>> lines;
  for (const auto& [kind, n] : later) {
    const auto before = earlier.find(kind);
    const int more = n - (before == earlier.end() ? 0 : before->second);
    if (more > 0) lines.emplace_back(more, kind);
  }
  std::ranges::sort(lines, std::greater<>());
  std::string text;
  for (const auto& [n, kind] : lines) text += "  " + kind + " " + std::to_string(n) + "\n";
  return text;
}

}  // namespace muster::test
