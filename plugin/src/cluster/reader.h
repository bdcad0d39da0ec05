// Asks the API server with the rights of whoever calls.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/client/api.h"
#include "muster/client/config.h"
#include "muster/client/curl_transport.h"
#include "muster/client/pod.h"
#include "muster/crds/crds.h"

namespace muster::plugin {

// Of a kind of Muster.
template <class Kind>
client::Resource resource_of() {
  return {std::string(crds::kGroup), std::string(crds::kVersion), std::string(Kind::kPlural),
          Kind::kNamespaced};
}

// Each call waits for its answer.
class Reader {
 public:
  explicit Reader(const client::ClientConfig& config);

  // Kind is one of Queue, Project, NodePool, TrainingJob, InferenceService. The error of an object that
  // cannot be read names it. `ns` empty: of all namespaces.
  template <class Kind>
  client::Result<std::vector<Kind>> list(const std::string& ns = {});
  template <class Kind>
  client::Result<Kind> get(const std::string& ns, const std::string& name);
  client::Result<std::vector<client::Node>> nodes();

  // The same of any kind, as it came.
  client::Result<std::vector<crds::Json>> list_json(const client::Resource& resource, const std::string& ns,
                                                    const std::string& label_selector = {});

  client::Result<crds::Json> create(const client::Resource& resource, const std::string& ns,
                                    const crds::Json& object);
  // A merge patch. `subresource` empty: of the object itself.
  client::Result<crds::Json> patch(const client::Resource& resource, client::ObjectRef ref,
                                   const crds::Json& body, const std::string& subresource = {});

  crds::Time now() const;

  // For what is more than one question: the loop runs until `task` has ended.
  template <class T>
  T wait_for(client::Task<T> task) {
    std::optional<T> result;
    client::spawn(env_.executor, keep(std::move(task), result));
    io_.restart();
    while (!result) io_.run_one();
    return std::move(*result);
  }
  client::Transport& transport() { return transport_; }
  const client::Environment& environment() const { return env_; }

 private:
  template <class T>
  static client::Task<void> keep(client::Task<T> task, std::optional<T>& result) {
    result = co_await std::move(task);
  }

  boost::asio::io_context io_{1};
  client::RealClock clock_;
  client::RandomSource random_;
  client::Environment env_;
  client::CurlTransport transport_;
  client::ApiClient api_;
};

}  // namespace muster::plugin
