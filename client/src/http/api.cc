#include "muster/client/api.h"

#include <simdjson.h>

#include <nlohmann/json.hpp>

#include "http/adaptive_limit.h"
#include "http/retry_after.h"
#include "http/target.h"

namespace muster::client {

namespace {

using nlohmann::json;

constexpr Duration kBackoffMin{100};
constexpr Duration kBackoffMax = std::chrono::seconds{10};
constexpr int kBackoffJitterPercent = 50;
constexpr int kRetryAfterJitterPercent = 10;

Error own_error(ErrorCode code, std::string message) {
  Error error;
  error.code = code;
  error.message = std::move(message);
  return error;
}

// One request with what its repetition and its metrics need.
struct Call {
  std::string_view verb;
  Resource resource;
  HttpRequest request;
  bool read = false;
  bool any_status = false;  // any HTTP status is the answer
};

bool may_repeat(const Error& error, bool read) {
  if (error.safe_to_repeat()) return true;
  return read && (error.code == ErrorCode::kUnknownOutcome || error.code == ErrorCode::kTimeout);
}

Error error_of(int status, const Headers& headers, std::string_view body, WallTime now) {
  const std::string* header = find_header(headers, "retry-after");
  Error error = error_from_response(status, body, header ? std::string_view{*header} : std::string_view{});
  if (header && !error.retry_after) error.retry_after = read_retry_after(*header, now);
  return error;
}

std::string delete_body(const DeleteOptions& options) {
  // Never an empty body: with one, no layer below can send the request a second time without our knowing.
  json body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (options.grace_period_seconds) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) body["preconditions"]["resourceVersion"] = options.resource_version;
  if (!options.propagation_policy.empty()) body["propagationPolicy"] = options.propagation_policy;
  return body.dump();
}

std::string_view content_type(PatchType type) {
  switch (type) {
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kApply:
      return "application/apply-patch+yaml";  // JSON is YAML
  }
  return {};
}

std::string_view verb_name(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kPost:
      return "POST";
    case Method::kPut:
      return "PUT";
    case Method::kPatch:
      return "PATCH";
    case Method::kDelete:
      return "DELETE";
  }
  return {};
}

// Reads the list's own metadata, which comes before its items, without parsing those.
Result<ListPage> page_of(std::string body) {
  ListPage page;
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::object metadata;
  const simdjson::padded_string_view text(body.data(), body.size(), body.capacity());
  auto error = parser.iterate(text).get(document);
  if (!error) error = document["metadata"].get_object().get(metadata);
  if (error) {
    return std::unexpected(
        own_error(ErrorCode::kDecode, std::string{"list: metadata: "} + simdjson::error_message(error)));
  }
  std::string_view version, token;
  for (auto field : metadata) {
    std::string_view key, value;
    if (field.unescaped_key().get(key)) break;
    if (key == "resourceVersion" && !field.value().get_string().get(value)) version = value;
    if (key == "continue" && !field.value().get_string().get(value)) token = value;
  }
  page.resource_version = version;
  page.continue_token = token;
  page.body = std::move(body);
  return page;
}

}  // namespace

struct ApiClient::Impl {
  Impl(Environment e, Transport& t, ApiOptions o)
      : env(e), transport(t), options(std::move(o)), limit(env.executor, options.max_in_flight) {}

  Environment env;
  Transport& transport;
  ApiOptions options;
  AdaptiveLimit limit;
  bool writes_stopped = false;
  TimePoint write_deadline = TimePoint::max();
  Observer observer;

  Call call(std::string_view verb, const Resource& resource, Method method, std::string target,
            std::string body = {}, std::string_view type = "application/json") const {
    Call out;
    out.verb = verb;
    out.resource = resource;
    out.read = method == Method::kGet;
    out.request.method = method;
    out.request.target = std::move(target);
    out.request.headers.emplace_back("accept", "application/json");
    out.request.headers.emplace_back("user-agent", options.user_agent);
    if (!body.empty()) out.request.headers.emplace_back("content-type", type);
    out.request.body = std::move(body);
    return out;
  }

  void observe(const Call& call, int status, TimePoint start) const {
    if (observer) observer(call.verb, call.resource, status, env.clock.now() - start);
  }

  bool no_more_writes() const { return writes_stopped || env.clock.now() >= write_deadline; }
  bool refuses(const Call& call) const { return !call.read && no_more_writes(); }
  static Error stopped() { return own_error(ErrorCode::kCancelled, "not sent: writes are stopped"); }

  static Task<Result<HttpResponse>> attempt(std::shared_ptr<Impl> self, const Call& call) {
    if (self->refuses(call)) co_return std::unexpected(stopped());
    const Semaphore::Permit permit = co_await self->limit.permits().acquire();
    if (!permit) co_return std::unexpected(own_error(ErrorCode::kCancelled, "cancelled"));
    if (self->refuses(call)) co_return std::unexpected(stopped());
    const std::uint64_t halvings = self->limit.halvings();
    const TimePoint start = self->env.clock.now();
    HttpRequest request = call.request;
    if (!call.read) request.may_send = [self] { return !self->no_more_writes(); };
    Result<HttpResponse> answer =
        co_await self->transport.round_trip(std::move(request), self->options.timeout);
    self->observe(call, answer ? answer->status : 0, start);
    const bool withheld = !answer && answer.error().code == ErrorCode::kNotSent && self->refuses(call);
    if (withheld) co_return std::unexpected(stopped());
    if (!answer) co_return answer;
    if (answer->status == 429) {
      self->limit.overloaded(halvings);
    } else if (answer->status < 500) {
      self->limit.succeeded();
    }
    if (call.any_status || (answer->status >= 200 && answer->status < 300)) co_return answer;
    co_return std::unexpected(
        error_of(answer->status, answer->headers, answer->body, self->env.clock.wall()));
  }

  // How long to wait before the next attempt; nullopt: do not repeat.
  std::optional<Duration> pause_after(const Error& error, const Call& call, int repeats) const {
    if (repeats >= options.max_repeats || !may_repeat(error, call.read)) return std::nullopt;
    if (error.retry_after) {
      if (*error.retry_after > kMaxRetryAfter) return std::nullopt;
      return env.random.jittered(*error.retry_after, kRetryAfterJitterPercent);
    }
    const Duration backoff = std::min(kBackoffMax, kBackoffMin * (std::int64_t{1} << std::min(repeats, 10)));
    return env.random.jittered(backoff, kBackoffJitterPercent);
  }

  static Task<Result<HttpResponse>> send(std::shared_ptr<Impl> self, Call call) {
    for (int repeats = 0;; ++repeats) {
      Result<HttpResponse> answer = co_await attempt(self, call);
      if (answer) co_return answer;
      const std::optional<Duration> pause = self->pause_after(answer.error(), call, repeats);
      if (!pause) co_return answer;
      if (!co_await self->env.clock.sleep_for(*pause)) {
        // The last attempt did not take effect, and there will be no other: its error says more than
        // "cancelled".
        answer.error().code = ErrorCode::kCancelled;
        co_return answer;
      }
    }
  }

  static Task<Result<std::string>> send_for_body(std::shared_ptr<Impl> self, Call call) {
    Result<HttpResponse> answer = co_await send(std::move(self), std::move(call));
    if (!answer) co_return std::unexpected(std::move(answer.error()));
    co_return std::move(answer->body);
  }

  static Task<Result<ListPage>> send_for_page(std::shared_ptr<Impl> self, Call call) {
    Result<HttpResponse> answer = co_await send(std::move(self), std::move(call));
    if (!answer) co_return std::unexpected(std::move(answer.error()));
    co_return page_of(std::move(answer->body));
  }

  static Task<Result<std::unique_ptr<BodyStream>>> open(std::shared_ptr<Impl> self, Call call) {
    const TimePoint start = self->env.clock.now();
    Result<StreamResponse> answer = co_await self->transport.open(call.request, self->options.timeout);
    self->observe(call, answer ? answer->status : 0, start);
    if (!answer) co_return std::unexpected(std::move(answer.error()));
    if (answer->status >= 200 && answer->status < 300) co_return std::move(answer->body);
    if (answer->status == 429) self->limit.overloaded(self->limit.halvings());
    constexpr std::size_t kMaxStatus = 64 << 10;
    std::string body;
    while (body.size() < kMaxStatus) {
      Result<std::string> piece = co_await answer->body->next(self->options.timeout);
      if (!piece || piece->empty()) break;
      body += *piece;
    }
    co_return std::unexpected(error_of(answer->status, answer->headers, body, self->env.clock.wall()));
  }
};

ApiClient::ApiClient(Environment env, Transport& transport, ApiOptions options)
    : env_(env), impl_(std::make_shared<Impl>(env, transport, std::move(options))) {}
ApiClient::~ApiClient() = default;

Task<Result<std::string>> ApiClient::get(const Resource& resource, ObjectRef ref) {
  return Impl::send_for_body(impl_,
                             impl_->call("GET", resource, Method::kGet, resource.path(ref.ns, ref.name)));
}

Task<Result<ListPage>> ApiClient::list(const Resource& resource, std::string ns, ListOptions options) {
  Target target(resource.path(ns));
  target.with("labelSelector", options.label_selector).with("fieldSelector", options.field_selector);
  if (options.limit > 0) target.with("limit", std::to_string(options.limit));
  // A continued list is of the version its token names; the server refuses to be told again.
  if (options.continue_token.empty()) target.with("resourceVersion", options.resource_version);
  target.with("continue", options.continue_token);
  return Impl::send_for_page(impl_, impl_->call("LIST", resource, Method::kGet, target.take()));
}

Task<Result<std::string>> ApiClient::create(const Resource& resource, std::string ns, std::string body,
                                            std::string field_manager, bool dry_run) {
  Target target(resource.path(ns));
  target.with("fieldManager", field_manager).with("dryRun", dry_run ? "All" : "");
  return Impl::send_for_body(impl_,
                             impl_->call("POST", resource, Method::kPost, target.take(), std::move(body)));
}

Task<Result<std::string>> ApiClient::update(const Resource& resource, ObjectRef ref, std::string body,
                                            std::string subresource) {
  return Impl::send_for_body(
      impl_, impl_->call("PUT", resource, Method::kPut, resource.path(ref.ns, ref.name, subresource),
                         std::move(body)));
}

Task<Result<std::string>> ApiClient::patch(const Resource& resource, ObjectRef ref, std::string body,
                                           PatchOptions options) {
  const bool apply = options.type == PatchType::kApply;
  Target target(resource.path(ref.ns, ref.name, options.subresource));
  target.with("fieldManager", options.field_manager)
      .with("force", apply && options.force ? "true" : "")
      .with("dryRun", options.dry_run ? "All" : "");
  return Impl::send_for_body(impl_, impl_->call(apply ? "APPLY" : "PATCH", resource, Method::kPatch,
                                                target.take(), std::move(body), content_type(options.type)));
}

Task<Result<std::string>> ApiClient::remove(const Resource& resource, ObjectRef ref, DeleteOptions options) {
  return Impl::send_for_body(impl_, impl_->call("DELETE", resource, Method::kDelete,
                                                resource.path(ref.ns, ref.name), delete_body(options)));
}

Task<Result<std::string>> ApiClient::remove_collection(const Resource& resource, std::string ns,
                                                       ListOptions selector, DeleteOptions options) {
  Target target(resource.path(ns));
  target.with("labelSelector", selector.label_selector).with("fieldSelector", selector.field_selector);
  return Impl::send_for_body(
      impl_, impl_->call("DELETECOLLECTION", resource, Method::kDelete, target.take(), delete_body(options)));
}

Task<Result<std::unique_ptr<BodyStream>>> ApiClient::watch(const Resource& resource, std::string ns,
                                                           WatchOptions options) {
  Target target(resource.path(ns));
  target.with("watch", "true").with("allowWatchBookmarks", "true");
  target.with("labelSelector", options.label_selector).with("fieldSelector", options.field_selector);
  target.with("resourceVersion", options.resource_version);
  if (options.send_initial_events)
    target.with("sendInitialEvents", "true").with("resourceVersionMatch", "NotOlderThan");
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options.server_timeout).count();
  if (seconds > 0) target.with("timeoutSeconds", std::to_string(seconds));
  return Impl::open(impl_, impl_->call("WATCH", resource, Method::kGet, target.take()));
}

Task<Result<HttpResponse>> ApiClient::raw(HttpRequest request) {
  Call call;
  call.verb = verb_name(request.method);
  call.read = request.method == Method::kGet;
  call.any_status = true;
  call.request = std::move(request);
  if (!find_header(call.request.headers, "user-agent")) {
    call.request.headers.emplace_back("user-agent", impl_->options.user_agent);
  }
  return Impl::send(impl_, std::move(call));
}

void ApiClient::stop_writes() {
  impl_->writes_stopped = true;
}
void ApiClient::set_write_deadline(TimePoint when) {
  impl_->write_deadline = when;
}
bool ApiClient::writes_stopped() const {
  return impl_->no_more_writes();
}
int ApiClient::current_limit() const {
  return impl_->limit.limit();
}
void ApiClient::set_observer(Observer observer) {
  impl_->observer = std::move(observer);
}

}  // namespace muster::client
