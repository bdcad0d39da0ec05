// The HTTP server of the page: its files, and what is told of the cluster to those who have the token.
//
//   GET /, /<file>                            the files of the page
//   GET /api/changes                          server-sent events: "snapshot" once, then "change"; see model.h
//   GET /api/job?namespace=…&name=…           details.h
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <expected>
#include <memory>
#include <string>

#include "details.h"
#include "guard.h"
#include "model.h"
#include "muster/client/api.h"
#include "muster/client/task_group.h"

namespace muster::ui {

// Thread: the executor's only. Client and model outlive it.
class Server {
 public:
  struct State;

  // Listens on 127.0.0.1 and nowhere else. `port` 0: a free one. The error names the port.
  static std::expected<std::unique_ptr<Server>, std::string> listen(client::ApiClient& api, Model& model,
                                                                    int port, WhatHelps what_helps);
  ~Server();

  std::string url() const;  // with the token
  // Accepts nothing more, and drops all connections.
  void stop();
  // Waits, after stop(), until nothing of the server runs any more.
  client::Task<void> join();

 private:
  explicit Server(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// Of "/api/job?namespace=nlp&name=a%2Fb": the path, and the values with their percent signs resolved.
struct Target {
  std::string path;
  // "": it is not there.
  std::string value(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> query{};
};
Target parse_target(std::string_view text);

}  // namespace muster::ui
