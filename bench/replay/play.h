// Plays what a benchmark feeds the simulation with.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace muster::bench {

// Objects as `muster simulate` reads them, for so many seconds; returns its JSON. `name` is told with the
// progress. With `audit` the placement core recounts after each decision what must hold. Throws
// std::runtime_error for an input with errors.
nlohmann::json play(const std::string& objects, std::int64_t window, const std::string& name, bool audit);

}  // namespace muster::bench
