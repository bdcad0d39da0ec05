// What standard output is.
#pragma once

namespace muster::plugin {

bool is_terminal();
// On a terminal, unless NO_COLOR is set (no-color.org) or the terminal is a dumb one.
bool wants_colours();

}  // namespace muster::plugin
