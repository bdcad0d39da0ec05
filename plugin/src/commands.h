// The commands of kubectl-muster. Each prints to standard output and returns the exit status: 0; 1 with a
// sentence on standard error if the API server refused or cannot be reached, or there is no such object.
#pragma once

#include <string>

namespace muster::plugin {

struct Options {
  std::string kubeconfig;  // empty: as kubectl finds it
  std::string context;
  std::string ns;  // empty: the context's
  bool all_namespaces = false;
};

// `name`: "NAME", "trainingjob/NAME" or "inferenceservice/NAME", with the short names of the kinds too.
int run_why(const Options& options, const std::string& name);
int run_tree(const Options& options);
int run_queue(const Options& options);
int run_nodes(const Options& options);

}  // namespace muster::plugin
