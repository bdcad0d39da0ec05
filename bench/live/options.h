// What every benchmark of the whole can be told.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>

#include "live/cluster.h"

namespace muster::bench {

struct LiveOptions {
  ClusterOptions cluster;
  std::filesystem::path keep_logs;
  bool json = false;
};

// Adds all but those of the load. The program to measure is by default the one beside this program.
void add_options(CLI::App& app, LiveOptions& options);

// False, with the reason on standard error, if the nodes have fewer GPUs. `option`: says how many pods there
// are.
bool have_gpus_for(int pods, const char* option, const ClusterOptions& options);
// False, with the reason on standard error, if there is no program to measure.
bool have_program(const ClusterOptions& options);

}  // namespace muster::bench
