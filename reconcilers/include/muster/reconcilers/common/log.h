// Log lines with keys: log_info("caches are synced", {{"pods", "120"}}). The message is for people. The
// fields have what lines are grouped and searched by, and as far as possible all that varies. The text of an
// event is logged as users are told it, with its reason in the field "reason". No secret is ever passed here.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

namespace muster::reconcilers {

using LogField = std::pair<std::string_view, std::string_view>;

// Separates message, keys and values in the payload handed to spdlog; the process's formatter
// (controller/logging) splits there, any other sink shows a harmless blank.
inline constexpr char kLogSeparator = '\x1f';

void log_debug(std::string_view message, std::initializer_list<LogField> fields);
void log_info(std::string_view message, std::initializer_list<LogField> fields);
void log_warn(std::string_view message, std::initializer_list<LogField> fields);
void log_error(std::string_view message, std::initializer_list<LogField> fields);

}  // namespace muster::reconcilers
