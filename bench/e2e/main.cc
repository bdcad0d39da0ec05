// bench_e2e: thousands of pods in gangs by Muster, against a bare client that creates the same pods on the
// same control plane in the same run. See docs/benchmarks.md.
#include <utility>

#include "e2e/phases.h"
#include "live/options.h"
#include "report.h"

namespace muster::bench {
namespace {

struct Options {
  Load load;
  LiveOptions live;
  int rounds = 1;
  bool bare_only = false;
};

constexpr double kMiB = 1024 * 1024;

// One value per round, and what is reported of them.
template <class F>
double median_of(const std::vector<PhaseResult>& results, F value) {
  std::vector<double> values;
  for (const PhaseResult& result : results) values.push_back(value(result));
  return median(std::move(values));
}

double total_seconds(const PhaseResult& result) {
  return result.seconds;
}

void report_bare(Report& report, const Options& options, const std::vector<PhaseResult>& bare) {
  const double seconds = median_of(bare, total_seconds);
  report.add("bare client: first request to last pod Running", seconds, "s");
  report.add("bare client: last create answered after",
             median_of(bare, [](const PhaseResult& r) { return r.creating_seconds; }), "s");
  report.add("bare client: pods per second", options.load.pods / seconds, "1/s");
}

void report_times(Report& report, const Options& options, const std::vector<PhaseResult>& bare,
                  const std::vector<PhaseResult>& muster) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < bare.size(); ++i) ratios.push_back(muster[i].seconds / bare[i].seconds);
  const double b = median_of(muster, total_seconds);
  report.add("muster: first submission to last pod Running", b, "s");
  report.add("muster: pods per second", options.load.pods / b, "1/s");
  report.add("muster / bare client", median(ratios), "ratio", at_most(1.3));
  for (std::size_t i = 0; bare.size() > 1 && i < bare.size(); ++i) {
    const std::string round = "round " + std::to_string(i + 1) + ": ";
    report.add(round + "bare client", bare[i].seconds, "s");
    report.add(round + "muster", muster[i].seconds, "s");
    report.add(round + "muster / bare client", ratios[i], "ratio");
  }
}

void report_latencies(Report& report, const std::vector<PhaseResult>& muster) {
  std::vector<double> admitted, first_pod, all_running;
  for (const PhaseResult& result : muster) {
    admitted.insert(admitted.end(), result.admitted.begin(), result.admitted.end());
    first_pod.insert(first_pod.end(), result.first_pod.begin(), result.first_pod.end());
    all_running.insert(all_running.end(), result.all_running.begin(), result.all_running.end());
  }
  const std::pair<const char*, const std::vector<double>*> kinds[] = {
      {"admitted", &admitted}, {"first pod created", &first_pod}, {"all pods Running", &all_running}};
  for (const auto& [name, sample] : kinds) {
    for (const int percent : {50, 99}) {
      report.add("job: submitted to " + std::string(name) + ", p" + std::to_string(percent),
                 percentile(*sample, percent), "s");
    }
  }
}

void report_writes(Report& report, const Options& options, const std::vector<PhaseResult>& muster) {
  const double pods = options.load.pods;
  report.add("muster: API writes per pod",
             median_of(muster,
                       [&](const PhaseResult& r) {
                         return static_cast<double>(total(r.writes, Writer::kCounted)) / pods;
                       }),
             "1/pod", at_most(3));
  const WriteCounts& last = muster.back().writes;
  for (const auto& [kind, n] : last) {
    if (writer_of(kind) == Writer::kCounted)
      report.add("  writes: " + kind.text(), static_cast<double>(n), "count");
  }
  const std::pair<const char*, Writer> aside[] = {
      {"pod and node status (simulated nodes)", Writer::kSimulatedNodes},
      {"leases", Writer::kLeases},
      {"events of the control plane", Writer::kControlPlaneEvents}};
  for (const auto& [name, writer] : aside) {
    report.add("  writes not counted: " + std::string(name), static_cast<double>(total(last, writer)),
               "count");
  }
}

void report_memory(Report& report, const std::vector<PhaseResult>& muster) {
  report.add(
      "muster: peak resident memory",
      median_of(muster, [](const PhaseResult& r) { return static_cast<double>(r.memory_peak) / kMiB; }),
      "MiB", at_most(100));
  report.add(
      "muster: resident memory before the first job",
      median_of(muster, [](const PhaseResult& r) { return static_cast<double>(r.memory_before) / kMiB; }),
      "MiB");
}

void report_cpu(Report& report, const std::string& phase, const std::vector<PhaseResult>& results) {
  for (const auto& [name, ignored] : results.front().cpu.by_name) {
    report.add(phase + ": CPU of " + name,
               median_of(results, [&, key = name](const PhaseResult& r) { return r.cpu.by_name.at(key); }),
               "s");
  }
  report.add(phase + ": CPU of everything else on the machine",
             median_of(results, [](const PhaseResult& r) { return r.cpu.others; }), "s");
}

double cpu_of_all(const PhaseResult& result) {
  double sum = 0;
  for (const auto& [name, seconds] : result.cpu.by_name) sum += seconds;
  return sum;
}

Report make_report(const Options& options, const std::vector<PhaseResult>& bare,
                   const std::vector<PhaseResult>& muster, double load_before) {
  Report report("e2e");
  report_bare(report, options, bare);
  if (!muster.empty()) {
    report_times(report, options, bare, muster);
    report_writes(report, options, muster);
    report_memory(report, muster);
    report_latencies(report, muster);
  }
  report_cpu(report, "bare client", bare);
  if (!muster.empty()) {
    report_cpu(report, "muster", muster);
    report.add("CPU of all processes: muster / bare client",
               median_of(muster, cpu_of_all) / median_of(bare, cpu_of_all), "ratio");
    report.add("pods per gang", options.load.gang, "count");
  }
  report.add("pods", options.load.pods, "count");
  report.add("nodes", options.live.cluster.nodes, "count");
  report.add("rounds", options.rounds, "count");
  report.add("cores of the machine", machine_cores(), "count");
  report.add("load average before the run", load_before, "");
  return report;
}

std::string seconds_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f s", value);
  return text;
}

// False, with the reason on standard error: it could not be run, or the audit failed.
bool run_rounds(const Options& options, BenchCluster& cluster, std::vector<PhaseResult>& bare,
                std::vector<PhaseResult>& muster) {
  // A server that has just started is slower; neither phase should pay for that.
  Load warm_up = options.load;
  warm_up.pods = std::min(warm_up.pods, 1000);
  progress("warming up: " + std::to_string(warm_up.pods) + " pods");
  if (auto done = run_bare(cluster, warm_up); !done) {
    progress(done.error());
    return false;
  }
  for (int round = 1; round <= options.rounds; ++round) {
    cluster.settle();
    progress("round " + std::to_string(round) + ": bare client");
    auto a = run_bare(cluster, options.load);
    if (!a) {
      progress(a.error());
      return false;
    }
    progress("  " + seconds_text(a->seconds));
    bare.push_back(std::move(*a));
    if (options.bare_only) continue;
    cluster.settle();
    progress("round " + std::to_string(round) + ": muster");
    auto b = run_muster(cluster, options.load);
    if (!b) {
      progress(b.error());
      return false;
    }
    progress("  " + seconds_text(b->seconds) + "; audit passed");
    muster.push_back(std::move(*b));
  }
  return true;
}

int run(const Options& options) {
  const double load_before = load_average();
  auto cluster = BenchCluster::start(options.live.cluster);
  if (!cluster) {
    progress(cluster.error());
    return 1;
  }
  std::vector<PhaseResult> bare, muster;
  const bool ran = run_rounds(options, **cluster, bare, muster);
  if (!options.live.keep_logs.empty()) (*cluster)->keep_logs(options.live.keep_logs);
  if (!ran) return 1;
  make_report(options, bare, muster, load_before).print(options.live.json);
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::log_to_standard_error();
  using muster::bench::Options;
  Options options;

  CLI::App app(
      "Starts a control plane with simulated nodes of 8 GPUs. Times how long Muster takes for pods in gangs, "
      "from the\n"
      "first submission until the last pod runs, and how long a bare client takes that creates as many pods "
      "itself.\n"
      "Then audits the result. Exit status: 0 if it was measured, whether or not goals are met;\n"
      "1 if it could not be measured, or if the audit failed.",
      "bench_e2e");
  app.add_option("--pods", options.load.pods, "How many pods there are in all; they need as many GPUs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--gang", options.load.gang, "How many pods a job has")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "How often both are measured; medians are reported")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--in-flight", options.load.in_flight, "How many requests the bare client has in flight")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--bare-only", options.bare_only, "Run only the bare client, to see what this machine can do");
  add_options(app, options.live);
  CLI11_PARSE(app, argc, argv);

  if (options.load.pods % options.load.gang != 0) {
    muster::bench::progress("--pods: " + std::to_string(options.load.pods) + " is not a multiple of --gang");
    return 1;
  }
  if (!have_gpus_for(options.load.pods, "--pods", options.live.cluster)) return 1;
  if (!options.bare_only && !have_program(options.live.cluster)) return 1;
  return muster::bench::run(options);
}
