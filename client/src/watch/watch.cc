#include "muster/client/watch.h"

#include <simdjson.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "http/retry_after.h"
#include "muster/client/informer_impl.h"
#include "watch/watch_event.h"

namespace muster::client {

namespace {

// What one step found.
enum class Outcome : std::uint8_t {
  kOpened,    // the server answers with a stream
  kPaged,     // no streaming list here: pages
  kMore,      // events, or a page, and more to come
  kComplete,  // the view is complete
  kEnded,     // the server ended the watch, as it does every few minutes
  kSilent,    // nothing came for longer than a healthy connection is silent
  kGone,      // 410, wherever it was said: the version is too old, list again
  kRefused,   // the request as such is not taken (400, 422…)
  kFailed,    // anything else
};

struct Transition {
  WatchState next;
  bool back_off = false;
};

// Every transition there is.
Transition transition(WatchState state, Outcome outcome) {
  using enum WatchState;
  using enum Outcome;
  constexpr bool kBackOff = true;
  switch (state) {
    case kEmpty:
      if (outcome == kOpened) return {kInitialWatch};
      if (outcome == kPaged) return {kListing};
      if (outcome == kRefused) return {kEmpty};  // pages from now on
      return {kEmpty, kBackOff};
    case kInitialWatch:
      if (outcome == kMore) return {kInitialWatch};
      if (outcome == kComplete) return {kWatching};  // on the same stream
      return {kEmpty, kBackOff};                     // half a view is none
    case kListing:
      if (outcome == kMore) return {kListing};
      if (outcome == kComplete) return {kListed};
      if (outcome == kGone || outcome == kRefused) return {kEmpty, kBackOff};  // never pages of two versions
      return {kListing, kBackOff};                                             // the same page again
    case kListed:
      if (outcome == kOpened) return {kWatching};
      if (outcome == kGone || outcome == kRefused) return {kEmpty, kBackOff};
      return {kListed, kBackOff};
    case kWatching:
      if (outcome == kMore) return {kWatching};
      if (outcome == kEnded || outcome == kSilent) return {kListed};
      if (outcome == kGone) return {kEmpty, kBackOff};
      return {kListed, kBackOff};  // on from the last version seen
  }
  return {kEmpty, kBackOff};
}

constexpr std::size_t kMaxLine = 16 << 20;  // many times what etcd takes as one object
constexpr int kStreamingTries = 2;          // then pages, for once: progress is better than insisting
constexpr int kGarbageTries = 3;            // at one version; then a new view
constexpr int kJitterPercent = 50;
constexpr Duration kShortWatch = std::chrono::seconds{1};

Error decode_error(std::string message) {
  Error error;
  error.code = ErrorCode::kDecode;
  error.message = std::move(message);
  return error;
}

bool is_refusal(const Error& error) {
  switch (error.code) {
    case ErrorCode::kBadRequest:
    case ErrorCode::kInvalid:
    case ErrorCode::kMethodNotAllowed:
    case ErrorCode::kNotAcceptable:
    case ErrorCode::kUnsupportedMediaType:
      return true;
    default:
      return false;
  }
}

// Errors that come one after the other fill no log.
bool is_power_of_two(std::uint64_t n) {
  return n != 0 && (n & (n - 1)) == 0;
}

// A server whose data went back in time (a restored backup) says it so; no waiting helps.
bool is_ahead_of_server(const Error& error) {
  constexpr std::string_view kWords = "Too large resource version";
  return error.message.contains(kWords) ||
         std::ranges::any_of(error.causes, [&](const std::string& cause) { return cause.contains(kWords); });
}

// fn(text) for each of the list's items. kDecode: it has none.
template <class Fn>
Result<void> each_item(std::string& body, Fn fn) {
  thread_local simdjson::ondemand::parser parser;
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  const simdjson::padded_string_view padded(body.data(), body.size(), body.capacity());
  simdjson::ondemand::document document;
  simdjson::ondemand::value items;
  auto error = parser.iterate(padded).get(document);
  if (!error) error = document["items"].get(items);
  if (!error && items.is_null()) return {};
  simdjson::ondemand::array array;
  if (!error) error = items.get_array().get(array);
  if (!error) {
    for (auto item : array) {
      simdjson::ondemand::object object;
      std::string_view text;
      error = item.get_object().get(object);
      if (!error) error = object.raw_json().get(text);
      if (error) break;
      fn(text);
    }
  }
  if (!error) return {};
  return std::unexpected(decode_error(std::string{"list: items: "} + simdjson::error_message(error)));
}

}  // namespace

std::string_view to_string(WatchState state) {
  switch (state) {
    case WatchState::kEmpty:
      return "Empty";
    case WatchState::kInitialWatch:
      return "InitialWatch";
    case WatchState::kListing:
      return "Listing";
    case WatchState::kListed:
      return "Listed";
    case WatchState::kWatching:
      return "Watching";
  }
  return "Unknown";
}

struct Watcher::Impl {
  Impl(ApiClient& a, Resource r, WatcherOptions o, Sink s)
      : env(a.environment()), api(a), resource(std::move(r)), options(std::move(o)), sink(std::move(s)) {}

  Environment env;
  ApiClient& api;
  Resource resource;
  WatcherOptions options;
  Sink sink;

  WatchState state = WatchState::kEmpty;
  std::string version;
  WatcherStats stats;
  std::optional<Error> last_error;

  std::unique_ptr<BodyStream> stream;
  LineSplitter lines;
  TimePoint opened_at{};
  bool heard = false;  // an event, on this stream

  bool streaming_refused = false;
  int streaming_failures = 0;  // one after the other
  bool whole_list = false;     // pages expired while they were read: all in one next time
  std::string continue_token;
  std::string list_version;

  int garbage = 0;  // lines one after the other, over all streams
  Duration backoff{};
  TimePoint last_failure{};
  std::uint64_t failures_in_a_row = 0;  // as many as the back-off counts

  // Each state's one action, then the transition.
  Task<Duration> step() {
    Outcome outcome = Outcome::kFailed;
    switch (state) {
      case WatchState::kEmpty:
        outcome = co_await begin_view();
        break;
      case WatchState::kInitialWatch:
        outcome = co_await read_events();
        break;
      case WatchState::kListing:
        outcome = co_await read_page();
        break;
      case WatchState::kListed:
        outcome = co_await open_watch();
        break;
      case WatchState::kWatching:
        outcome = co_await read_events();
        break;
    }
    co_return enter(transition(state, outcome), outcome);
  }

  Duration enter(Transition to, Outcome outcome) {
    if (outcome == Outcome::kGone) ++stats.gone;
    if (state == WatchState::kEmpty && outcome == Outcome::kRefused) streaming_refused = true;
    if (state == WatchState::kListing && outcome == Outcome::kGone) whole_list = true;
    const bool streamed = state == WatchState::kInitialWatch || state == WatchState::kEmpty;
    if (streamed && to.back_off && !never_sent()) ++streaming_failures;
    if (outcome == Outcome::kComplete) {
      streaming_failures = 0;
      whole_list = false;
    }
    if (to.next != WatchState::kInitialWatch && to.next != WatchState::kWatching) close();
    if (to.next == WatchState::kEmpty) version.clear();
    state = to.next;
    if (!to.back_off) return Duration{0};
    ++stats.errors;
    return next_pause();
  }

  bool never_sent() const { return last_error && last_error->code == ErrorCode::kNotSent; }

  void close() {
    stream.reset();
    lines.clear();
  }

  // As client-go's reflector: doubling from the shortest to the longest, anew after a time without failure.
  Duration next_pause() {
    const TimePoint now = env.clock.now();
    const bool anew = backoff.count() == 0 || now - last_failure > options.backoff_reset;
    backoff = anew ? options.backoff_min : std::min(backoff * 2, options.backoff_max);
    last_failure = now;
    failures_in_a_row = anew ? 1 : failures_in_a_row + 1;
    Duration pause = env.random.jittered(backoff, kJitterPercent);
    if (last_error && last_error->retry_after) {
      pause = std::max(pause, std::min<Duration>(*last_error->retry_after, kMaxRetryAfter));
    }
    log_failure(pause);
    return pause;
  }

  void log_failure(Duration pause) const {
    const bool withdrawn = last_error && last_error->code == ErrorCode::kCancelled;
    const auto level =
        !withdrawn && is_power_of_two(failures_in_a_row) ? spdlog::level::warn : spdlog::level::debug;
    spdlog::log(level, "watch {}: {} (error number {} in a row); again in {} ms from {}", resource.plural,
                last_error ? to_string(*last_error) : "ended early", failures_in_a_row, pause.count(),
                to_string(state));
  }

  Outcome failed(Error error) {
    Outcome outcome = Outcome::kFailed;
    if (error.code == ErrorCode::kGone || is_ahead_of_server(error)) {
      outcome = Outcome::kGone;
    } else if (is_refusal(error)) {
      outcome = Outcome::kRefused;
    } else if (error.code == ErrorCode::kDecode && ++garbage >= kGarbageTries) {
      garbage = 0;
      outcome = Outcome::kGone;
    }
    last_error = std::move(error);
    return outcome;
  }

  Outcome succeeded(Outcome outcome) {
    last_error.reset();
    return outcome;
  }

  // kEmpty
  Task<Outcome> begin_view() {
    const bool streaming =
        options.streaming_list && !streaming_refused && streaming_failures < kStreamingTries;
    Outcome outcome = Outcome::kPaged;
    if (streaming) {
      ++stats.streaming_lists;
      outcome = co_await open(/*initial_events=*/true);
    } else {
      continue_token.clear();
      list_version.clear();
    }
    if (outcome == Outcome::kOpened || outcome == Outcome::kPaged) sink(InitBegin{});
    co_return outcome;
  }

  // kListed
  Task<Outcome> open_watch() {
    ++stats.watches;
    const Outcome outcome = co_await open(/*initial_events=*/false);
    co_return outcome;
  }

  Task<Outcome> open(bool initial_events) {
    WatchOptions how;
    how.label_selector = options.label_selector;
    how.field_selector = options.field_selector;
    how.resource_version = initial_events ? std::string{} : version;
    how.send_initial_events = initial_events;
    how.server_timeout = env.random.between(options.server_timeout_min, options.server_timeout_max);
    Result<std::unique_ptr<BodyStream>> answer = co_await api.watch(resource, options.ns, how);
    if (!answer) co_return failed(std::move(answer.error()));
    stream = std::move(*answer);
    opened_at = env.clock.now();
    heard = false;
    // A stream that carries an ERROR opens just as well: only what it brings is a success.
    co_return Outcome::kOpened;
  }

  // kListing
  Task<Outcome> read_page() {
    if (continue_token.empty()) ++stats.paged_lists;
    ListOptions how;
    how.label_selector = options.label_selector;
    how.field_selector = options.field_selector;
    how.limit = whole_list ? 0 : options.page_size;
    how.continue_token = continue_token;
    Result<ListPage> page = co_await api.list(resource, options.ns, how);
    if (!page) {
      // The whole list may be more than the transport takes as one answer; pages are not.
      if (page.error().code == ErrorCode::kDecode) whole_list = false;
      co_return failed(std::move(page.error()));
    }
    if (page->resource_version.empty())
      co_return failed(decode_error("list: metadata.resourceVersion is missing"));
    if (!continue_token.empty() && page->resource_version != list_version) {
      last_error = decode_error("list: pages of two versions");
      co_return Outcome::kGone;
    }
    list_version = page->resource_version;
    const Result<void> read = each_item(page->body, [this](std::string_view text) { sink(InitApply{text}); });
    if (!read) co_return failed(read.error());
    continue_token = page->continue_token;
    garbage = 0;
    if (!continue_token.empty()) co_return succeeded(Outcome::kMore);
    version = list_version;
    sink(InitDone{version});
    co_return succeeded(Outcome::kComplete);
  }

  // kInitialWatch, kWatching: the lines at hand, or else the next piece of the stream.
  Task<Outcome> read_events() {
    bool any = false;
    const Outcome at_hand = read_lines(any);
    if (any) co_return at_hand;
    Result<std::string> piece = co_await stream->next(options.idle_deadline);
    if (!piece) {
      const bool silent = piece.error().code == ErrorCode::kDeadline && state == WatchState::kWatching;
      if (silent) co_return Outcome::kSilent;
      co_return failed(std::move(piece.error()));
    }
    if (piece->empty()) co_return ended();
    lines.feed(*piece);
    co_return read_lines(any);
  }

  Outcome ended() {
    if (lines.unfinished() > 0)
      return failed(decode_error("watch: the stream ended in the middle of an event"));
    // A server that ends every watch at once is not to be asked again and again.
    if (!heard && env.clock.now() - opened_at < kShortWatch) {
      last_error = decode_error("watch: ended within a second, without an event");
      return Outcome::kFailed;
    }
    if (state == WatchState::kInitialWatch) {
      last_error = decode_error("watch: ended before the list was complete");
      return Outcome::kFailed;
    }
    return succeeded(Outcome::kEnded);
  }

  Outcome read_lines(bool& any) {
    while (const auto line = lines.next()) {
      if (line->empty()) continue;
      any = true;
      const Outcome outcome = read_line(*line);
      if (outcome != Outcome::kMore) return outcome;
    }
    if (lines.unfinished() > kMaxLine) return failed(decode_error("watch: a line longer than 16 MiB"));
    return Outcome::kMore;
  }

  Outcome read_line(std::string_view line) {
    Result<RawWatchEvent> event = parse_watch_event(line);
    if (!event) return failed(std::move(event.error()));
    if (event->type == WatchEventType::kError) return failed(std::move(*event->error));
    ++stats.events;
    heard = true;
    garbage = 0;
    last_error.reset();
    return state == WatchState::kInitialWatch ? initial_event(*event) : live_event(*event);
  }

  Outcome initial_event(const RawWatchEvent& event) {
    switch (event.type) {
      case WatchEventType::kAdded:
      case WatchEventType::kModified:
        sink(InitApply{event.object});
        break;
      case WatchEventType::kDeleted:
        sink(Removed{event.object});
        break;
      case WatchEventType::kBookmark:
        if (!event.ends_initial) break;
        version = event.version;
        sink(InitDone{version});
        return Outcome::kComplete;
      default:
        break;
    }
    return Outcome::kMore;
  }

  Outcome live_event(const RawWatchEvent& event) {
    if (event.type == WatchEventType::kOther)
      return Outcome::kMore;  // of a later server; nothing we know is missed
    version = event.version;
    switch (event.type) {
      case WatchEventType::kAdded:
      case WatchEventType::kModified:
        sink(Applied{event.object});
        break;
      case WatchEventType::kDeleted:
        sink(Removed{event.object});
        break;
      case WatchEventType::kBookmark:
        sink(Bookmark{version});
        break;
      default:
        break;
    }
    return Outcome::kMore;
  }
};

Watcher::Watcher(ApiClient& api, Resource resource, WatcherOptions options, Sink sink)
    : impl_(std::make_unique<Impl>(api, std::move(resource), std::move(options), std::move(sink))) {}
Watcher::~Watcher() = default;

Task<Duration> Watcher::step() {
  return impl_->step();
}

Task<void> Watcher::run() {
  while (true) {
    const Duration pause = co_await impl_->step();
    bool cancelled = co_await is_cancelled();
    if (!cancelled && pause.count() > 0) {
      const bool slept = co_await impl_->env.clock.sleep_for(pause);
      cancelled = !slept;
    }
    if (cancelled) break;
  }
  impl_->close();
  impl_->state = impl_->version.empty() ? WatchState::kEmpty : WatchState::kListed;
}

const Resource& Watcher::resource() const {
  return impl_->resource;
}
WatchState Watcher::state() const {
  return impl_->state;
}
const std::string& Watcher::resource_version() const {
  return impl_->version;
}
const WatcherStats& Watcher::stats() const {
  return impl_->stats;
}
const std::optional<Error>& Watcher::last_error() const {
  return impl_->last_error;
}

namespace detail {
void log_decode_error(std::string_view plural, std::uint64_t count, const Error& error) {
  if (is_power_of_two(count)) spdlog::warn("{}: {} (error number {})", plural, error.message, count);
}
}  // namespace detail

}  // namespace muster::client
