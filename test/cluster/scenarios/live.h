// Plays a scenario on a cluster of its own: real etcd, API server and controller manager, nodes and pods by
// KWOK, and the operator as a process.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "compressed.h"
#include "sequence.h"

namespace muster::test {

struct LiveRun {
  std::vector<Event> events;
  std::vector<std::string> differences;  // from the simulation, at the instants of Expectations
  std::string log;                       // the operator's
  // The longest by which this machine was late with something that was due at an instant.
  std::chrono::milliseconds behind{0};
};
// `expected` is the simulation of the same scenario. What goes wrong with the cluster itself is thrown.
LiveRun play(const Compressed& scenario, const Simulated& expected);

}  // namespace muster::test
