// What every command is given and returns. A command prints to standard output, and returns the exit status:
// 0; 1 with a sentence on standard error if the API server refused or cannot be reached, or there is no such
// object; 2 if it was asked for something that makes no sense.
#pragma once

#include <functional>
#include <string>

#include "cluster/workload.h"
#include "output/listing.h"
#include "output/text.h"

namespace muster::plugin {

struct Options {
  std::string kubeconfig;  // empty: as kubectl finds it
  std::string context;
  std::string ns;  // empty: the context's
  bool all_namespaces = false;
  Format format = Format::kTable;
};

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

int fail(const std::string& what);
int wrong_use(const std::string& what);

// `ns`: the one that is meant.
int with_reader(const Options& options, const std::function<int(Reader& reader, const std::string& ns)>& run);
// The same with the workload of this name, which was read once.
int with_workload(const Options& options, const std::string& name,
                  const std::function<int(Reader& reader, const Workload& workload)>& run);
// Prints it, in the colours that the terminal takes.
int show(const Listing& listing, Format format);

}  // namespace muster::plugin
