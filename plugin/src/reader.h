// Reads Muster's objects with the rights of whoever calls.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "muster/client/api.h"
#include "muster/client/config.h"
#include "muster/client/curl_transport.h"
#include "muster/client/pod.h"
#include "muster/crds/crds.h"

namespace muster::plugin {

class Reader {
 public:
  explicit Reader(const client::ClientConfig& config);

  // Waits for the answer. Kind is one of Queue, Project, NodePool, TrainingJob, InferenceService. The error
  // of an object that cannot be read names it. `ns` empty: of all namespaces.
  template <class Kind>
  client::Result<std::vector<Kind>> list(const std::string& ns = {});
  template <class Kind>
  client::Result<Kind> get(const std::string& ns, const std::string& name);

  client::Result<std::vector<client::Node>> nodes();

  crds::Time now() const;

 private:
  template <class T>
  T wait_for(client::Task<T> task);

  boost::asio::io_context io_{1};
  client::RealClock clock_;
  client::RandomSource random_;
  client::Environment env_;
  client::CurlTransport transport_;
  client::ApiClient api_;
};

}  // namespace muster::plugin
