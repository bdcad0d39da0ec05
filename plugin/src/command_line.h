// What can be asked for, and what was.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "command.h"

namespace muster::plugin {

struct CommandLine {
  Options options;
  std::vector<std::string> rest;  // behind "--", for `submit` and `exec`
  bool takes_rest = false;
  std::function<int()> run;  // set when a command was parsed
};

// `line` outlives it.
std::unique_ptr<CLI::App> make_app(CommandLine& line);

// Parses `arguments`, which do not have the program's name, and does what they ask for. The exit status.
int run_command_line(std::vector<std::string> arguments);

// The positional argument of commands that are about a job or service; completion knows it by this name.
inline constexpr const char* kJobArgument = "JOB";

}  // namespace muster::plugin
