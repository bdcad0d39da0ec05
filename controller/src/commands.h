// The subcommands; each returns the process's exit status.
#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace muster::controller {

int run_controller(const Options& options);
int run_validate(const std::vector<std::string>& files);

}  // namespace muster::controller
