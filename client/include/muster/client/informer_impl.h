// The bodies of informer.h's templates.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "muster/client/informer.h"

namespace muster::client {

namespace detail {
// True if `a` is surely older than `b`.
inline bool older(std::string_view a, std::string_view b) {
  return compare_resource_versions(a, b) == std::partial_ordering::less;
}
// Logs the 1st, 2nd, 4th, 8th… error of a kind. Never the object's text: it may hold secrets.
void log_decode_error(std::string_view plural, std::uint64_t count, const Error& error);
}  // namespace detail

// --- what readers call

template <Cached T>
void Store<T>::add_handler(Handler handler) {
  handlers_.push_back(std::move(handler));
}

template <Cached T>
void Store<T>::add_index(std::string name, IndexFn fn) {
  if (!objects_.empty()) throw std::logic_error("Store: index " + name + " is added after the first object");
  indexes_[std::move(name)].fn = std::move(fn);
}

template <Cached T>
Ptr<T> Store<T>::find(const Key& key) const {
  const auto it = objects_.find(key);
  return it == objects_.end() ? nullptr : it->second;
}

template <Cached T>
const std::map<Key, Ptr<T>>& Store<T>::all() const {
  return objects_;
}

template <Cached T>
std::vector<Ptr<T>> Store<T>::by_index(std::string_view name, const std::string& value) const {
  const auto index = indexes_.find(name);
  if (index == indexes_.end()) throw std::logic_error("Store: there is no index " + std::string{name});
  std::vector<Ptr<T>> found;
  const auto it = index->second.by_value.find(value);
  if (it == index->second.by_value.end()) return found;
  found.reserve(it->second.size());
  for (const auto& [key, object] : it->second) found.push_back(object);
  return found;
}

template <Cached T>
std::size_t Store<T>::size() const {
  return objects_.size();
}

template <Cached T>
bool Store<T>::synced() const {
  return synced_;
}

// --- own writes

template <Cached T>
void Store<T>::assume(T object) {
  const Meta& meta = object.meta;
  const Key key = meta.key();
  // The watch has shown all there was up to version_: if this is not in the store by then, it is gone
  // already.
  if (!version_.empty() && !detail::older(version_, meta.resource_version)) return;
  if (is_assumed_deleted(key, object)) return;
  const Ptr<T> before = find(key);
  if (before && !detail::older(before->meta.resource_version, meta.resource_version)) return;
  assumed_.insert(key);
  put(key, std::make_shared<const T>(std::move(object)));
}

template <Cached T>
void Store<T>::assume_deleted(const Key& key, const std::string& uid) {
  const Ptr<T> known = find(key);
  if (!known || known->meta.uid != uid) return;
  assumed_deleted_[key] = uid;
  remove(key, known);
}

template <Cached T>
bool Store<T>::is_assumed_deleted(const Key& key, const T& object) const {
  const auto it = assumed_deleted_.find(key);
  return it != assumed_deleted_.end() && it->second == object.meta.uid;
}

// --- what the watch says

template <Cached T>
void Store<T>::begin_view() {
  next_view_.clear();
  in_view_ = true;
}

template <Cached T>
void Store<T>::view_object(T object) {
  Key key = object.meta.key();
  next_view_[std::move(key)] = std::make_shared<const T>(std::move(object));
}

// The view as of `view_version`, corrected by own writes that are newer than it.
template <Cached T>
void Store<T>::merge_assumed(std::string_view view_version) {
  for (auto it = assumed_.begin(); it != assumed_.end();) {
    const Ptr<T> own = find(*it);
    const bool ahead = own && detail::older(view_version, own->meta.resource_version);
    if (ahead) next_view_[*it] = own;
    it = ahead ? std::next(it) : assumed_.erase(it);
  }
  for (auto it = assumed_deleted_.begin(); it != assumed_deleted_.end();) {
    const auto seen = next_view_.find(it->first);
    const bool still_there = seen != next_view_.end() && seen->second->meta.uid == it->second;
    if (still_there) next_view_.erase(seen);
    it = still_there ? std::next(it) : assumed_deleted_.erase(it);
  }
}

template <Cached T>
void Store<T>::end_view(std::string_view resource_version) {
  if (!in_view_) return;
  in_view_ = false;
  merge_assumed(resource_version);
  version_ = resource_version;
  const Objects before = std::exchange(objects_, std::exchange(next_view_, {}));
  auto old = before.begin();
  auto now = objects_.begin();
  while (old != before.end() || now != objects_.end()) {
    if (now == objects_.end() || (old != before.end() && old->first < now->first)) {
      replace(old->first, old->second, nullptr);
      ++old;
    } else if (old == before.end() || now->first < old->first) {
      replace(now->first, nullptr, now->second);
      ++now;
    } else {
      const Meta& a = old->second->meta;
      const Meta& b = now->second->meta;
      if (a.uid == b.uid && a.resource_version == b.resource_version) {
        now->second = old->second;
      } else {
        replace(now->first, old->second, now->second);
      }
      ++old;
      ++now;
    }
  }
  if (!std::exchange(synced_, true)) tell(Synced{});
  deliver();
}

template <Cached T>
void Store<T>::apply(T object) {
  const Key key = object.meta.key();
  advance(object.meta.resource_version);
  if (is_assumed_deleted(key, object)) return;
  assumed_deleted_.erase(key);  // another uid: it is known to be gone
  if (const Ptr<T> before = find(key)) {
    const bool same =
        before->meta.uid == object.meta.uid && before->meta.resource_version == object.meta.resource_version;
    const bool stale = detail::older(object.meta.resource_version, before->meta.resource_version);
    if (!stale) assumed_.erase(key);
    if (same || stale) return;
  }
  put(key, std::make_shared<const T>(std::move(object)));
}

template <Cached T>
void Store<T>::erase(T last) {
  const Key key = last.meta.key();
  if (in_view_) {
    next_view_.erase(key);
    return;
  }
  advance(last.meta.resource_version);
  if (is_assumed_deleted(key, last)) assumed_deleted_.erase(key);
  const Ptr<T> known = find(key);
  if (!known) return;
  const bool newer_incarnation = known->meta.uid != last.meta.uid &&
                                 detail::older(last.meta.resource_version, known->meta.resource_version);
  if (newer_incarnation) return;
  const bool same_uid = known->meta.uid == last.meta.uid;
  remove(key, same_uid ? std::make_shared<const T>(std::move(last)) : known);
}

template <Cached T>
void Store<T>::drop(const Meta& meta) {
  const Key key = meta.key();
  if (in_view_) {
    next_view_.erase(key);
    return;
  }
  advance(meta.resource_version);
  if (const Ptr<T> known = find(key)) {
    if (!detail::older(meta.resource_version, known->meta.resource_version)) remove(key, known);
  }
}

template <Cached T>
void Store<T>::advance(std::string_view resource_version) {
  if (in_view_) return;  // end_view says where it is
  if (version_.empty() || detail::older(version_, resource_version)) version_ = resource_version;
}

// --- one change

template <Cached T>
void Store<T>::put(const Key& key, Ptr<T> now) {
  Ptr<T>& place = objects_[key];
  const Ptr<T> before = std::exchange(place, now);
  replace(key, before, now);
  deliver();
}

template <Cached T>
void Store<T>::remove(const Key& key, Ptr<T> last) {
  assumed_.erase(key);
  const auto node = objects_.extract(key);
  index(key, node.mapped(), false);
  tell(Deleted<T>{std::move(last)});
  deliver();
}

// Indexes and handlers hear that `before` (nullptr: nothing) made way for `now` (nullptr: nothing).
template <Cached T>
void Store<T>::replace(const Key& key, const Ptr<T>& before, const Ptr<T>& now) {
  if (before) index(key, before, false);
  if (now) index(key, now, true);
  if (before && now && before->meta.uid == now->meta.uid) {
    tell(Updated<T>{before, now});
    return;
  }
  if (before) tell(Deleted<T>{before});
  if (now) tell(Added<T>{now});
}

template <Cached T>
void Store<T>::index(const Key& key, const Ptr<T>& object, bool add) {
  for (auto& [name, index] : indexes_) {
    for (const std::string& value : index.fn(*object)) {
      if (add) {
        index.by_value[value][key] = object;
        continue;
      }
      const auto it = index.by_value.find(value);
      if (it == index.by_value.end()) continue;
      it->second.erase(key);
      if (it->second.empty()) index.by_value.erase(it);
    }
  }
}

template <Cached T>
void Store<T>::tell(StoreEvent<T> event) {
  if (!handlers_.empty()) untold_.push_back(std::move(event));
}

template <Cached T>
void Store<T>::deliver() {
  if (telling_) return;  // by the call further out, when its handler has returned
  telling_ = true;
  while (!untold_.empty()) {
    const StoreEvent<T> event = std::move(untold_.front());
    untold_.pop_front();
    for (std::size_t i = 0; i < handlers_.size(); ++i) handlers_[i](event);
  }
  telling_ = false;
}

// --- Informer

template <Cached T>
Informer<T>::Informer(ApiClient& api, Resource resource, Decoder<T> decode, WatcherOptions options)
    : plural_(resource.plural),
      decode_(std::move(decode)),
      watcher_(api, std::move(resource), std::move(options),
               [this](const WatchEvent& event) { on_event(event); }) {}

template <Cached T>
std::optional<T> Informer<T>::decoded(std::string_view json) {
  Error error;
  try {
    Result<T> object = decode_(json);
    if (object) return std::move(*object);
    error = std::move(object.error());
  } catch (const std::exception& e) {
    error.code = ErrorCode::kDecode;  // a bug of the decoder: it costs this object, not the watch
    error.message = e.what();
  }
  detail::log_decode_error(plural_, ++decode_errors_, error);
  return std::nullopt;
}

template <Cached T>
void Informer<T>::on_event(const WatchEvent& event) {
  // Its key is still known where the rest of it is not what it should be.
  const auto drop = [this](std::string_view json) {
    if (const Result<Meta> meta = decode_meta(json)) store_.drop(*meta);
  };
  if (std::holds_alternative<InitBegin>(event)) {
    store_.begin_view();
  } else if (const auto* item = std::get_if<InitApply>(&event)) {
    if (auto object = decoded(item->json))
      store_.view_object(std::move(*object));
    else
      drop(item->json);
  } else if (const auto* done = std::get_if<InitDone>(&event)) {
    store_.end_view(done->resource_version);
  } else if (const auto* applied = std::get_if<Applied>(&event)) {
    if (auto object = decoded(applied->json))
      store_.apply(std::move(*object));
    else
      drop(applied->json);
  } else if (const auto* removed = std::get_if<Removed>(&event)) {
    if (auto object = decoded(removed->json))
      store_.erase(std::move(*object));
    else
      drop(removed->json);
  } else if (const auto* bookmark = std::get_if<Bookmark>(&event)) {
    store_.advance(bookmark->resource_version);
  }
}

}  // namespace muster::client
