// Ports of a job that people reach, and how.
#pragma once

#include <cstdint>
#include <string>

#include "muster/crds/common.h"

namespace muster::crds {

// A port of the first pod that people are to reach.
struct ExposedPort {
  std::string name;  // in its job
  std::int32_t port = 0;
  std::string path;  // where it begins; empty: at the root

  static constexpr auto fields() {
    using T = ExposedPort;
    return fields_of(field("name", &T::name), field("port", &T::port), field("path", &T::path));
  }
  bool operator==(const ExposedPort&) const = default;
};

// How an exposed port is reached.
struct Endpoint {
  std::string name;            // that of spec.expose
  std::string service;         // the Service that leads to it
  std::string url;             // from inside the cluster
  std::string port_forward;    // JSON "portForward": the command that brings it to one's own machine
  std::string external_url{};  // JSON "externalURL": by the Project's gateway; empty: none leads there

  static constexpr auto fields() {
    using T = Endpoint;
    return fields_of(field("name", &T::name), field("service", &T::service), field("url", &T::url),
                     field("portForward", &T::port_forward), field("externalURL", &T::external_url));
  }
  bool operator==(const Endpoint&) const = default;
};

}  // namespace muster::crds
