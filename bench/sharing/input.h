// A random day as objects that the simulation reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sharing/day.h"

namespace muster::bench {

enum class Sharing : std::uint8_t {
  kMuster,        // as it is by default
  kFreeOfCharge,  // the same, where disturbances count as free (maxOverhead: 100)
  kPatient,       // as by default, but priority inside a project waits until it pays (preempt.patience: 30m)
  kStaticQuotas,  // each project's limit is its quota
  kFifo,          // one project that may have everything, one priority: by age alone, with backfill
};
std::string_view to_string(Sharing policy);

// Where a job lives under this policy: its namespace, which is its Project's name.
const std::string& home_of(const Day& day, const DayJob& job, Sharing policy);

std::string simulation_input(const Day& day, Sharing policy);

}  // namespace muster::bench
