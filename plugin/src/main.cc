// kubectl-muster: `kubectl muster …` finds it in PATH.
#include "command_line.h"

int main(int argc, char** argv) {
  return muster::plugin::run_command_line({argv + 1, argv + argc});
}
