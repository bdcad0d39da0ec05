#include "replay/play.h"

#include <sstream>
#include <stdexcept>

#include "muster/crds/error.h"
#include "muster/placement/cluster.h"
#include "muster/simulate/report.h"
#include "muster/simulate/simulation.h"
#include "report.h"

namespace muster::bench {

nlohmann::json play(const std::string& objects, std::int64_t window, const std::string& name, bool audit) {
  const simulate::Input input = simulate::read_text(objects, name);
  if (!input.errors.empty()) throw std::runtime_error(crds::to_string(input.errors.front()));
  simulate::Options options;
  options.until = simulate::Instant{window};
  if (audit) options.prepare = [](placement::Cluster& cluster) { cluster.audit_plans(true); };
  std::int64_t told = 0;
  simulate::Simulation simulation(input, options, [&](const simulate::Progress& p) {
    const std::int64_t tenth = p.now.count() * 10 / window;
    if (tenth > told)
      progress(name + ": " + std::to_string(10 * (told = tenth)) + " %, " + std::to_string(p.jobs) +
               " jobs, " + std::to_string(p.finished) + " ended");
  });
  if (const auto errors = simulation.run(); !errors.empty())
    throw std::runtime_error(crds::to_string(errors.front()));
  std::stringstream out;
  simulate::report(simulation, simulate::Format::kJson, out);
  return nlohmann::json::parse(out);
}

}  // namespace muster::bench
