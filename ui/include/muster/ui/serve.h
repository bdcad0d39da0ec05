// `kubectl muster ui`: a page about the cluster, served on this machine's loopback to whoever has its URL.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/config.h"

namespace muster::ui {

struct ServeOptions {
  client::ClientConfig config;  // all that is read is read with its rights
  // What is read of namespaces is read of all of them, or of these where that is not allowed.
  std::vector<std::string> namespaces;
  int port = 0;  // 0: a free one
  // What helps against a reason for which a workload waits; "": nothing is known.
  std::function<std::string_view(std::string_view reason)> what_helps;
};

// Prints the URL, and serves until the process gets SIGINT or SIGTERM. Returns the exit status: 0; 1 with a
// sentence on standard error if it cannot listen.
int serve(ServeOptions options);

}  // namespace muster::ui
