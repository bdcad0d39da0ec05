#include "muster/reconcilers/common/log.h"

#include <spdlog/spdlog.h>

#include <string>

namespace muster::reconcilers {
namespace {

void log(spdlog::level::level_enum level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!spdlog::should_log(level)) return;
  std::string line(message);
  for (const auto& [key, value] : fields) {
    line += kLogSeparator;
    line += key;
    line += kLogSeparator;
    for (const char c : value) line += c == kLogSeparator ? ' ' : c;  // it may come from anywhere
  }
  spdlog::log(level, "{}", line);
}

}  // namespace

void log_debug(std::string_view message, std::initializer_list<LogField> fields) {
  log(spdlog::level::debug, message, fields);
}
void log_info(std::string_view message, std::initializer_list<LogField> fields) {
  log(spdlog::level::info, message, fields);
}
void log_warn(std::string_view message, std::initializer_list<LogField> fields) {
  log(spdlog::level::warn, message, fields);
}
void log_error(std::string_view message, std::initializer_list<LogField> fields) {
  log(spdlog::level::err, message, fields);
}

}  // namespace muster::reconcilers
