// What a shell may complete a command line with.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "command.h"

namespace muster::plugin {

// `kubectl-muster __complete WORDS…` answers as Cobra's programs do: a candidate a line, with its description
// behind a tab, and ":N" in the last line. kubectl and the scripts below ask so.
inline constexpr const char* kCompleteCommand = "__complete";

struct Candidates {
  std::vector<std::pair<std::string, std::string>> words;  // with descriptions
  bool files = false;                                      // names of files would do
};
// `words`: all behind the program's name; the last is the one to complete, and may be empty. `names_of` is
// asked for the names of jobs and services where one is wanted.
Candidates complete(const CLI::App& app, const std::vector<std::string>& words,
                    const std::function<std::vector<std::string>(const Options& options)>& names_of);

int run_complete(const CLI::App& app, const std::vector<std::string>& words);
int run_completion(const std::string& shell);

}  // namespace muster::plugin
