// RULES.md 2.5: nothing is started that is known to be undone. Judged from what a simulation tells, by
// nothing that the placement core knows.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace muster::simulate {

struct KnownOfJobs {
  std::map<std::string, std::chrono::seconds> starts_in;  // by "namespace/name"; left out: at once
  std::vector<std::chrono::seconds> changes;              // of the input: submissions, deletions, nodes
};

// Who was taken from within the time of its own start, although nothing had changed since it was started but
// that time had passed; a sentence each. What changes from outside: what the input says, and that a job ends,
// that it works, and that its pods are gone. `outcome`: report() of the simulation.
struct UndoneStarts {
  std::vector<std::string> by_growth;  // that needed nobody's room but of those who had been started so
  std::vector<std::string> by_others;
};
UndoneStarts undone_starts(const nlohmann::json& outcome, const KnownOfJobs& known);

}  // namespace muster::simulate
