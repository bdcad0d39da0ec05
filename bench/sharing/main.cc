// bench_sharing: random days of a shared cluster, under several policies. See docs/benchmarks.md.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "process.h"
#include "replay/play.h"
#include "report.h"
#include "sharing/figures.h"

namespace muster::bench {
namespace {

struct Options {
  std::int64_t gpus = 256, hours = 24;
  std::vector<double> loads = {0.9, 1.2, 1.6};
  std::uint64_t first_seed = 1, seeds = 10;
  std::vector<Sharing> policies = {Sharing::kMuster, Sharing::kFreeOfCharge, Sharing::kStaticQuotas,
                                   Sharing::kFifo};
  std::size_t stories = 0;  // so many of each kind to be told, of each day
  std::string write_input;
  bool audit = false, json = false;
};

struct Played {
  DayOutcome outcome;
  double took = 0;  // processor time
};

Played played(const Day& day, Sharing policy, const std::string& name, bool audit) {
  Played result;
  const double before = thread_cpu_seconds();
  const auto told = play(simulation_input(day, policy), day.window, name, audit);
  result.took = thread_cpu_seconds() - before;
  result.outcome = day_outcome(told, day, policy);
  for (const std::string& what : result.outcome.violations)
    std::fprintf(stderr, "bench_sharing: %s: %s\n", name.c_str(), what.c_str());
  return result;
}

// Which jobs of a day to read first, on standard error.
void tell_stories(const std::string& day, const DayOutcome& out, std::size_t count) {
  const auto tell = [&](auto worse, auto wanted, const char* what, auto value) {
    std::vector<DayStory> worst;
    std::ranges::copy_if(out.stories, std::back_inserter(worst), wanted);
    std::ranges::stable_sort(worst, worse);
    worst.resize(std::min(count, worst.size()));
    for (const DayStory& s : worst)
      std::fprintf(stderr, "%s: %s %s %.0f\n", day.c_str(), s.job.c_str(), what, value(s));
  };
  tell([](const DayStory& a, const DayStory& b) { return a.beyond_grace > b.beyond_grace; },
       [](const DayStory& s) { return s.is_within_quota; },
       "waited within quota, beyond grace, for s:", [](const DayStory& s) { return s.beyond_grace; });
  tell([](const DayStory& a, const DayStory& b) { return a.beyond_grace > b.beyond_grace; },
       [](const DayStory& s) { return !s.is_within_quota; },
       "waited beyond quota for s:", [](const DayStory& s) { return s.beyond_grace; });
  tell([](const DayStory& a, const DayStory& b) { return a.attempts > b.attempts; },
       [](const DayStory&) { return true; }, "attempts:", [](const DayStory& s) { return s.attempts; });
}

// Returns whether everything was right.
bool measure(Report& report, const Options& o, double load) {
  std::map<Sharing, std::vector<std::vector<Row>>> rows;
  bool right = true;
  const std::string at = fmt::format("{}x", load);
  double jobs = 0;
  for (std::uint64_t seed = o.first_seed; seed < o.first_seed + o.seeds; ++seed) {
    const Day day = random_day({.gpus = o.gpus, .hours = o.hours, .load = load, .seed = seed});
    jobs += static_cast<double>(day.jobs.size());
    std::map<Sharing, Played> outcomes;
    for (const Sharing policy : o.policies) {
      const std::string name = fmt::format("{}, seed {}, {}", at, seed, to_string(policy));
      outcomes[policy] = played(day, policy, name, o.audit);
      progress(fmt::format("{}: {:.1f} s of processor time", name, outcomes[policy].took));
      tell_stories(name, outcomes[policy].outcome, o.stories);
    }
    const auto fifo = outcomes.find(Sharing::kFifo);
    for (const auto& [policy, one] : outcomes) {
      auto figures =
          day_figures(one.outcome, day, load, fifo == outcomes.end() ? nullptr : &fifo->second.outcome);
      figures.push_back({"processor time", one.took, "s", std::nullopt});
      rows[policy].push_back(std::move(figures));
      right = right && one.outcome.violations.empty();
    }
  }
  report.add(at + ": jobs a day", jobs / static_cast<double>(o.seeds), "jobs");
  for (const Sharing policy : o.policies) {
    for (Row& row : mean_of(rows[policy])) {
      // The goals are muster's.
      const bool has_goal = policy == Sharing::kMuster || row.name == "invariants broken";
      report.add(fmt::format("{}, {}: {}", at, to_string(policy), row.name), row.value, row.unit,
                 has_goal ? row.goal : std::nullopt);
    }
  }
  return right;
}

int run(const Options& options) {
  if (!options.write_input.empty()) {
    const Day day = random_day({.gpus = options.gpus,
                                .hours = options.hours,
                                .load = options.loads.front(),
                                .seed = options.first_seed});
    std::ofstream out(options.write_input);
    out << simulation_input(day, options.policies.front());
    if (!out.flush()) throw std::runtime_error("cannot write " + options.write_input);
    return 0;
  }
  Report report("sharing");
  bool right = true;
  for (const double load : options.loads) right = measure(report, options, load) && right;
  report.add("peak resident memory", static_cast<double>(peak_memory(getpid())) / (1 << 20), "MiB");
  report.print(options.json);
  return right ? 0 : 1;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::log_to_standard_error();
  using muster::bench::Sharing;
  muster::bench::Options options;
  CLI::App app("Plays random days of a shared cluster, where every disturbance has its price.");
  app.add_option("--gpus", options.gpus, "In nodes of 8")
      ->check(CLI::Range(64, 1 << 20))
      ->capture_default_str();
  app.add_option("--hours", options.hours, "How long a day is")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--load", options.loads, "What all jobs ask for, of the capacity")
      ->delimiter(',')
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  app.add_option("--seeds", options.seeds, "So many random days of each load")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--seed", options.first_seed, "The first of them")->capture_default_str();
  app.add_option("--policy", options.policies, "Only these: muster, free, static, fifo")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(std::map<std::string, Sharing>{{"muster", Sharing::kMuster},
                                                                         {"free", Sharing::kFreeOfCharge},
                                                                         {"static", Sharing::kStaticQuotas},
                                                                         {"fifo", Sharing::kFifo}}));
  app.add_option("--stories", options.stories,
                 "Name so many jobs of each day that waited longest, and as many that had most attempts");
  app.add_option("--write-input", options.write_input,
                 "Write one day (the first load, seed and policy) for `muster simulate`, and play nothing");
  app.add_flag(
      "--audit", options.audit,
      "Also recount after each decision what must hold (slow); the program ends if something does not");
  app.add_flag("--json", options.json, "Print one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
  try {
    return muster::bench::run(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_sharing: %s\n", e.what());
    return 1;
  }
}
