#include <iostream>

#include "commands/commands.h"
#include "muster/crds/validate_files.h"
#include "muster/reconcilers/schedules/effective_spec.h"

namespace muster::controller {

int run_validate(const std::vector<std::string>& files) {
  return crds::validate_files(files, std::cin, std::cout, reconcilers::schedule_errors).exit_code();
}

}  // namespace muster::controller
