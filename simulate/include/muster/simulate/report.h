// What came out, printed. docs/simulate.md documents the formats.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "muster/simulate/simulation.h"

namespace muster::simulate {

enum class Format : std::uint8_t { kTable, kJson, kYaml, kEvents };

// The version of the JSON and YAML: raised when a field changes its meaning or goes; new fields may come.
inline constexpr int kReportVersion = 1;

// The same simulation gives the same bytes.
void report(const Simulation& simulation, Format format, std::ostream& out);

}  // namespace muster::simulate
