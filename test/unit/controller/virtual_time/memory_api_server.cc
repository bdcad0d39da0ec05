#include "memory_api_server.h"

#include <algorithm>
#include <utility>

#include "muster/client/object.h"

namespace muster::test {

using client::HttpRequest;
using client::HttpResponse;
using client::Method;
using client::testing::FakeStream;

// "/api/v1/namespaces/team/pods/a/status?…": the collection is "/api/v1/pods", the key "team/a".
struct MemoryApiServer::Address {
  std::string path, collection, ns, name, subresource;
  std::map<std::string, std::string> query;

  explicit Address(const std::string& target) {
    const auto question = target.find('?');
    path = target.substr(0, question);
    std::vector<std::string> parts;
    for (std::size_t at = 1; at <= path.size();) {
      const auto slash = std::min(path.find('/', at), path.size());
      parts.push_back(path.substr(at, slash - at));
      at = slash + 1;
    }
    std::size_t i = parts[0] == "api" ? 2 : 3;
    if (parts.size() <= i) return;  // of a group: no collection
    for (std::size_t k = 0; k < i; ++k) collection += "/" + parts[k];
    if (parts.size() > i + 2 && parts[i] == "namespaces") {
      ns = parts[i + 1];
      i += 2;
    }
    collection += "/" + parts[i++];
    if (i < parts.size()) name = parts[i++];
    if (i < parts.size()) subresource = parts[i];
    for (auto at = question; at != std::string::npos;) {
      const auto next = target.find('&', at + 1);
      const std::string pair = target.substr(at + 1, next - at - 1);
      const auto equals = pair.find('=');
      query[pair.substr(0, equals)] = pair.substr(equals + 1);
      at = next;
    }
  }
  std::string key() const { return client::make_key(ns, name); }
};

namespace {

std::string key_of(const json& object) {
  const auto& meta = object.at("metadata");
  return client::make_key(meta.value("namespace", ""), meta.at("name").get<std::string>());
}

HttpResponse success(int status, const json& object) {
  HttpResponse response;
  response.status = status;
  response.headers.emplace_back("content-type", "application/json");
  response.body = object.dump();
  return response;
}

std::string event_line(const std::string& type, const json& object) {
  const json event = {{"type", type}, {"object", object}};
  return event.dump() + "\n";
}

std::string end_of_initial_events(std::uint64_t version) {
  json mark = {{"kind", "Bookmark"}, {"apiVersion", "v1"}};
  mark["metadata"]["resourceVersion"] = std::to_string(version);
  mark["metadata"]["annotations"]["k8s.io/initial-events-end"] = "true";
  return event_line("BOOKMARK", mark);
}

// The guards that a write may carry in its metadata; the reason of the refusal, or empty.
std::string refused_by_guard(const json& metadata, const json& object) {
  for (const char* field : {"uid", "resourceVersion"}) {
    const std::string wanted = metadata.value(field, "");
    if (!wanted.empty() && object.at("metadata").at(field) != wanted) return field;
  }
  return {};
}

client::Task<void> deliver_later(client::Environment env, client::TimePoint when,
                                 std::shared_ptr<FakeStream> stream, std::string line) {
  co_await env.clock.sleep_until(when);
  stream->push(std::move(line));
}

}  // namespace

void MemoryApiServer::serve(client::testing::FakeTransport& transport) {
  transport.set_handler([this](const HttpRequest& request) { return answer(request); });
  transport.set_stream_handler([this](const HttpRequest& request, std::shared_ptr<FakeStream> stream) {
    return open(request, std::move(stream));
  });
}

HttpResponse MemoryApiServer::failure(int status, const std::string& reason, const std::string& message) {
  return success(status, {{"kind", "Status"},
                          {"apiVersion", "v1"},
                          {"status", "Failure"},
                          {"reason", reason},
                          {"message", message},
                          {"code", status}});
}

const json& MemoryApiServer::put(const std::string& collection, json object) {
  auto& all = objects_[collection];
  auto& meta = object["metadata"];
  const std::string key = key_of(object);
  const auto before = all.find(key);
  const bool is_new = before == all.end();
  if (is_new) {
    meta["uid"] = "uid-" + std::to_string(++next_uid_);
    meta["generation"] = 1;
    meta["creationTimestamp"] = client::format_time(env_.clock.wall());
  } else {
    const auto& old = before->second;
    for (const char* field : {"uid", "creationTimestamp"}) meta[field] = old["metadata"][field];
    meta["generation"] = old["metadata"]["generation"].get<int>() + 1;
    if (old.contains("status")) object["status"] = old["status"];
  }
  json& stored = all[key] = std::move(object);
  publish(is_new ? "ADDED" : "MODIFIED", collection, stored);
  return stored;
}

void MemoryApiServer::set_status(const std::string& collection, const std::string& key, const json& status) {
  const auto found = objects_[collection].find(key);
  if (found == objects_[collection].end()) return;
  found->second["status"] = status;
  publish("MODIFIED", collection, found->second);
}

void MemoryApiServer::erase(const std::string& collection, const std::string& key) {
  auto node = objects_[collection].extract(key);
  if (!node.empty()) publish("DELETED", collection, node.mapped());
}

void MemoryApiServer::break_watches() {
  for (Watch& watch : watches_)
    watch.stream->fail({.code = client::ErrorCode::kUnknownOutcome, .message = "connection lost"});
  watches_.clear();
}

void MemoryApiServer::publish(const std::string& type, const std::string& collection, json& object) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  changes_.push_back({version_, collection, event_line(type, object)});
  std::erase_if(watches_, [](const Watch& watch) { return watch.stream->client_gone(); });
  for (Watch& watch : watches_) {
    if (watch.collection != collection) continue;
    watch.last_due = std::max(watch.last_due, env_.clock.now() + env_.random.between(lag_low_, lag_high_));
    client::spawn(env_.executor, deliver_later(env_, watch.last_due, watch.stream, changes_.back().line));
  }
  if (!on_change) return;
  const json copy = object;  // the listener may change it
  on_change(type, collection, copy);
}

HttpResponse MemoryApiServer::list(const std::string& collection) {
  json all = {{"kind", "List"}, {"apiVersion", "v1"}};
  all["metadata"]["resourceVersion"] = std::to_string(version_);
  all["items"] = json::array();
  for (const auto& [key, object] : objects_[collection]) all["items"].push_back(object);
  return success(200, all);
}

std::optional<HttpResponse> MemoryApiServer::open(const HttpRequest& request,
                                                  std::shared_ptr<FakeStream> stream) {
  Address address(request.target);
  if (address.query["watch"] != "true") return std::nullopt;
  if (address.query["sendInitialEvents"] == "true") {
    for (const auto& [key, object] : objects_[address.collection]) stream->push(event_line("ADDED", object));
    stream->push(end_of_initial_events(version_));
  } else {
    const std::uint64_t from = std::stoull(address.query["resourceVersion"]);
    for (const Change& change : changes_) {
      if (change.version > from && change.collection == address.collection) stream->push(change.line);
    }
  }
  watches_.push_back({address.collection, std::move(stream), env_.clock.now()});
  HttpResponse head;
  head.status = 200;
  return head;
}

HttpResponse MemoryApiServer::answer(const HttpRequest& request) {
  const Address address(request.target);
  const json body = request.body.empty() ? json() : json::parse(request.body);
  HttpResponse response = execute(request.method, address, body);
  executed_.push_back({env_.clock.now(), request.method, address.path, body, response.status});
  if (!distort) return response;
  auto instead = distort(executed_.back());
  return instead ? std::move(*instead) : response;
}

HttpResponse MemoryApiServer::execute(Method method, const Address& address, const json& body) {
  if (address.collection.empty()) return failure(404, "NotFound", address.path + " not found");
  if (method == Method::kPost) return create(address, body);
  if (method == Method::kGet && address.name.empty()) return list(address.collection);
  auto& all = objects_[address.collection];
  const auto found = all.find(address.key());
  if (found == all.end()) return failure(404, "NotFound", address.path + " not found");
  if (method == Method::kGet) return success(200, found->second);
  if (method != Method::kDelete) return change(method, address, body);
  const auto guard = body.value("/preconditions/uid"_json_pointer, std::string());
  if (!guard.empty() && found->second["metadata"]["uid"] != guard) {
    return failure(409, "Conflict", "the UID in the precondition is not the object's");
  }
  json last = found->second;
  if (address.collection == "/api/v1/pods") {
    remove_pod(address.key(), body);
    const auto left = all.find(address.key());
    return success(200, left == all.end() ? last : left->second);
  }
  erase(address.collection, address.key());
  return success(200, last);
}

void MemoryApiServer::remove_pod(const std::string& key, const json& options) {
  const std::string pods = "/api/v1/pods";
  const auto found = objects_[pods].find(key);
  if (found == objects_[pods].end()) return;
  const bool is_forced = options.is_object() && options.value("gracePeriodSeconds", -1) == 0;
  if (!graceful_pods || is_forced) {
    erase(pods, key);
  } else {
    tell_to_go(found->second, options);
  }
}

// With the grace period that is asked for, the pod's own, or Kubernetes' 30 s.
void MemoryApiServer::tell_to_go(json& pod, const json& options) {
  json& meta = pod["metadata"];
  const int own = pod.value("/spec/terminationGracePeriodSeconds"_json_pointer, 30);
  const int grace = options.is_object() ? options.value("gracePeriodSeconds", own) : own;
  if (meta.contains("deletionTimestamp")) return;
  meta["deletionTimestamp"] = client::format_time(env_.clock.wall() + std::chrono::seconds{grace});
  meta["deletionGracePeriodSeconds"] = grace;
  publish("MODIFIED", "/api/v1/pods", pod);
}

HttpResponse MemoryApiServer::create(const Address& address, json object) {
  if (!address.ns.empty()) object["metadata"]["namespace"] = address.ns;
  if (objects_[address.collection].contains(key_of(object))) {
    return failure(409, "AlreadyExists",
                   address.path + "/" + object["metadata"]["name"].get<std::string>() + " already exists");
  }
  const std::string key = key_of(object);
  if (const auto manager = address.query.find("fieldManager"); manager != address.query.end())
    object["metadata"]["managedFields"] = json::array({{{"manager", manager->second}}});
  if (address.collection == "/api/v1/pods") object["status"]["phase"] = "Pending";
  put(address.collection, std::move(object));
  return success(201, objects_[address.collection].at(key));
}

HttpResponse MemoryApiServer::change(Method method, const Address& address, const json& body) {
  json& object = objects_[address.collection].at(address.key());
  const std::string guard = refused_by_guard(body.value("metadata", json::object()), object);
  if (!guard.empty())
    return failure(409, "Conflict", address.path + ": metadata." + guard + " is not the object's");
  json after = object;
  if (address.subresource == "status") {
    after["status"] = body.at("status");  // applied by its only manager: what is left out goes
  } else if (method == Method::kPut) {
    after = body;
  } else {
    after.merge_patch(body);
  }
  if (after != object) {  // else no new version, as on a real one
    object = std::move(after);
    publish("MODIFIED", address.collection, object);
  }
  return success(200, objects_[address.collection].at(address.key()));
}

}  // namespace muster::test
