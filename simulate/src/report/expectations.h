// What was expected against what is.
#pragma once

#include <string>
#include <vector>

#include "world/world.h"

namespace muster::simulate {

// One line for each thing that differs; none: it holds.
std::vector<std::string> differences(const World& world, const Expectation& expectation);

// `*` stands for any characters, also none.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace muster::simulate
