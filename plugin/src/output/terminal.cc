#include "output/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace muster::plugin {

bool is_terminal() {
  return isatty(STDOUT_FILENO) != 0;
}

bool wants_colours() {
  const char* off = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  const bool is_off = off != nullptr && *off != '\0';
  return is_terminal() && !is_off && kind != nullptr && std::string_view(kind) != "dumb";
}

}  // namespace muster::plugin
