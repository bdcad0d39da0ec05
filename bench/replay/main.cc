// bench_replay: a production trace as jobs of projects with quotas, under three policies.
// See docs/benchmarks.md.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>

#include "process.h"
#include "replay/input.h"
#include "replay/metrics.h"
#include "replay/outcome.h"
#include "replay/play.h"
#include "report.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string nodes, pods;
  std::vector<std::int64_t> loads = {1, 2};
  std::size_t every = 40, projects = 20;
  std::int64_t from = 10'022'400, lending_hours = 0;
  Preemptible preemptible = Preemptible::kByQos;
  std::vector<Policy> policies = {Policy::kBorrowing, Policy::kStaticQuotas, Policy::kFifo};
  bool audit = false, json = false;
};

// Returns whether everything was right.
bool measure(Report& report, const Options& o, const std::vector<TraceNode>& nodes,
             const std::vector<TracePod>& pods, std::int64_t load) {
  const auto projects = replay_projects(o.projects, gpu_milli(nodes));
  const ReplayWorkload workload = replay_workload(pods, projects, o.from, load, o.preemptible);
  const std::string times = std::to_string(load) + "x load";
  progress(times + ": " + std::to_string(workload.jobs.size()) +
           " jobs; left out: " + std::to_string(workload.never_ran) + " pods that never ran, " +
           std::to_string(workload.before) + " gone before the window");
  const double gpus = static_cast<double>(gpu_milli(nodes)) / 1000;
  const double capacity = gpus * static_cast<double>(workload.window);
  const auto asked = asked_gpu_seconds(workload, projects.size());
  double all = 0;
  for (const double x : asked) all += x;
  std::vector<double> quotas;
  for (const ReplayProject& p : projects) quotas.push_back(static_cast<double>(p.quota_milli));
  const auto entitled = max_min(capacity, quotas, asked);
  report.add(times + ": jobs", static_cast<double>(workload.jobs.size()), "jobs");
  report.add(times + ": asked for / capacity", 100 * all / capacity, "%");
  report.add(times + ": upper bound of useful / capacity", 100 * fluid_bound(workload, gpus) / capacity, "%");
  bool right = true;
  for (const Policy policy : o.policies) {
    const std::string name = times + ", " + std::string(to_string(policy));
    const double before = thread_cpu_seconds();
    const auto told = play(simulation_input(nodes, projects, workload, policy, o.lending_hours * 3600),
                           workload.window, name, o.audit);
    const double took = thread_cpu_seconds() - before;
    const ReplayOutcome out = replay_outcome(told, nodes, projects, workload, policy,
                                             policy == Policy::kBorrowing && o.lending_hours > 0);
    for (const std::string& what : out.violations)
      std::fprintf(stderr, "bench_replay: %s: %s\n", name.c_str(), what.c_str());
    right = right && out.violations.empty();
    std::vector<double> over_share;
    for (std::size_t i = 0; i < projects.size(); ++i) {
      if (entitled[i] > 0) over_share.push_back(out.useful_of[i] / entitled[i]);
    }
    constexpr double kHour = 3600;
    report.add(name + ": useful / capacity", 100 * out.useful / capacity, "%");
    report.add(name + ": wait, p50", percentile(out.waits, 50), "s");
    report.add(name + ": wait, p99", percentile(out.waits, 99), "s");
    report.add(name + ": jobs with GPUs that never started", static_cast<double>(out.not_started), "jobs");
    report.add(name + ": Jain's index of GPU-hours over fair share", jain_index(over_share), "");
    report.add(name + ": work lost to preemption", out.lost / kHour, "GPU h");
    report.add(name + ": GPU time held by those who leave", (out.held - out.useful - out.lost) / kHour,
               "GPU h");
    report.add(name + ": preemptions", static_cast<double>(out.preemptions), "count");
    report.add(name + ": moves", static_cast<double>(out.moves), "count");
    report.add(name + ": jobs that their maxRuntime ended", static_cast<double>(out.out_of_time), "jobs");
    report.add(name + ": invariants broken", static_cast<double>(out.violations.size()), "count", at_most(0));
    report.add(name + ": processor time", took, "s");
  }
  return right;
}

int run(Options options) {
  Report report("replay");
  if (options.pods.empty()) {
    const fs::path folder = fs::path(MUSTER_SOURCE_DIR).parent_path() / "shared/data/openb";
    options.nodes = folder / "openb_node_list_gpu_node.csv";
    options.pods = folder / "openb_pod_list_default.csv";
    if (!fs::exists(options.nodes) || !fs::exists(options.pods)) {
      std::fprintf(stderr,
                   "bench_replay: skipped, there is no trace in %s; name one with --nodes and --pods\n",
                   folder.c_str());
      report.print(options.json);
      return 0;
    }
  }
  const auto nodes = thinned(read_nodes(options.nodes), options.every);
  const auto pods = read_pods(options.pods);
  report.add("nodes", static_cast<double>(nodes.size()), "nodes");
  report.add("GPUs", static_cast<double>(gpu_milli(nodes)) / 1000, "GPUs");
  bool right = true;
  for (const std::int64_t load : options.loads) right = measure(report, options, nodes, pods, load) && right;
  report.add("peak resident memory", static_cast<double>(peak_memory(getpid())) / (1 << 20), "MiB");
  report.print(options.json);
  return right ? 0 : 1;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::log_to_standard_error();
  using muster::bench::Policy;
  using muster::bench::Preemptible;
  muster::bench::Options options;
  CLI::App app(
      "Replays a trace of pods, with their arrivals and run times, as jobs of projects with quotas.");
  auto* nodes = app.add_option("--nodes", options.nodes, "CSV: sn,cpu_milli,memory_mib,gpu,model");
  auto* pods = app.add_option("--pods", options.pods,
                              "CSV: name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,scheduled_time,"
                              "deletion_time[,gpu_spec][,qos]");
  nodes->needs(pods);
  pods->needs(nodes);
  app.add_option("--load", options.loads,
                 "How often each pod arrives; of several values each is a replay of its own")
      ->delimiter(',')
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--every", options.every, "Take the first of every so many nodes; 1: all of them")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--projects", options.projects, "How many projects share the nodes")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--from", options.from, "Where the window begins, in seconds of the trace")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--preemptible", options.preemptible, "qos: all but LS and Guaranteed pods; all: every pod")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Preemptible>{{"qos", Preemptible::kByQos}, {"all", Preemptible::kAll}}));
  app.add_option(
         "--lending", options.lending_hours,
         "Under muster, lend idle quota to what is not preemptible and ends within so many hours; jobs "
         "state twice their run as maxRuntime. 0: lend none")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--policy", options.policies, "Replay only these policies: muster, static, fifo")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(std::map<std::string, Policy>{
          {"muster", Policy::kBorrowing}, {"static", Policy::kStaticQuotas}, {"fifo", Policy::kFifo}}));
  app.add_flag(
      "--audit", options.audit,
      "Also recount after each decision what must hold (slow); the program ends if something does not");
  app.add_flag("--json", options.json, "Print one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
  try {
    return muster::bench::run(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_replay: %s\n", e.what());
    return 1;
  }
}
