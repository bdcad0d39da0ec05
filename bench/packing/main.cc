// bench_packing: how much of a cluster's GPUs is given out before nothing fits any more.
// See docs/benchmarks.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "packing/bound.h"
#include "packing/replay.h"
#include "packing/trace.h"
#include "report.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string nodes, pods;
  double load = 1.3;
  int seeds = 10;
  bool json = false;
};

// What Fragmentation Gradient Descent reaches at 130 %, as the paper's authors publish it with the trace.
std::optional<Goal> published(const fs::path& pods) {
  static const std::map<std::string, double> kFgd = {{"openb_pod_list_default.csv", 95.39},
                                                     {"openb_pod_list_cpu050.csv", 95.21},
                                                     {"openb_pod_list_gpushare100.csv", 86.90},
                                                     {"openb_pod_list_gpuspec33.csv", 94.55},
                                                     {"openb_pod_list_multigpu50.csv", 97.18}};
  const auto found = kFgd.find(pods.filename().string());
  if (found == kFgd.end()) return std::nullopt;
  return at_least(found->second);
}

double mean(const std::vector<double>& sample) {
  double sum = 0;
  for (const double x : sample) sum += x;
  return sum / static_cast<double>(sample.size());
}
// Of a sample: divided by n - 1.
double deviation(const std::vector<double>& sample) {
  if (sample.size() < 2) return 0;
  const double middle = mean(sample);
  double sum = 0;
  for (const double x : sample) sum += (x - middle) * (x - middle);
  return std::sqrt(sum / static_cast<double>(sample.size() - 1));
}

// `prefix`: before the names of the rows, where several traces are reported.
void measure(Report& report, const std::string& prefix, const fs::path& nodes_file, const fs::path& pods_file,
             const Options& options) {
  const auto nodes = read_nodes(nodes_file);
  const auto pods = read_pods(pods_file);
  std::vector<double> at_100, at_end, bounds, dropped;
  double capacity = 0;
  for (const TraceNode& n : nodes) capacity += n.gpus * 1000.0;
  for (int seed = 1; seed <= options.seeds; ++seed) {
    const auto arriving = arrivals(nodes, pods, options.load, static_cast<std::uint64_t>(seed));
    const Outcome outcome = replay(nodes, arriving);
    at_100.push_back(outcome.at_100);
    at_end.push_back(outcome.at_end);
    dropped.push_back(outcome.dropped);
    bounds.push_back(100 * packing_bound(nodes, arriving) / capacity);
    char text[200];
    std::snprintf(text, sizeof text, "%s, seed %d: %zu pods, %.2f %% at the end, bound %.2f %%",
                  pods_file.filename().c_str(), seed, arriving.size(), outcome.at_end, bounds.back());
    progress(text);
  }
  char load[16];
  std::snprintf(load, sizeof load, "%.0f", 100 * options.load);
  const std::string end = prefix + "allocation at " + load + " % load";
  const bool as_published = options.load == 1.3;
  report.add(prefix + "allocation at 100 % load, mean", mean(at_100), "%");
  report.add(prefix + "allocation at 100 % load, standard deviation", deviation(at_100), "%");
  report.add(end + ", mean", mean(at_end), "%", as_published ? published(pods_file) : std::nullopt);
  report.add(end + ", standard deviation", deviation(at_end), "%");
  report.add(end + ", least", *std::ranges::min_element(at_end), "%");
  report.add(end + ", most", *std::ranges::max_element(at_end), "%");
  report.add(end + ", upper bound of any scheduler, mean", mean(bounds), "%");
  report.add(prefix + "pods dropped, mean", mean(dropped), "pods");
}

int run(const Options& options) {
  Report report("packing");
  if (!options.pods.empty()) {
    measure(report, "", options.nodes, options.pods, options);
    report.print(options.json);
    return 0;
  }
  const fs::path folder = fs::path(MUSTER_SOURCE_DIR).parent_path() / "shared/data/openb";
  const fs::path nodes = folder / "openb_node_list_gpu_node.csv";
  if (!fs::exists(nodes)) {
    std::fprintf(stderr,
                 "bench_packing: skipped, there are no traces in %s; name some with --nodes and --pods\n",
                 folder.c_str());
    report.print(options.json);
    return 0;
  }
  const std::string prefix = "openb_pod_list_";
  std::vector<fs::path> traces;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(prefix)) traces.push_back(entry.path());
  }
  std::ranges::sort(traces);
  for (const fs::path& trace : traces)
    measure(report, trace.stem().string().substr(prefix.size()) + ": ", nodes, trace, options);
  report.print(options.json);
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::log_to_standard_error();
  muster::bench::Options options;
  CLI::App app("Replays a trace of pods that never leave, and reports how much of the GPUs they get.");
  auto* nodes = app.add_option("--nodes", options.nodes, "CSV: sn,cpu_milli,memory_mib,gpu,model");
  auto* pods =
      app.add_option("--pods", options.pods, "CSV: name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec]");
  nodes->needs(pods);
  pods->needs(nodes);
  app.add_option("--load", options.load, "How many GPUs are asked for, as a multiple of what there is")
      ->check(CLI::Range(1.0, 10.0))
      ->capture_default_str();
  app.add_option("--seeds", options.seeds, "Of how many shuffles the mean is taken")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
  try {
    return muster::bench::run(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_packing: %s\n", e.what());
    return 1;
  }
}
