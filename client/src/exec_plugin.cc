#include "exec_plugin.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

extern char** environ;

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

std::vector<std::string> environment_of(const ExecPlugin& plugin) {
  auto added = plugin.env;
  added.emplace_back("KUBERNETES_EXEC_INFO", exec_info(plugin));
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    bool replaced = false;
    for (const auto& [name, value] : added) replaced |= line.starts_with(name + "=");
    if (!replaced) out.emplace_back(line);
  }
  for (const auto& [name, value] : added) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// The child's pid, its standard output at the other end of `out`. Its standard error is ours, as with
// kubectl.
std::expected<pid_t, int> start(const ExecPlugin& plugin, Fd& out) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(errno);
  out.reset(ends[0]);
  const Fd write_end(ends[1]);
  std::vector<std::string> arguments{plugin.command};
  arguments.insert(arguments.end(), plugin.args.begin(), plugin.args.end());
  std::vector<std::string> environment = environment_of(plugin);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  pid_t pid = -1;
  const int failed = ::posix_spawnp(&pid, plugin.command.c_str(), &actions, nullptr,
                                    pointers(arguments).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return std::unexpected(failed);
  return pid;
}

}  // namespace

Result<Secret> run_plugin(const ExecPlugin& plugin, const std::atomic<bool>& stop) {
  Fd out;
  const auto pid = start(plugin, out);
  if (!pid) {
    const std::string hint = plugin.install_hint.empty() ? "" : "; " + plugin.install_hint;
    return std::unexpected(
        plugin_error(plugin, std::string{"cannot be run: "} + std::strerror(pid.error()) + hint));
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
    WallTime at;
    if (!parse_time(expires, at))
      return wrong("status.expirationTimestamp \"" + expires + "\", must be an RFC 3339 time");
    out.expires = at;
  }
  return out;
}

}  // namespace muster::client
