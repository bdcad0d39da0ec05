#include "config/exec_plugin.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "muster/common/process.h"
#include "muster/common/time.h"

namespace muster::client {

namespace {

using nlohmann::json;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr auto kMaxRunTime = std::chrono::seconds{60};
constexpr auto kStopCheck = std::chrono::milliseconds{50};
constexpr std::size_t kMaxOutput = 1 << 20;

Error plugin_error(const ExecPlugin& plugin, const std::string& what) {
  Error error;
  error.code = ErrorCode::kConfig;
  error.message = plugin.field + ": " + plugin.command + ": " + what;
  return error;
}

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// The child, killed and reaped at the latest when this goes.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  // The wait status once it has ended.
  std::optional<int> ended() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

std::string exec_info(const ExecPlugin& plugin) {
  json info{
      {"apiVersion", plugin.api_version}, {"kind", "ExecCredential"}, {"spec", {{"interactive", false}}}};
  if (plugin.provide_cluster_info) info["spec"]["cluster"] = json::parse(plugin.cluster_info, nullptr, false);
  return info.dump();
}

// The child's pid, its standard output at the other end of `out`. Its standard error is ours, as with
// kubectl.
std::expected<pid_t, std::error_code> start(const ExecPlugin& plugin, Fd& out) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(std::error_code(errno, std::system_category()));
  out.reset(ends[0]);
  const Fd write_end(ends[1]);
  const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  common::ProcessStart program;
  program.arguments = {plugin.command};
  program.arguments.insert(program.arguments.end(), plugin.args.begin(), plugin.args.end());
  program.environment = plugin.env;
  program.environment.emplace_back("KUBERNETES_EXEC_INFO", exec_info(plugin));
  program.in = nothing.get();
  program.out = write_end.get();
  return common::start_process(program);
}

}  // namespace

Result<Secret> run_plugin(const ExecPlugin& plugin, const std::atomic<bool>& stop) {
  Fd out;
  const auto pid = start(plugin, out);
  if (!pid) {
    const std::string hint = plugin.install_hint.empty() ? "" : "; " + plugin.install_hint;
    return std::unexpected(
        plugin_error(plugin, std::string{"cannot be run: "} + pid.error().message() + hint));
  }
  Child child(*pid);
  const SteadyTime deadline = std::chrono::steady_clock::now() + kMaxRunTime;
  std::string output;
  bool open = true;
  while (true) {
    if (stop) return std::unexpected(plugin_error(plugin, "stopped"));
    if (std::chrono::steady_clock::now() >= deadline) {
      return std::unexpected(plugin_error(plugin, "did not end within 60 s"));
    }
    if (!open) {
      if (const auto status = child.ended()) {
        if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return Secret(std::move(output));
        return std::unexpected(
            plugin_error(plugin, WIFEXITED(*status) ? "exit status " + std::to_string(WEXITSTATUS(*status))
                                                    : "was killed by a signal"));
      }
      ::usleep(2000);
      continue;
    }
    pollfd wait{out.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(kStopCheck.count())) <= 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(out.get(), buffer.data(), buffer.size());
    if (count <= 0) {
      open = false;
    } else if (output.size() + static_cast<std::size_t>(count) > kMaxOutput) {
      return std::unexpected(plugin_error(plugin, "printed more than 1 MiB"));
    } else {
      output.append(buffer.data(), static_cast<std::size_t>(count));
    }
  }
}

Result<ExecCredential> parse_exec_credential(std::string_view text, const ExecPlugin& plugin) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  auto wrong = [&](const std::string& what) {
    return std::unexpected(plugin_error(plugin, "printed " + what));
  };
  auto string_at = [](const json& object, const char* key) {
    auto it = object.find(key);
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string{};
  };
  if (!root.is_object() || string_at(root, "kind") != "ExecCredential")
    return wrong("no ExecCredential object");
  if (string_at(root, "apiVersion") != plugin.api_version) {
    return wrong("apiVersion \"" + string_at(root, "apiVersion") + "\", must be " + plugin.api_version);
  }
  auto status = root.find("status");
  if (status == root.end() || !status->is_object()) return wrong("no status");
  ExecCredential out;
  out.token = Secret(string_at(*status, "token"));
  out.certificate_pem = Secret(string_at(*status, "clientCertificateData"));
  out.key_pem = Secret(string_at(*status, "clientKeyData"));
  if (out.certificate_pem.empty() != out.key_pem.empty()) {
    return wrong("status.clientCertificateData and status.clientKeyData not together");
  }
  if (out.token.empty() && out.certificate_pem.empty())
    return wrong("neither status.token nor status.clientCertificateData");
  if (const std::string expires = string_at(*status, "expirationTimestamp"); !expires.empty()) {
    const auto at = common::parse_time(expires);
    if (!at) return wrong("status.expirationTimestamp: " + at.error());
    out.expires = *at;
  }
  return out;
}

}  // namespace muster::client
