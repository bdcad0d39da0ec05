#include "live/options.h"

#include "report.h"

namespace muster::bench {

void add_options(CLI::App& app, LiveOptions& options) {
  options.cluster.muster = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "muster";
  app.add_option("--nodes", options.cluster.nodes, "How many nodes of 8 GPUs there are")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--muster", options.cluster.muster, "The program to measure; default: beside this one");
  app.add_option("--muster-arg", options.cluster.muster_arguments,
                 "Added to `muster controller`; may be repeated, as --muster-arg=--workers=8");
  app.add_option("--controller-manager-arg", options.cluster.controller_manager_arguments,
                 "Added to the controller manager's arguments, to see what its parts cost: "
                 "--controller-manager-arg=--controllers=-endpoints-controller");
  app.add_option("--keep-logs", options.keep_logs, "Directory to which the logs of all processes are copied");
  app.add_flag("--json", options.json, "Print one JSON object instead of a table");
}

bool have_gpus_for(int pods, const char* option, const ClusterOptions& options) {
  const int gpus = options.nodes * options.gpus_per_node;
  if (pods > gpus)
    progress(std::string(option) + ": " + std::to_string(pods) + " pods need as many GPUs, --nodes gives " +
             std::to_string(gpus));
  return pods <= gpus;
}

bool have_program(const ClusterOptions& options) {
  const bool is_there = std::filesystem::exists(options.muster);
  if (!is_there) progress("--muster: there is no " + options.muster.string());
  return is_there;
}

}  // namespace muster::bench
