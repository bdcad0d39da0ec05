// Starting a program, by Boost.Process.
#pragma once

#include <sys/types.h>

#include <expected>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace muster::common {

struct ProcessStart {
  std::vector<std::string> arguments;  // arguments[0] is the program: a path, or looked up on PATH
  std::vector<std::pair<std::string, std::string>> environment{};  // beside ours, or in place of ours
  // What the program has as its standard input, output and error; -1: ours. They stay the caller's.
  int in = -1, out = -1, err = -1;
  // Runs in the new process just before the program takes its place. Other threads may hold any lock, so it
  // may only do what is safe in a signal handler.
  std::function<void()> before_exec{};
};

// The pid of the new process, which the caller must wait for. The program starts with no signal blocked and
// SIGPIPE as usual. Descriptors that are not closed at an exec (O_CLOEXEC) pass to it. The error is the
// system's, such as ENOENT where there is no such program; then no process is left over. Threads may call it
// at the same time.
std::expected<pid_t, std::error_code> start_process(const ProcessStart& start);

}  // namespace muster::common
