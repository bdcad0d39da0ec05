// The commands that change something. Each says what it did, and returns the exit status (command.h).
#pragma once

#include <cstdint>
#include <string>

#include "act/submission.h"
#include "command.h"

namespace muster::plugin {

int run_suspend(const Options& options, const std::string& name, bool suspend);
// Of an elastic job the size wished for, in pods of the gang; of a service its replicas.
int run_scale(const Options& options, const std::string& name, std::int32_t replicas);
// Of an array: the indexes that have failed.
int run_retry(const Options& options, const std::string& name);
// With `only_print` nobody is asked, and nothing is made.
int run_submit(const Options& options, const Submission& submission, bool only_print);

}  // namespace muster::plugin
