// An API server in memory for the whole operator in virtual time: the objects of every collection under one
// counter of versions, streaming lists and watches over all namespaces, creation, merge patch, server-side
// apply of a status, update, deletion. It answers as a real one does where Muster can tell the difference
// (codes, reasons, uid and resourceVersion as guards) and is no more than that: no schemas, of field
// ownership no more than who created it, no selectors, no pages.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/client/testing/fake_transport.h"

namespace muster::test {

using nlohmann::json;

class MemoryApiServer {
 public:
  // One request that was executed, in the server's order.
  struct Executed {
    client::TimePoint at;
    client::Method method;
    std::string path;  // without the query
    json body;         // null where there was none
    int status;        // before `distort`
  };

  // It outlives every request.
  explicit MemoryApiServer(client::Environment env) : env_(env) {}
  // Answers what this client sends.
  void serve(client::testing::FakeTransport& transport);

  // Watches hear of a change after a time uniform between these; each in the order of the changes.
  void set_watch_lag(client::Duration low, client::Duration high) { lag_low_ = low, lag_high_ = high; }
  // Asked after a request was executed: the answer that the client gets instead, the effect stands.
  std::function<std::optional<client::HttpResponse>(const Executed&)> distort;
  // Heard of every change, with the server's state already changed.
  std::function<void(const std::string& type, const std::string& collection, const json& object)> on_change;

  // Pods that are deleted are told so and stay until somebody erases them, as where a kubelet ends them.
  bool graceful_pods = false;

  // What others than the operator do. `collection` is the path over all namespaces: "/api/v1/pods".
  const json& put(const std::string& collection, json object);  // created, or replaced with a new generation
  void set_status(const std::string& collection, const std::string& key, const json& status);
  void erase(const std::string& collection, const std::string& key);
  // Deletes a pod as a client would: where `graceful_pods` is set it is told to go, and stays until somebody
  // erases it. Nothing happens if there is no such pod.
  void remove_pod(const std::string& key, const json& options = nullptr);
  // Ends every open watch, as a restart of the server does.
  void break_watches();

  const std::map<std::string, json>& objects(const std::string& collection) { return objects_[collection]; }
  const json& object(const std::string& collection, const std::string& key) {
    return objects_[collection].at(key);
  }
  const std::vector<Executed>& executed() const { return executed_; }

  static client::HttpResponse failure(int status, const std::string& reason, const std::string& message);

 private:
  struct Change {
    std::uint64_t version;
    std::string collection;
    std::string line;
  };
  struct Watch {
    std::string collection;
    std::shared_ptr<client::testing::FakeStream> stream;
    client::TimePoint last_due;
  };
  struct Address;  // of a request

  client::HttpResponse answer(const client::HttpRequest& request);
  client::HttpResponse execute(client::Method method, const Address& address, const json& body);
  client::HttpResponse create(const Address& address, json object);
  void tell_to_go(json& pod, const json& options);
  client::HttpResponse change(client::Method method, const Address& address, const json& body);
  std::optional<client::HttpResponse> open(const client::HttpRequest& request,
                                           std::shared_ptr<client::testing::FakeStream> stream);
  void publish(const std::string& type, const std::string& collection, json& object);
  client::HttpResponse list(const std::string& collection);

  client::Environment env_;
  client::Duration lag_low_{}, lag_high_{};
  std::map<std::string, std::map<std::string, json>> objects_;  // by collection, by key
  std::vector<Change> changes_;
  std::vector<Watch> watches_;
  std::vector<Executed> executed_;
  std::uint64_t version_ = 100, next_uid_ = 0;
};

}  // namespace muster::test
