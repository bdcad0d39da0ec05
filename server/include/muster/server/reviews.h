// Who somebody is, and what they may do, as the API server says: TokenReview and SubjectAccessReview.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/client/api.h"

namespace muster::server {

struct User {
  std::string name, uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;
};

// A verb on a resource, or, where `path` is not empty, on a path such as /metrics.
struct Access {
  std::string verb;
  std::string group, resource, ns, name;  // ns, name empty: all
  std::string path;
};

// nullopt: the API server does not know the token, or no longer. The token must not be empty.
client::Task<client::Result<std::optional<User>>> review_token(client::ApiClient& api, std::string token);
client::Task<client::Result<bool>> review_access(client::ApiClient& api, User user, Access access);

// The token of "Bearer <token>"; "": there is none.
std::string bearer_token(const std::string& authorization);
// SHA-256, in hexadecimal digits: what is remembered of a token.
std::string fingerprint(const std::string& secret);
// The same for two users only if the API server would answer the same about both.
std::string fingerprint(const User& user);

// What was found out, until an end, and of at most so many keys. Who comes when it is full takes the place of
// the one whose end is nearest.
template <class Value>
class Cache {
 public:
  explicit Cache(std::size_t most) : most_(most) {}

  // nullptr: it is not known, or its end has come. Good until the next put().
  const Value* find(const std::string& key, client::TimePoint now) const {
    const auto found = entries_.find(key);
    return found == entries_.end() || found->second.until <= now ? nullptr : &found->second.value;
  }
  void put(const std::string& key, Value value, client::TimePoint until) {
    erase(key);
    if (entries_.size() >= most_) erase(std::string(by_end_.begin()->second));
    entries_.emplace(key, Entry{std::move(value), until});
    by_end_.emplace(until, key);
  }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Value value;
    client::TimePoint until;
  };
  void erase(const std::string& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    auto [at, end] = by_end_.equal_range(found->second.until);
    while (at != end && at->second != key) ++at;
    if (at != end) by_end_.erase(at);
    entries_.erase(found);
  }

  std::size_t most_;
  std::map<std::string, Entry> entries_;
  std::multimap<client::TimePoint, std::string> by_end_;
};

}  // namespace muster::server
