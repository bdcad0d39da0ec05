// The HTTP server of the page: its files for everybody, and of the cluster what each visitor may see.
//
//   GET /, /<file>                            the files of the page
//   GET /healthz                              "ok"
//   GET /door                                 {"asksToken":true|false}: whether readers need a token of their
//   own GET /api/changes                          server-sent events: "snapshot" once, then "change"; see
//   model.h GET /api/job?namespace=…&name=…           details.h
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "model.h"
#include "muster/client/task_group.h"
#include "muster/server/listener.h"
#include "who/door.h"

namespace muster::ui {

// Thread: the executor's only. Environment, model and door outlive it.
class Server {
 public:
  // `address` and errors as server::Listener::listen().
  static std::expected<std::unique_ptr<Server>, std::string> listen(client::Environment& env, Model& model,
                                                                    Door& door, const std::string& address,
                                                                    server::ListenOptions options);
  int port() const { return listener_->port(); }
  // Accepts nothing more, and drops all connections.
  void stop() { listener_->stop(); }
  // Waits, after stop(), until nothing of the server runs any more.
  client::Task<void> join() { return listener_->join(); }

 private:
  explicit Server(std::unique_ptr<server::Listener> listener) : listener_(std::move(listener)) {}
  std::unique_ptr<server::Listener> listener_;
};

}  // namespace muster::ui
