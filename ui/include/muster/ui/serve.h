// A page about the cluster: `kubectl muster ui` on this machine's loopback for whoever has its URL, and
// `muster ui` in a cluster for its users.
#pragma once

#include <string>
#include <vector>

#include "muster/client/config.h"
#include "muster/server/listener.h"

namespace muster::ui {

struct ServeOptions {
  client::ClientConfig config;  // all that is read is read with its rights
  // What is read of namespaces is read of all of them, or of these where that is not allowed.
  std::vector<std::string> namespaces;
  int port = 0;  // 0: a free one
};

// Prints the URL, and serves until the process gets SIGINT or SIGTERM. Returns the exit status: 0; 1 with a
// sentence on standard error if it cannot listen.
int serve(ServeOptions options);

struct ClusterOptions {
  client::ClientConfig config;  // watches, and reviews the users' tokens and rights; see docs/page.md
  std::string address;          // as server::Listener::listen()
  server::ListenOptions listen;
  std::function<void(int port)> listens;  // called once
};

// Serves until the process gets SIGINT or SIGTERM. The error says why it cannot listen.
std::expected<void, std::string> serve(ClusterOptions options);

}  // namespace muster::ui
