#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "commands/commands.h"
#include "muster/crds/duration.h"
#include "muster/simulate/report.h"
#include "muster/simulate/simulation.h"

namespace muster::controller {
namespace {

// One line on a terminal, a few times a second.
class ProgressLine {
 public:
  void tell(const simulate::Progress& p) {
    const auto now = std::chrono::steady_clock::now();
    if (!is_terminal_ || now - told_ < std::chrono::milliseconds(200)) return;
    told_ = now;
    std::cerr << fmt::format("\r\033[Kat {}: {} of {} jobs ended, {} events",
                             crds::to_string(std::max(p.now, simulate::Instant{0})), p.finished, p.jobs,
                             p.events);
    std::cerr.flush();
    shown_ = true;
  }
  ~ProgressLine() {
    if (shown_) std::cerr << "\r\033[K";
  }

 private:
  bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

int wrong_input(const std::vector<crds::FieldError>& errors) {
  for (const auto& e : errors) std::cerr << crds::to_string(e) << '\n';
  std::cerr << errors.size() << (errors.size() == 1 ? " error" : " errors") << " in the input\n";
  return 2;
}

simulate::Format format_of(const std::string& word) {
  if (word == "json") return simulate::Format::kJson;
  if (word == "yaml") return simulate::Format::kYaml;
  if (word == "events") return simulate::Format::kEvents;
  return simulate::Format::kTable;
}

}  // namespace

int run_simulate(const SimulateOptions& o) {
  simulate::Options options;
  if (!o.until.empty()) {
    const auto until = crds::parse_duration(o.until);
    if (!until) {
      std::cerr << "--until: " << until.error() << '\n';
      return 2;
    }
    options.until = *until;
  }
  const simulate::Input input = simulate::read_input(o.files, std::cin);
  if (!input.errors.empty()) return wrong_input(input.errors);
  for (const auto& w : input.warnings)
    std::cerr << "warning: " << crds::to_string(w) << ": this schedule does not count\n";
  if (o.check && input.expectations.empty()) {
    std::cerr << "--check: the input has no Expectation\n";
    return 2;
  }
  simulate::Simulation simulation(
      input, options, [line = std::make_shared<ProgressLine>()](const auto& p) { line->tell(p); });
  const auto errors = simulation.run();
  if (!errors.empty()) return wrong_input(errors);
  if (!o.check || !o.format.empty()) simulate::report(simulation, format_of(o.format), std::cout);
  if (!o.check) return 0;
  for (const std::string& line : simulation.failures()) std::cerr << line << '\n';
  const auto held = simulation.expectations_held();
  std::cerr << fmt::format("{} of {} expectations hold\n", held, input.expectations.size());
  return simulation.failures().empty() ? 0 : 1;
}

}  // namespace muster::controller
