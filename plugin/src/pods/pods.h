// The commands that are about the pods of a job or service. Each returns the exit status (command.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command.h"

namespace muster::plugin {

struct LogOptions {
  bool follow = false;
  std::optional<std::int64_t> tail;  // lines of each pod; absent: all
  std::optional<std::int32_t> rank;  // absent: all
  std::string container;             // empty: the first of each pod
};
// The lines of all ranks, each behind "[RANK] ". Without `follow` they are in the order of their times. With
// it they come as they are written, also of pods that start later, until the job has ended.
int run_logs(const Options& options, const std::string& name, const LogOptions& log);

struct ExecOptions {
  std::int32_t rank = 0;
  std::string container;
  bool stdin_too = false, tty = false;
};
// Both hand over to the user's own kubectl, which takes the place of this process.
int run_exec(const Options& options, const std::string& name, const ExecOptions& exec,
             const std::vector<std::string>& command);
int run_port_forward(const Options& options, const std::string& name, std::int32_t rank,
                     const std::vector<std::string>& ports);

// What is handed over: "kubectl", what says which cluster, and `verb` with what follows it.
std::vector<std::string> kubectl_arguments(const Options& options, const std::string& ns,
                                           const std::vector<std::string>& verb);

}  // namespace muster::plugin
