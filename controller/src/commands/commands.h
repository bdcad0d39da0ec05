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
// Whether a process leads: it prints which. `helm test` runs it.
struct LeaderOptions {
  std::string kubeconfig;  // empty: as of the controller
  std::string ns = "muster-system";
  std::string lease = "muster-controller";
  int timeout = 60;  // seconds
};
int run_leader(const LeaderOptions& options);
// `muster ui`: the page in a cluster (docs/page.md).
struct UiOptions {
  std::string kubeconfig, context;
  std::string address = "127.0.0.1:8443";
  std::string certificate, key;  // PEM files
  LogFormat log_format = LogFormat::kText;
  std::string log_level = "info";
};
int run_ui(const UiOptions& options);

// `muster activator`: holds requests for services that have no replica.
struct ActivatorOptions {
  std::string kubeconfig, context;
  std::string address = "::", admin_address = ":8080";
  int max_requests = 1000;  // held for one service
  int max_mebibytes = 64;   // held in all
  int max_per_replica = 100;
  int hold_seconds = 600;
  int drain_seconds = 60;
  LogFormat log_format = LogFormat::kText;
  std::string log_level = "info";
};
int run_activator(const ActivatorOptions& options);

int run_validate(const std::vector<std::string>& files);

struct SimulateOptions {
  std::vector<std::string> files;
  std::string until;   // a duration; empty: until nothing happens any more
  std::string format;  // table, json, yaml or events; empty: table, or none with `check`
  bool check = false;
};
int run_simulate(const SimulateOptions& options);

}  // namespace muster::controller
