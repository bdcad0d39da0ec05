#include "muster/client/events.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <list>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/client/object.h"
#include "muster/client/waiter.h"

namespace muster::client {

namespace {

using nlohmann::json;

constexpr std::size_t kMaxUnsent = 1000;
constexpr std::size_t kMaxSeries = 4096;
constexpr Duration kSeriesGap = std::chrono::minutes{6};       // a series ends with a pause longer than this
constexpr Duration kSeriesUpdates = std::chrono::seconds{10};  // its count is written at most this often
constexpr Duration kFlushTime = std::chrono::seconds{2};
constexpr int kTries = 3;
// Limits of events.k8s.io/v1.
constexpr std::size_t kMaxNoteLength = 1024, kMaxWordLength = 128, kMaxNameLength = 253;

// At most `bytes`, without cutting a UTF-8 character in two.
std::string cut(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  text.resize(bytes);
  return text;
}

std::string hex(std::uint64_t n) {
  std::string out(16, '0');
  for (auto it = out.rbegin(); it != out.rend(); ++it, n >>= 4) *it = "0123456789abcdef"[n & 15];
  return out;
}

}  // namespace

struct EventRecorder::Impl {
  Impl(ApiClient& a, std::string c, std::string i)
      : env(a.environment()),
        api(a),
        controller(std::move(c)),
        instance(cut(std::move(i), kMaxWordLength)),
        next_name(env.random.below(std::uint64_t{1} << 63)),
        waiter(env.executor) {}

  // What makes two events one series.
  using Same = std::array<std::string, 9>;

  struct Series {
    EventTarget target;
    EventType type{};
    std::string reason, action, note;
    std::string name;
    WallTime first{}, last{};
    TimePoint last_seen{}, next_update{};
    std::int64_t count = 1;
    std::int64_t written = 0;  // count that the server knows; 0: no object yet
    int failures = 0;
    bool unsent = false;  // in `queue`
  };
  using Entry = std::map<Same, Series>::iterator;

  Environment env;
  ApiClient& api;
  std::string controller, instance;
  std::uint64_t next_name;
  Waiter waiter;
  std::map<Same, Series> series;
  std::list<Entry> queue;     // first in, first out; each entry once
  Series* sending = nullptr;  // must stay where it is
  std::uint64_t dropped = 0;

  std::string new_name(const EventTarget& target) {
    const std::string suffix = "." + hex(next_name++);
    std::string base = target.name.substr(0, kMaxNameLength - suffix.size());
    while (!base.empty() && (base.back() == '.' || base.back() == '-')) base.pop_back();
    return base + suffix;
  }

  void enqueue(Entry entry) {
    if (std::exchange(entry->second.unsent, true)) return;
    while (queue.size() >= kMaxUnsent) {
      Entry oldest = queue.front();
      queue.pop_front();
      oldest->second.unsent = false;
      ++dropped;
      if (oldest->second.written == 0 && &oldest->second != sending) series.erase(oldest);
    }
    queue.push_back(entry);
    waiter.notify();
  }

  // What is over is forgotten; what is left is bounded.
  void sweep() {
    const TimePoint now = env.clock.now();
    for (Entry it = series.begin(); it != series.end();) {
      const bool over = now - it->second.last_seen > kSeriesGap;
      const bool idle = !it->second.unsent && &it->second != sending;
      it = over && idle ? series.erase(it) : std::next(it);
    }
    while (series.size() >= kMaxSeries) {
      Entry oldest = series.end();
      for (Entry it = series.begin(); it != series.end(); ++it) {
        if (it->second.unsent || &it->second == sending) continue;
        if (oldest == series.end() || it->second.last_seen < oldest->second.last_seen) oldest = it;
      }
      if (oldest == series.end()) return;
      series.erase(oldest);
    }
  }

  void record(const EventTarget& target, EventType type, std::string reason, std::string action,
              std::string note) {
    reason = cut(std::move(reason), kMaxWordLength);
    action = cut(std::move(action), kMaxWordLength);
    note = cut(std::move(note), kMaxNoteLength);
    Same same{target.api_version,
              target.kind,
              target.ns,
              target.name,
              target.uid,
              type == EventType::kWarning ? "Warning" : "Normal",
              reason,
              action,
              note};
    const TimePoint now = env.clock.now();
    Entry entry = series.find(same);
    const bool goes_on = entry != series.end() && now - entry->second.last_seen <= kSeriesGap;
    if (goes_on) {
      Series& s = entry->second;
      ++s.count;
      s.last = env.clock.wall();
      s.last_seen = now;
      if (s.written == 0 || now >= s.next_update)
        enqueue(entry);
      else
        waiter.notify();  // run() looks at what is due later
      return;
    }
    if (entry != series.end() && (entry->second.unsent || &entry->second == sending)) {
      ++dropped;  // the last one is stuck for minutes
      return;
    }
    if (entry != series.end()) series.erase(entry);
    if (series.size() >= kMaxSeries) sweep();
    Series s{target,
             type,
             std::move(reason),
             std::move(action),
             std::move(note),
             new_name(target),
             env.clock.wall(),
             env.clock.wall(),
             now,
             now};
    enqueue(series.emplace(std::move(same), std::move(s)).first);
  }

  json series_json(const Series& s) const {
    return json{{"count", s.count}, {"lastObservedTime", format_micro_time(s.last)}};
  }

  static std::string namespace_of(const Series& s) { return s.target.ns.empty() ? "default" : s.target.ns; }

  std::string new_event(const Series& s) const {
    json regarding{{"apiVersion", s.target.api_version}, {"kind", s.target.kind}, {"name", s.target.name}};
    if (!s.target.ns.empty()) regarding["namespace"] = s.target.ns;
    if (!s.target.uid.empty()) regarding["uid"] = s.target.uid;
    json event{{"apiVersion", "events.k8s.io/v1"},
               {"kind", "Event"},
               {"metadata", {{"name", s.name}, {"namespace", namespace_of(s)}}},
               {"eventTime", format_micro_time(s.first)},
               {"reportingController", controller},
               {"reportingInstance", instance},
               {"type", s.type == EventType::kWarning ? "Warning" : "Normal"},
               {"reason", s.reason},
               {"action", s.action},
               {"note", s.note},
               {"regarding", std::move(regarding)}};
    if (s.count > 1) event["series"] = series_json(s);
    return event.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  // Both writes may be repeated: the first has a name of its own, the second says how it is, not what to add.
  Task<Result<std::string>> write(const Series& s) {
    if (s.written == 0) return api.create(resources::kEvents, namespace_of(s), new_event(s), controller);
    ObjectRef ref;
    ref.ns = namespace_of(s);
    ref.name = s.name;
    json body;
    body["series"] = series_json(s);
    return api.patch(resources::kEvents, std::move(ref), body.dump(), PatchOptions{});
  }

  Task<void> send(Entry entry) {
    Series& s = entry->second;
    sending = &s;
    s.unsent = false;
    const std::int64_t count = s.count;
    Result<std::string> answer = co_await write(s);
    sending = nullptr;
    if (answer || answer.error().code == ErrorCode::kAlreadyExists) {
      s.written = answer ? count : 1;
      s.failures = 0;
      s.next_update = env.clock.now() + kSeriesUpdates;
      co_return;
    }
    const Error& error = answer.error();
    const bool expired = error.code == ErrorCode::kNotFound && s.written > 0;
    if (expired) {
      s.written = 0;
      s.name = new_name(s.target);
    }
    const bool again = expired || error.safe_to_repeat() || error.outcome_unknown();
    if (again && ++s.failures < kTries) {
      enqueue(entry);
      co_return;
    }
    ++dropped;
    spdlog::debug("event {} of {} {}: not recorded: {}", s.reason, s.target.kind, s.target.name,
                  to_string(error));
    if (!s.unsent) series.erase(entry);
  }

  // Series whose count has grown and whose time has come. Returns when the next one's will; max: none waits.
  TimePoint enqueue_due() {
    TimePoint next = TimePoint::max();
    const TimePoint now = env.clock.now();
    for (Entry it = series.begin(); it != series.end(); ++it) {
      Series& s = it->second;
      if (s.unsent || s.written == 0 || s.count == s.written || &s == sending) continue;
      if (s.next_update <= now)
        enqueue(it);
      else
        next = std::min(next, s.next_update);
    }
    return next;
  }

  Task<void> send_all() {
    while (!queue.empty()) {
      if (co_await is_cancelled()) co_return;
      Entry entry = queue.front();
      queue.pop_front();
      co_await send(entry);
    }
  }

  Task<void> wait_until(TimePoint when) { co_await env.clock.sleep_until(when); }
};

EventRecorder::EventRecorder(ApiClient& api, std::string controller, std::string instance)
    : impl_(std::make_unique<Impl>(api, std::move(controller), std::move(instance))) {}
EventRecorder::~EventRecorder() = default;

void EventRecorder::record(const EventTarget& regarding, EventType type, std::string reason,
                           std::string action, std::string note) {
  impl_->record(regarding, type, std::move(reason), std::move(action), std::move(note));
}

Task<void> EventRecorder::run() {
  using boost::asio::experimental::awaitable_operators::operator||;
  Impl& impl = *impl_;
  while (true) {
    co_await impl.send_all();
    if (co_await is_cancelled()) break;
    const TimePoint due = impl.enqueue_due();
    if (!impl.queue.empty()) continue;
    const Wake wake = co_await impl.waiter.wait_until(impl.env.clock, due);
    if (wake == Wake::kCancelled) break;
  }
  co_await boost::asio::this_coro::reset_cancellation_state();
  for (auto& [same, series] : impl.series) series.next_update = TimePoint{};
  impl.enqueue_due();
  const TimePoint until = impl.env.clock.now() + kFlushTime;
  co_await (impl.send_all() || impl.wait_until(until));
}

std::uint64_t EventRecorder::dropped() const {
  return impl_->dropped;
}

}  // namespace muster::client
