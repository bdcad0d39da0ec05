// bench_array: an array of thousands of indexes by Muster, against a bare client that creates, sees end and
// deletes as many pods on the same control plane in the same run. See docs/benchmarks.md.

#include "array/phases.h"
#include "live/options.h"
#include "report.h"

namespace muster::bench {
namespace {

struct Options {
  ArrayLoad load;
  LiveOptions live;
};

constexpr double kKiB = 1024, kMiB = 1024 * 1024;

void report_cpu(Report& report, const std::string& phase, const ArrayResult& result) {
  for (const auto& [name, seconds] : result.cpu.by_name) {
    if (name == "muster" && result.kills > 0) continue;  // of which process?
    report.add(phase + ": CPU of " + name, seconds, "s");
  }
  report.add(phase + ": CPU of everything else on the machine", result.cpu.others, "s");
}

Report make_report(const Options& options, const ArrayResult& bare, const ArrayResult& muster, double load) {
  Report report("array");
  const double count = options.load.count;
  report.add("bare client: first request to last pod Succeeded", bare.seconds, "s");
  report.add("bare client: pods per second", count / bare.seconds, "1/s");
  report.add("muster: submission to array Complete", muster.seconds, "s");
  report.add("muster: indexes per second", count / muster.seconds, "1/s");
  report.add("muster / bare client", muster.seconds / bare.seconds, "ratio");
  report.add("muster: API writes per index",
             static_cast<double>(total(muster.writes, Writer::kCounted)) / count, "1/index");
  for (const auto& [kind, n] : muster.writes) {
    if (writer_of(kind) == Writer::kCounted)
      report.add("  writes: " + kind.text(), static_cast<double>(n), "count");
  }
  report.add("  writes not counted: pod and node status (simulated nodes)",
             static_cast<double>(total(muster.writes, Writer::kSimulatedNodes)), "count");
  report.add("muster: peak resident memory", static_cast<double>(muster.memory_peak) / kMiB, "MiB");
  report.add("muster: resident memory before the array", static_cast<double>(muster.memory_before) / kMiB,
             "MiB");
  report.add("array: largest status", static_cast<double>(muster.status_bytes) / kKiB, "KiB", at_most(256));
  report.add("array: largest object", static_cast<double>(muster.object_bytes) / kKiB, "KiB");
  if (muster.kills > 0) report.add("muster: times killed", muster.kills, "count");
  report_cpu(report, "bare client", bare);
  report_cpu(report, "muster", muster);
  report.add("indexes", options.load.count, "count");
  report.add("parallelism", options.load.parallelism, "count");
  report.add("nodes", options.live.cluster.nodes, "count");
  report.add("cores of the machine", machine_cores(), "count");
  report.add("load average before the run", load, "");
  return report;
}

int run(const Options& options) {
  const double load = load_average();
  auto cluster = BenchCluster::start(options.live.cluster);
  if (!cluster) {
    progress(cluster.error());
    return 1;
  }
  const auto keep = [&] {
    if (!options.live.keep_logs.empty()) (*cluster)->keep_logs(options.live.keep_logs);
  };
  // A server that has just started is slower; neither phase should pay for that.
  ArrayLoad warm_up = options.load;
  warm_up.count = std::min(warm_up.count, 1000);
  warm_up.parallelism = std::min(warm_up.parallelism, warm_up.count);
  progress("warming up: " + std::to_string(warm_up.count) + " pods");
  auto bare = run_bare_pods(**cluster, warm_up);
  if (bare) {
    (*cluster)->settle();
    progress("bare client");
    bare = run_bare_pods(**cluster, options.load);
  }
  if (!bare) {
    progress(bare.error());
    keep();
    return 1;
  }
  (*cluster)->settle();
  progress("muster");
  const auto muster = run_array(**cluster, options.load);
  keep();
  if (!muster) {
    progress(muster.error());
    return 1;
  }
  make_report(options, *bare, *muster, load).print(options.live.json);
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::log_to_standard_error();
  using muster::bench::Options;
  Options options;

  CLI::App app(
      "Starts a control plane with simulated nodes of 8 GPUs. Times how long Muster takes for an array of "
      "one\n"
      "GPU an index, from its submission until it is Complete, and how long a bare client takes that "
      "creates\n"
      "as many pods itself and deletes each that has succeeded. Then checks that each index had one pod.\n"
      "Exit status: 0 if it was measured; 1 if it could not be measured, or if the check failed.",
      "bench_array");
  app.add_option("--count", options.load.count, "How many indexes there are")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--parallelism", options.load.parallelism, "How many of them wait or run at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--runs-for", options.load.runs_for, "How long each pod runs, as 500ms or 10s")
      ->capture_default_str();
  app.add_option("--in-flight", options.load.in_flight, "How many requests the bare client has in flight")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--kills", options.load.kills,
                 "How often Muster is killed (SIGKILL) and started again, evenly over the array; its "
                 "processor time is "
                 "not told then")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  add_options(app, options.live);
  CLI11_PARSE(app, argc, argv);

  options.load.parallelism = std::min(options.load.parallelism, options.load.count);
  if (!have_gpus_for(options.load.parallelism, "--parallelism", options.live.cluster)) return 1;
  if (!have_program(options.live.cluster)) return 1;
  return muster::bench::run(options);
}
