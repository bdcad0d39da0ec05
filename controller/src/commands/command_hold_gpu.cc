#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include "commands/commands.h"
#include "muster/reconcilers/pods/gpu_share.h"

namespace muster::controller {
namespace {

// The exit status; what it says is the pod's last word, also where it is a complaint.
int report(const std::string& file) {
  const std::string variable(reconcilers::kVisibleDevices);
  const char* const devices = std::getenv(variable.c_str());
  const bool is_told = devices != nullptr && *devices != '\0';
  std::ofstream out(file);
  if (is_told) {
    out << devices;
  } else {
    out << "the device plugin does not tell which GPU it gives out: no " << variable
        << " in the environment; let it pass devices as environment variables";
  }
  out.close();
  return is_told && out ? 0 : 1;
}

}  // namespace

int run_hold_gpu(const HoldGpuOptions& options) {
  if (options.report) return report(options.file);
  // A container's first process is not ended by a signal that it does not wait for.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  int signal = 0;
  return sigwait(&ends, &signal) == 0 ? 0 : 1;
}

}  // namespace muster::controller
