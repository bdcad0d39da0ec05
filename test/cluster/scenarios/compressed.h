// A scenario in a hurry: the same objects, with its instants so near to each other that it can be watched.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sequence.h"

namespace muster::test {

using nlohmann::json;
using std::chrono::seconds;

// Documents as `muster simulate` takes them.
using Documents = std::vector<json>;
// Throws where the file is none.
Documents read_scenario(const std::filesystem::path& file);

// What `muster simulate` makes of a scenario.
struct Simulated {
  std::vector<TimedEvent> events;     // without Waiting
  std::map<seconds, json> states;     // as -o json has it, after the decisions of each Expectation's instant
  std::vector<std::string> failures;  // of Expectations, and of the input
};
Simulated simulate(const Documents& documents, seconds fault_after = seconds{60});

struct Compressed {
  Documents documents;
  seconds fault_after{60};        // a node that is not Ready for so long is lost
  std::vector<seconds> instants;  // at which something is done, happens or is expected, ascending
  // See compress(): what happens is a matter of rates. Only the Expectations tell whether it went well.
  bool is_proportional = false;
};

// The n-th instant of the scenario (an object is applied, something happens in its simulation, something is
// expected) becomes n * gap. How long work, saving and a lost node take follows from that; what lies before
// the beginning (ages, checkpoints) stays. Elastic gangs that do not say when they grow do so after a second,
// as soon as the API allows. Pure. `events`: of its simulation.
// Where ends of work are weighed against maxRuntime (a reservation counts on both), all durations must shrink
// alike: there everything becomes a tenth.
Compressed compress(const Documents& documents, const std::vector<TimedEvent>& events, seconds gap);

// Why it cannot be played on a cluster; empty: it can.
std::string why_not_live(const Documents& documents);

// An annotation simulate.muster.dev/…; absent: nothing.
std::optional<seconds> annotation(const json& document, const std::string& name);
// metadata.namespace and name, "namespace/name" or "name".
std::string key_of(const json& document);
bool is_kind(const json& document, const char* kind);
bool is_assigned(const json& document);  // its status says where it runs
// How long an assigned job has run when it begins.
seconds ran_before(const json& document);

}  // namespace muster::test
