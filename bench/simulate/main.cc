// bench_simulate: how long `muster simulate` takes for a month of a large cluster. See docs/benchmarks.md.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/synthetic.h"
#include "muster/crds/error.h"
#include "muster/simulate/simulation.h"
#include "process.h"
#include "report.h"

namespace muster::bench {
namespace {

using nlohmann::json;

struct Options {
  std::size_t nodes = 10'000, jobs = 100'000, projects = 200;
  std::int64_t days = 30, load_percent = 85;
  bool as_json = false;
};

constexpr std::int64_t kDay = 86'400;

// Jobs of one role: pods, GPUs of each, how many of 199 jobs are such.
struct Kind {
  std::int64_t pods, gpus;
  std::uint64_t weight;
};
constexpr Kind kKinds[] = {{1, 1, 100}, {1, 4, 30}, {1, 8, 40}, {4, 8, 18}, {16, 8, 8}, {64, 8, 3}};

std::string input_of(const Options& o) {
  std::ostringstream out;
  const auto put = [&](const json& object) { out << object << "\n---\n"; };
  for (std::size_t i = 0; i < o.nodes; ++i) {
    put({{"apiVersion", "v1"},
         {"kind", "Node"},
         {"metadata",
          {{"name", "node-" + std::to_string(i)},
           {"labels",
            {{kZone, "zone-" + std::to_string(i / 2500)},
             {kBlock, "block-" + std::to_string(i / 500)},
             {kRack, "rack-" + std::to_string(i / 25)},
             {"nvidia.com/gpu.product", "H100"}}}}},
         {"status",
          {{"capacity", {{"cpu", "128"}, {"memory", "1Ti"}, {"pods", "110"}, {"nvidia.com/gpu", "8"}}}}}});
  }
  const std::string version = "muster.dev/v1alpha1";
  put({{"apiVersion", version},
       {"kind", "NodePool"},
       {"metadata", {{"name", "default"}}},
       {"spec", {{"default", true}, {"topology", {kZone, kBlock, kRack, kHost}}}}});
  const std::size_t quota = o.nodes * kGpusPerNode / o.projects;
  for (std::size_t p = 0; p < o.projects; ++p) {
    const std::string queue = "queue-" + std::to_string(p / 10);
    if (p % 10 == 0)
      put({{"apiVersion", version},
           {"kind", "Queue"},
           {"metadata", {{"name", queue}}},
           {"spec", {{"quota", {{"gpu", quota * 10}}}}}});
    put({{"apiVersion", version},
         {"kind", "Project"},
         {"metadata", {{"name", "project-" + std::to_string(p)}}},
         {"spec", {{"queue", queue}, {"quota", {{"gpu", quota}}}}}});
  }
  std::uint64_t weights = 0;
  std::int64_t gpus = 0;
  for (const Kind& k : kKinds)
    weights += k.weight, gpus += k.pods * k.gpus * static_cast<std::int64_t>(k.weight);
  // Seconds that a job runs on average, so that all of them ask for that part of the capacity.
  const std::int64_t span = o.days * kDay;
  const double capacity = static_cast<double>(o.nodes) * kGpusPerNode * static_cast<double>(span);
  const double mean = capacity * static_cast<double>(o.load_percent) / 100 * static_cast<double>(weights) /
                      (static_cast<double>(gpus) * static_cast<double>(o.jobs));
  Random random(1);
  for (std::size_t i = 0; i < o.jobs; ++i) {
    std::uint64_t draw = random.below(weights);
    const Kind* kind = kKinds;
    while (draw >= kind->weight) draw -= kind++->weight;
    const double unit = (static_cast<double>(random.below(1'000'000)) + 1) / 1e6;
    const auto runs = std::max<std::int64_t>(60, std::llround(-std::log(unit) * mean));
    const auto at = random.below(static_cast<std::uint64_t>(span));
    const json resources = {{"cpu", std::to_string(kind->gpus * 4)},
                            {"memory", std::to_string(kind->gpus * 32) + "Gi"}};
    put({{"apiVersion", version},
         {"kind", "TrainingJob"},
         {"metadata",
          {{"name", "job-" + std::to_string(i)},
           {"namespace", "project-" + std::to_string(random.below(o.projects))},
           {"annotations",
            {{"simulate.muster.dev/at", std::to_string(at) + "s"},
             {"simulate.muster.dev/runs-for", std::to_string(runs) + "s"}}}}},
         {"spec",
          {{"checkpoint", {{"interval", "30m"}}},
           {"roles",
            {{{"name", "worker"},
              {"replicas", kind->pods},
              {"gpus", {{"count", kind->gpus}}},
              {"template",
               {{"spec",
                 {{"containers",
                   {{{"name", "main"},
                     {"image", "image"},
                     {"resources", {{"requests", resources}}}}}}}}}}}}}}}});
  }
  return out.str();
}

int run(const Options& o) {
  std::istringstream text(input_of(o));
  const double before = thread_cpu_seconds();
  const simulate::Input input = simulate::read_input({"-"}, text);
  for (const auto& e : input.errors) std::fprintf(stderr, "bench_simulate: %s\n", crds::to_string(e).c_str());
  if (!input.errors.empty()) return 1;
  const double read = thread_cpu_seconds();
  simulate::Progress last;
  simulate::Options options;
  options.until = simulate::Instant{o.days * kDay};
  std::size_t day = 0;
  simulate::Simulation simulation(input, options, [&](const simulate::Progress& p) {
    last = p;
    if (p.now.count() < static_cast<std::int64_t>(day + 1) * kDay) return;
    progress("day " + std::to_string(++day) + ": " + std::to_string(p.finished) + " jobs have ended");
  });
  if (!simulation.run().empty()) return 1;
  const double played = thread_cpu_seconds();
  Report report("simulate");
  const std::string name = std::to_string(o.jobs) + " jobs, " + std::to_string(o.nodes) + " nodes, " +
                           std::to_string(o.days) + " days: ";
  report.add(name + "reading", read - before, "s");
  report.add(name + "playing", played - read, "s");
  report.add(name + "reading and playing", played - before, "s", at_most(300));
  report.add(name + "jobs that have ended", static_cast<double>(last.finished), "jobs");
  report.add(name + "events", static_cast<double>(last.events), "events");
  report.add(name + "peak resident memory", static_cast<double>(peak_memory(getpid())) / (1 << 20), "MiB");
  report.print(o.as_json);
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::log_to_standard_error();
  muster::bench::Options options;
  CLI::App app("Measures how long muster simulate takes for a month of a large cluster, on one core.");
  app.add_option("--nodes", options.nodes, "How many nodes of 8 GPUs there are")
      ->capture_default_str()
      ->check(CLI::Range(25, 100'000));
  app.add_option("--jobs", options.jobs, "How many jobs come, at random times")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--days", options.days, "How many days are simulated")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--load", options.load_percent, "How much the jobs ask for, in per cent of what there is")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--json", options.as_json, "Print one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
  return muster::bench::run(options);
}
