// What plays servers of metrics: simulated pods and nodes get these addresses of this machine.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "http_server.h"
#include "muster/testcluster/loopback.h"

namespace muster::test {

// At 127.0.0.2 and on, on one port. `answer` is asked for /metrics of the i-th, in a thread of its own: what
// it uses has to outlive this.
class MetricsServers {
 public:
  MetricsServers(int count, const std::function<controller::HttpAnswer(int)>& answer)
      : port_(testcluster::free_port()) {
    for (int i = 0; i < count; ++i) {
      auto listening =
          controller::HttpServer::listen(io_.get_executor(), address(i) + ":" + std::to_string(port_));
      if (!listening) throw std::runtime_error(listening.error());
      (*listening)->handle("/metrics", [answer, i] { return answer(i); });
      servers_.push_back(std::move(*listening));
    }
    thread_ = std::thread([this] { io_.run(); });
  }
  ~MetricsServers() {
    boost::asio::post(io_, [this] { servers_.clear(); });
    work_.reset();
    io_.stop();
    thread_.join();
  }
  MetricsServers(const MetricsServers&) = delete;
  MetricsServers& operator=(const MetricsServers&) = delete;

  int port() const { return port_; }
  static std::string address(int i) { return "127.0.0." + std::to_string(i + 2); }

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  int port_;
  std::vector<std::unique_ptr<controller::HttpServer>> servers_;
  std::thread thread_;
};

}  // namespace muster::test
