// What has happened to workloads, in order, and how two accounts of it are compared.
#pragma once

#include <chrono>
#include <compare>
#include <string>
#include <vector>

namespace muster::test {

// As `muster simulate` tells it (docs/simulate.md), without Waiting and without places.
struct Event {
  std::string type;
  std::string object;  // "namespace/name" of the job, or of the service whose replica it is
  std::string reason;
  std::string beneficiary;  // likewise
  auto operator<=>(const Event&) const = default;
};
struct TimedEvent {
  std::chrono::seconds at{0};  // since the beginning
  Event event;
};

std::string to_string(const Event& event);  // "Evicted a/a5 Reclaimed for b/b4"

// Events of one instant; instants without any are not in it.
using Instants = std::vector<std::vector<Event>>;
Instants by_instant(const std::vector<TimedEvent>& events);

// Nothing in it happens beside something else: in no instant two workloads leave, two start, or two end. Then
// all of its order follows from the rules, otherwise only which events belong to one instant.
bool is_single_threaded(const Instants& instants);

// Two columns with what is expected and what is there, the first instant that differs marked; empty: there is
// no difference. Events of one instant are compared as a set, of a single-threaded sequence in order.
std::string difference(const Instants& expected, const std::vector<Event>& there);

}  // namespace muster::test
