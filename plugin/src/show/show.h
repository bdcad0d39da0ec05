// The commands that change nothing. Each prints, and returns the exit status (command.h).
#pragma once

#include <optional>
#include <string>

#include "command.h"

namespace muster::plugin {

int run_why(const Options& options, const std::string& name);
// `pool` empty: the default pool.
int run_tree(const Options& options, const std::string& pool);
int run_queue(const Options& options);
int run_nodes(const Options& options);
// `by`: project, queue, user, pool or job. `since`: 1d, 7d, 30d, all; empty: 30d, of jobs their whole life.
int run_usage(const Options& options, const std::string& by, const std::string& since);
// At most one of the names is not empty; all empty: of all jobs of the namespace, or everywhere.
struct DisruptionsAsked {
  std::string name, project, queue;
  std::optional<std::chrono::seconds> since = {};
};
int run_disruptions(const Options& options, const DisruptionsAsked& asked);
// Pools and tree. On a terminal they are drawn again every two seconds until q or Ctrl-C.
int run_top(const Options& options, const std::string& pool);
// A page for the browser; it returns when the process is told to end. `port` 0: a free one. The namespace may
// be several, with commas between them.
int run_ui(const Options& options, int port);

}  // namespace muster::plugin
