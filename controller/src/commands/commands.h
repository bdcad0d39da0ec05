// The subcommands; each returns the process's exit status.
#pragma once

#include <string>
#include <vector>

#include "commands/options.h"

namespace muster::controller {

int run_controller(const Options& options);
// What a holder pod runs. `report`: writes the device that the kubelet gave it to the file and ends;
// else waits for SIGTERM.
struct HoldGpuOptions {
  bool report = false;
  std::string file = "/dev/termination-log";
};
int run_hold_gpu(const HoldGpuOptions& options);
int run_validate(const std::vector<std::string>& files);

struct SimulateOptions {
  std::vector<std::string> files;
  std::string until;   // a duration; empty: until nothing happens any more
  std::string format;  // table, json, yaml or events; empty: table, or none with `check`
  bool check = false;
};
int run_simulate(const SimulateOptions& options);

}  // namespace muster::controller
