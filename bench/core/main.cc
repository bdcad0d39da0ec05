// bench_core: what decisions cost, with the placement core alone. See docs/benchmarks.md.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "core/cases.h"

namespace muster::bench {
namespace {

struct Options {
  std::string only;
  std::vector<double> sizes = {0.01, 0.1, 1};
  bool json = false;
};

std::string label(double size) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", size);
  return text;
}

// Cost ~ size^exponent, between the smallest and the largest size that were measured.
void add_growth(Report& report, const std::string& name,
                const std::vector<std::pair<double, double>>& costs) {
  if (costs.size() < 2) return;
  const auto [small, cost_small] = costs.front();
  const auto [large, cost_large] = costs.back();
  report.add(name + ": exponent of its growth", std::log(cost_large / cost_small) / std::log(large / small),
             "");
}

int run(const Options& options) {
  Report report("core");
  bool sound = true;
  for (const Case& c : all_cases()) {
    if (c.name.find(options.only) == std::string::npos) continue;
    std::vector<std::pair<double, double>> costs;
    for (const double size : options.sizes) {
      progress(c.name + ", size " + label(size));
      try {
        const auto figures = c.run(size);
        costs.emplace_back(size, figures.front().value);
        for (const Figure& f : figures) {
          const bool full = size == 1;
          if (!full && &f != &figures.front()) continue;
          report.add(c.name + ": " + f.name + (full ? "" : ", size " + label(size)), f.value, f.unit,
                     full ? f.goal : std::nullopt);
        }
      } catch (const std::exception& e) {
        std::fprintf(stderr, "bench_core: %s, size %s: %s\n", c.name.c_str(), label(size).c_str(), e.what());
        sound = false;
      }
    }
    add_growth(report, c.name, costs);
  }
  report.print(options.json);
  return sound ? 0 : 1;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::log_to_standard_error();
  muster::bench::Options options;
  CLI::App app("Measures what decisions of the placement core cost, on one processor core.");
  app.add_option("--only", options.only, "Run only the cases whose name contains this");
  app.add_option("--size", options.sizes, "Sizes to measure; the goals are for size 1 (default: 0.01 0.1 1)");
  app.add_flag("--json", options.json, "Print one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
  std::sort(options.sizes.begin(), options.sizes.end());
  return muster::bench::run(options);
}
