// The activator: holds requests for InferenceServices that have no replica, until one is ready.
#pragma once

#include <cstddef>
#include <expected>
#include <functional>
#include <string>

#include "muster/client/config.h"
#include "muster/client/environment.h"

namespace muster::activator {

struct Bounds {
  std::size_t requests = 1000;  // held at once for one service
  // Held at once in all: heads, also those that are still coming, and what of bodies came with them. A
  // quarter at most is of heads that are still coming for one service.
  std::size_t bytes = 64 << 20;
  std::size_t connections = 20'000;            // at once, of all services
  std::size_t connections_of_service = 5'000;  // of one
  std::size_t per_replica = 100;               // requests that one replica gets from this activator at once
  client::Duration time = std::chrono::minutes{10};  // a request is held so long
};

struct ActivatorOptions {
  client::ClientConfig config;          // watches InferenceServices and EndpointSlices
  std::string address = "::";           // where it listens for services, at the port of each
  std::string admin_address = ":8080";  // /healthz, /readyz, /metrics and /demand
  Bounds bounds{};
  client::Duration drain = std::chrono::seconds{60};              // after SIGTERM, for what it has passed on
  std::function<void(const std::string& what)> warn{}, inform{};  // a sentence
};

// Serves until the process gets SIGINT or SIGTERM. The error says why it cannot listen.
std::expected<void, std::string> serve(ActivatorOptions options);

}  // namespace muster::activator
