#include "process/logging.h"

#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "muster/client/object.h"
#include "muster/reconcilers/common/log.h"

namespace muster::controller {
namespace {

// {message, key, value, key, value, …}
std::vector<std::string_view> split_payload(std::string_view payload) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = payload.find(reconcilers::kLogSeparator);
    parts.push_back(payload.substr(0, at));
    if (at == std::string_view::npos) return parts;
    payload.remove_prefix(at + 1);
  }
}

std::string time_text(const spdlog::details::log_msg& msg) {
  return client::format_micro_time(std::chrono::time_point_cast<std::chrono::microseconds>(msg.time));
}

class Formatter final : public spdlog::formatter {
 public:
  explicit Formatter(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& msg, spdlog::memory_buf_t& dest) override {
    const auto parts = split_payload({msg.payload.data(), msg.payload.size()});
    const auto level = spdlog::level::to_string_view(msg.level);
    std::string line;
    if (format_ == LogFormat::kJson) {
      nlohmann::ordered_json object;
      object["time"] = time_text(msg);
      object["level"] = std::string(level.data(), level.size());
      object["msg"] = parts[0];
      for (std::size_t i = 1; i + 1 < parts.size(); i += 2) object[std::string(parts[i])] = parts[i + 1];
      line = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    } else {
      // Words of the API server may hold anything: a line stays a line.
      const auto append = [&line](std::string_view text) {
        for (const char c : text) line += (c == '\n' || c == '\r') ? ' ' : c;
      };
      line = time_text(msg) + " " + std::string(level.data(), level.size()) + " ";
      append(parts[0]);
      for (std::size_t i = 1; i + 1 < parts.size(); i += 2) {
        line += "  " + std::string(parts[i]) + "=";
        append(parts[i + 1]);
      }
    }
    line += '\n';
    dest.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<Formatter>(format_); }

 private:
  LogFormat format_;
};

}  // namespace

void set_up_logging(LogFormat format, const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>("muster", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<Formatter>(format));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace muster::controller
