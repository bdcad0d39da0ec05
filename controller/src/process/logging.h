// The process's log: text for people, JSON for machines, on standard error.
#pragma once

#include <string>

namespace muster::controller {

enum class LogFormat { kText, kJson };

// `level`: trace, debug, info, warn, error. Replaces spdlog's default logger.
void set_up_logging(LogFormat format, const std::string& level);

}  // namespace muster::controller
