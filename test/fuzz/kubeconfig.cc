#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "muster/client/config.h"
#include "targets.h"

namespace muster::fuzz {
namespace {

// Text as a file that is never on a disk.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view text) : fd_(memfd_create("kubeconfig", MFD_CLOEXEC)) {
    require(fd_ >= 0 && write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
            "a file in memory can be written");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace

void kubeconfig(std::string_view input) {
  spdlog::set_level(spdlog::level::off);  // it warns of what is not encrypted
  // Files that it names are read where an exec plugin wants the CA's text: not here, it could be any file.
  if (input.find("provideClusterInfo") != input.npos && input.find("certificate-authority:") != input.npos)
    return;
  const MemoryFile file(input);
  client::KubeconfigOptions options;
  options.path = file.path();
  options.getenv = [](const std::string&) { return std::nullopt; };
  const auto config = client::load_kubeconfig(options);
  if (!config) {
    require(config.error().code == client::ErrorCode::kConfig, "what is no kubeconfig is kConfig");
    require(!config.error().message.empty(), "an error says what is wrong");
    return;
  }
  require(config->server.starts_with("http"), "a server is a URL");
  require(config->client_certificate.configured() == config->client_key.configured(),
          "a client certificate comes with its key");
  require(!config->exec || !config->exec->command.empty(), "a plugin has a command");
}

}  // namespace muster::fuzz
