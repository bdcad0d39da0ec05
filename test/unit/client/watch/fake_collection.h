// One collection of an API server in memory: list in pages, watch, streaming list, versions, compaction,
// bookmarks. Faults are the business of whoever uses it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "muster/client/informer.h"
#include "muster/client/testing/fake_transport.h"

namespace muster::client::testing {

struct Thing {
  Meta meta;
  std::int64_t value = 0;
};

inline Result<Thing> decode_thing(std::string_view json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  Error bad;
  bad.code = ErrorCode::kDecode;
  if (!parsed.is_object() || !parsed.contains("value") || !parsed["value"].is_number_integer()) {
    bad.message = "value is missing";
    return std::unexpected(bad);
  }
  const auto& m = parsed["metadata"];
  Thing thing;
  thing.meta = {m.value("namespace", ""), m["name"], m["uid"], m["resourceVersion"]};
  thing.value = parsed["value"];
  return thing;
}

inline std::string thing_json(const Meta& m, std::int64_t value) {
  return R"({"apiVersion":"v1","kind":"Thing","metadata":{"name":")" + m.name + R"(","namespace":")" + m.ns +
         R"(","uid":")" + m.uid + R"(","resourceVersion":")" + m.resource_version + R"("},"value":)" +
         std::to_string(value) + "}";
}

inline std::string event_line(std::string_view type, std::string_view object) {
  return R"({"type":")" + std::string{type} + R"(","object":)" + std::string{object} + "}\n";
}

inline std::string bookmark_line(std::uint64_t version, bool ends_initial) {
  return event_line(
      "BOOKMARK", R"({"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":")" +
                      std::to_string(version) + R"(","creationTimestamp":null)" +
                      (ends_initial ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "") + "}}");
}

inline std::string status_json(int code, std::string_view reason, std::string_view message = "fault") {
  return R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":")" +
         std::string{message} + R"(","reason":")" + std::string{reason} + R"(","code":)" +
         std::to_string(code) + "}";
}

inline HttpResponse json_answer(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.headers.emplace_back("content-type", "application/json");
  response.body = std::move(body);
  return response;
}

class FakeCollection {
 public:
  struct Change {
    std::uint64_t version;
    std::string type;
    std::string object;
  };
  struct Watch {
    std::shared_ptr<FakeStream> stream;
    bool silent = false;  // a connection that is dead without a word
  };

  explicit FakeCollection(FakeTransport& transport) {
    transport.set_handler([this](const HttpRequest& request) { return answer(request.target); });
    transport.set_stream_handler([this](const HttpRequest& request, std::shared_ptr<FakeStream> stream) {
      return open(request.target, std::move(stream));
    });
  }

  bool streaming = true;  // understands sendInitialEvents

  const std::map<std::string, Thing>& things() const { return things_; }
  std::uint64_t version() const { return version_; }
  // Every (uid, version) there ever was.
  bool ever_was(const Meta& meta) const { return history_.contains({meta.uid, meta.resource_version}); }
  std::vector<Watch>& watches() { return watches_; }

  void set(const std::string& name, std::int64_t value) {
    auto it = things_.find(name);
    const bool is_new = it == things_.end();
    Thing& thing = things_[name];
    if (is_new) thing.meta = {"ns", name, "uid-" + std::to_string(++next_uid_), ""};
    thing.value = value;
    thing.meta.resource_version = std::to_string(++version_);
    publish(is_new ? "ADDED" : "MODIFIED", thing);
  }
  void erase(const std::string& name) {
    auto it = things_.find(name);
    if (it == things_.end()) return;
    Thing last = it->second;
    things_.erase(it);
    last.meta.resource_version = std::to_string(++version_);
    publish("DELETED", last);
  }
  void compact() { compacted_ = version_; }
  void send_bookmarks() {
    for (Watch& watch : watches_) send(watch, bookmark_line(version_, false));
  }
  void send_to_all(const std::string& bytes) {
    for (Watch& watch : watches_) send(watch, bytes);
  }
  void forget_gone() {
    std::erase_if(watches_, [](const Watch& watch) { return watch.stream->client_gone(); });
  }

  static std::string parameter(const std::string& target, const std::string& name) {
    for (const char* lead : {"?", "&"}) {
      const std::string key = lead + name + "=";
      const auto at = target.find(key);
      if (at == std::string::npos) continue;
      const auto begin = at + key.size();
      return target.substr(begin, target.find('&', begin) - begin);
    }
    return {};
  }

 private:
  static void send(Watch& watch, const std::string& bytes) {
    if (!watch.silent) watch.stream->push(bytes);
  }

  void publish(const std::string& type, const Thing& thing) {
    history_.emplace(thing.meta.uid, thing.meta.resource_version);
    log_.push_back({version_, type, thing_json(thing.meta, thing.value)});
    for (Watch& watch : watches_) send(watch, event_line(type, log_.back().object));
  }

  HttpResponse answer(const std::string& target) {
    const std::string token = parameter(target, "continue");
    const std::size_t limit = static_cast<std::size_t>(std::atoi(parameter(target, "limit").c_str()));
    std::map<std::string, Thing> view = things_;
    std::uint64_t at = version_;
    if (!token.empty()) {
      auto page = pages_.find(token);
      if (page == pages_.end() || page->second.first < compacted_) {
        return json_answer(410, status_json(410, "Expired", "The provided continue parameter is too old"));
      }
      at = page->second.first;
      view = page->second.second;
    }
    std::string items, next;
    std::size_t n = 0;
    while (!view.empty() && (limit == 0 || n < limit)) {
      const Thing& thing = view.begin()->second;
      items += (n++ > 0 ? "," : "") + thing_json(thing.meta, thing.value);
      view.erase(view.begin());
    }
    if (!view.empty()) {
      next = "token" + std::to_string(++next_token_);
      pages_[next] = {at, std::move(view)};
    }
    return json_answer(200, R"({"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":")" +
                                std::to_string(at) + R"(","continue":")" + next + R"("},"items":[)" + items +
                                "]}");
  }

  static HttpResponse refuse(FakeStream& stream, int status, std::string body) {
    stream.push(std::move(body));
    stream.finish();
    return json_answer(status, {});
  }

  std::optional<HttpResponse> open(const std::string& target, std::shared_ptr<FakeStream> stream) {
    if (parameter(target, "watch") != "true") return std::nullopt;
    const bool initial = parameter(target, "sendInitialEvents") == "true";
    if (initial && !streaming) {
      return refuse(*stream, 422,
                    status_json(422, "Invalid", "sendInitialEvents: Forbidden: is not supported"));
    }
    if (initial) {
      for (const auto& [name, thing] : things_)
        stream->push(event_line("ADDED", thing_json(thing.meta, thing.value)));
      stream->push(bookmark_line(version_, true));
    } else {
      const std::uint64_t from = std::stoull(parameter(target, "resourceVersion"));
      if (from < compacted_)
        return refuse(*stream, 410, status_json(410, "Expired", "too old resource version"));
      for (const Change& change : log_) {
        if (change.version > from) stream->push(event_line(change.type, change.object));
      }
    }
    watches_.push_back({stream, false});
    return json_answer(200, {});
  }

  std::map<std::string, Thing> things_;
  std::set<std::pair<std::string, std::string>> history_;
  std::vector<Change> log_;
  std::vector<Watch> watches_;
  std::map<std::string, std::pair<std::uint64_t, std::map<std::string, Thing>>> pages_;
  std::uint64_t version_ = 1, compacted_ = 0, next_uid_ = 0, next_token_ = 0;
};

// Follows what a Store's handlers hear and complains about what must never be: per key Added, Updated…,
// Deleted of one uid, versions that grow, states that never were.
class HandlerJudge {
 public:
  explicit HandlerJudge(const FakeCollection& server) : server_(server) {}

  void hear(const StoreEvent<Thing>& event) {
    if (const auto* a = std::get_if<Added<Thing>>(&event)) {
      note("+", *a->now);
      if (known_.contains(a->now->meta.key())) complain("added twice", *a->now);
      known_[a->now->meta.key()] = a->now;
    } else if (const auto* u = std::get_if<Updated<Thing>>(&event)) {
      note("~", *u->now);
      auto it = known_.find(u->now->meta.key());
      if (it == known_.end() || it->second != u->before)
        return complain("updated from what was never told", *u->now);
      if (u->before->meta.uid != u->now->meta.uid) complain("updated to another uid", *u->now);
      const auto order =
          compare_resource_versions(u->before->meta.resource_version, u->now->meta.resource_version);
      if (order != std::partial_ordering::less) complain("updated backwards", *u->now);
      it->second = u->now;
    } else if (const auto* d = std::get_if<Deleted<Thing>>(&event)) {
      note("-", *d->last);
      auto it = known_.find(d->last->meta.key());
      if (it == known_.end()) return complain("deleted what was never told", *d->last);
      if (it->second->meta.uid != d->last->meta.uid) complain("deleted another uid", *d->last);
      known_.erase(it);
    } else {
      log_ += "synced\n";
    }
  }

  const std::string& log() const { return log_; }
  const std::vector<std::string>& complaints() const { return complaints_; }
  const std::map<Key, Ptr<Thing>>& known() const { return known_; }

 private:
  void note(const char* what, const Thing& thing) {
    log_ += what + thing.meta.key() + " " + thing.meta.uid + " " + thing.meta.resource_version + "\n";
    if (!server_.ever_was(thing.meta)) complain("never was", thing);
  }
  void complain(const std::string& what, const Thing& thing) {
    complaints_.push_back(what + ": " + thing.meta.key() + " " + thing.meta.uid + " " +
                          thing.meta.resource_version);
  }

  const FakeCollection& server_;
  std::map<Key, Ptr<Thing>> known_;
  std::string log_;
  std::vector<std::string> complaints_;
};

inline const Resource kThings{"", "v1", "things"};

}  // namespace muster::client::testing
