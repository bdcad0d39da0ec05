#include "muster/client/leader_election.h"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <nlohmann/json.hpp>

#include "muster/client/object.h"

namespace muster::client {

namespace {

using nlohmann::json;
// NOLINTNEXTLINE(misc-unused-using-decls): of coroutines, where clang-tidy does not see it
using boost::asio::experimental::awaitable_operators::operator||;

constexpr int kRetryJitterPercent = 20;
constexpr Duration kReleaseTimeout = std::chrono::seconds{2};

// What the Lease says. Absent or odd fields are as good as empty ones: whoever holds it will write them anew.
struct Record {
  std::string holder;
  std::int64_t duration_seconds = 0;
  std::int64_t transitions = 0;
  std::string acquire_time;
  std::string renew_time;
  bool operator==(const Record&) const = default;
};

std::string text_at(const json& object, const char* field) {
  const auto it = object.find(field);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string{};
}

std::int64_t number_at(const json& object, const char* field) {
  const auto it = object.find(field);
  return it != object.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
}

Record record_of(const json& lease) {
  Record record;
  const auto spec = lease.find("spec");
  if (spec == lease.end() || !spec->is_object()) return record;
  record.holder = text_at(*spec, "holderIdentity");
  record.duration_seconds = number_at(*spec, "leaseDurationSeconds");
  record.transitions = number_at(*spec, "leaseTransitions");
  record.acquire_time = text_at(*spec, "acquireTime");
  record.renew_time = text_at(*spec, "renewTime");
  return record;
}

}  // namespace

struct LeaderElection::Impl {
  Impl(ApiClient& a, LeaderElectionOptions o, Callbacks c)
      : env(a.environment()), api(a), options(std::move(o)), callbacks(std::move(c)) {}

  Environment env;
  ApiClient& api;
  LeaderElectionOptions options;
  Callbacks callbacks;

  json lease;  // as last seen, with its resourceVersion
  Record seen;
  TimePoint seen_at{};          // by our own clock: when `seen` last changed
  bool lease_is_fresh = false;  // nobody can have changed it since, as far as we know
  std::string reported;
  bool leading = false;
  TimePoint renewed_at{};  // when the last successful renewal was *sent*

  TimePoint deadline() const { return renewed_at + options.renew_deadline; }

  void observe(json now) {
    lease = std::move(now);
    Record record = record_of(lease);
    if (record != seen) {
      seen = std::move(record);
      seen_at = env.clock.now();
    }
    if (seen.holder.empty() || seen.holder == reported) return;
    reported = seen.holder;
    if (callbacks.on_new_leader) callbacks.on_new_leader(reported);
  }

  bool held_by_other() const {
    if (seen.holder.empty() || seen.holder == options.identity) return false;
    const Duration valid = seen.duration_seconds > 0 ? Duration{std::chrono::seconds{seen.duration_seconds}}
                                                     : options.lease_duration;
    return env.clock.now() < seen_at + valid;
  }

  // The Lease with us as its holder; every field that is not ours stays.
  json claim() const {
    json now = lease.is_object() ? lease : json::object();
    now["apiVersion"] = "coordination.k8s.io/v1";
    now["kind"] = "Lease";
    now["metadata"]["name"] = options.lease.name;
    now["metadata"]["namespace"] = options.lease.ns;
    json& spec = now["spec"];
    if (!spec.is_object()) spec = json::object();
    const bool ours = seen.holder == options.identity;
    const std::string time = format_micro_time(env.clock.wall());
    spec["holderIdentity"] = options.identity;
    spec["leaseDurationSeconds"] =
        std::chrono::duration_cast<std::chrono::seconds>(options.lease_duration).count();
    spec["renewTime"] = time;
    if (!ours || seen.acquire_time.empty()) spec["acquireTime"] = time;
    spec["leaseTransitions"] = ours || !lease.is_object() ? seen.transitions : seen.transitions + 1;
    return now;
  }

  bool accept(Result<std::string> answer) {
    if (!answer) return false;
    json now = json::parse(*answer, nullptr, /*allow_exceptions=*/false);
    if (!now.is_object()) return false;
    observe(std::move(now));
    lease_is_fresh = true;
    return true;
  }

  // Reads the Lease into `lease`; false: not known. A missing one is known: null.
  Task<bool> read() {
    Result<std::string> answer = co_await api.get(resources::kLeases, options.lease);
    if (!answer && answer.error().code == ErrorCode::kNotFound) {
      lease = nullptr;
      seen = Record{};
      co_return true;
    }
    co_return accept(std::move(answer));
  }

  // One attempt. True: the Lease is ours, since the moment before this was called.
  Task<bool> try_acquire_or_renew() {
    // The holder alone may go without reading first: the resourceVersion guards it.
    const bool may_write_at_once = leading && lease_is_fresh && seen.holder == options.identity;
    if (!may_write_at_once) {
      const bool known = co_await read();
      if (!known || held_by_other()) co_return false;
    }
    lease_is_fresh = false;  // until an answer says otherwise
    std::string body = claim().dump();
    Result<std::string> answer;
    if (lease.is_object()) {
      answer = co_await api.update(resources::kLeases, options.lease, body);
    } else {
      answer = co_await api.create(resources::kLeases, options.lease.ns, body, options.identity);
    }
    const bool done = accept(std::move(answer));
    const bool ours = seen.holder == options.identity;
    co_return (done && ours);
  }

  Task<void> attempt(bool& done) { done = co_await try_acquire_or_renew(); }
  Task<void> wait_until(TimePoint when) { co_await env.clock.sleep_until(when); }
  // Not after the request has ended, which may hang: at the deadline itself.
  Task<void> stop_at(TimePoint when) {
    if (co_await env.clock.sleep_until(when)) stop();
  }

  // One attempt, withdrawn when half the renew deadline has passed, so that one lost request does not cost
  // the lease.
  Task<bool> attempt_in_time() {
    const TimePoint sent = env.clock.now();
    const TimePoint until = sent + options.renew_deadline / 2;
    bool done = false;
    if (leading) {
      const TimePoint lost_at = deadline();
      co_await (attempt(done) || wait_until(until) || stop_at(lost_at));
    } else {
      co_await (attempt(done) || wait_until(until));
    }
    if (done) {
      renewed_at = sent;
      if (callbacks.on_renewed) callbacks.on_renewed(deadline());
    }
    co_return done;
  }

  void start() {
    leading = true;
    if (callbacks.on_started) callbacks.on_started();
  }

  void stop() {
    if (!std::exchange(leading, false)) return;
    if (callbacks.on_stopped) callbacks.on_stopped();
  }

  // True: leading. False: cancelled.
  Task<bool> acquire() {
    while (true) {
      const bool done = co_await attempt_in_time();
      if (co_await is_cancelled()) co_return false;
      // An answer that took too long is no ground to start on.
      if (done && env.clock.now() < deadline()) {
        start();
        co_return true;
      }
      const Duration pause = env.random.jittered(options.retry_period, kRetryJitterPercent);
      if (!co_await env.clock.sleep_for(pause)) co_return false;
    }
  }

  // Returns when leadership is lost or the coroutine is cancelled.
  Task<void> renew() {
    while (leading) {
      const TimePoint next = std::min(env.clock.now() + options.retry_period, deadline());
      if (!co_await env.clock.sleep_until(next)) co_return;
      if (env.clock.now() >= deadline()) {
        stop();
        co_return;
      }
      co_await attempt_in_time();
      if (co_await is_cancelled()) co_return;
      // Another holder's Lease is not ours any more, whatever time is left.
      if (leading && !seen.holder.empty() && seen.holder != options.identity) stop();
      if (leading && env.clock.now() >= deadline()) stop();
    }
  }

  Task<void> release() {
    for (int tries = 0; tries < 2; ++tries) {
      if (!lease_is_fresh) {
        if (!co_await read()) co_return;
      }
      if (!lease.is_object() || seen.holder != options.identity) co_return;
      json free = lease;
      json& spec = free["spec"];
      const std::string time = format_micro_time(env.clock.wall());
      spec["holderIdentity"] = "";
      spec["leaseDurationSeconds"] = 1;
      spec["renewTime"] = time;
      spec["acquireTime"] = time;
      lease_is_fresh = false;
      std::string body = free.dump();
      Result<std::string> answer = co_await api.update(resources::kLeases, options.lease, body);
      if (answer) co_return;
    }
  }
};

LeaderElection::LeaderElection(ApiClient& api, LeaderElectionOptions options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(api, std::move(options), std::move(callbacks))) {}
LeaderElection::~LeaderElection() = default;

Task<bool> LeaderElection::run() {
  Impl& impl = *impl_;
  if (co_await impl.acquire()) co_await impl.renew();
  const bool cancelled = co_await is_cancelled();
  if (!cancelled) co_return false;
  // First no more writes, then the Lease may go to another. A request that was under way when we were
  // cancelled may have made it ours, so this is not only for the leader.
  impl.stop();
  if (impl.callbacks.may_release && !impl.callbacks.may_release()) co_return true;
  co_await boost::asio::this_coro::reset_cancellation_state();
  co_await (impl.release() || impl.wait_until(impl.env.clock.now() + kReleaseTimeout));
  co_return true;
}

bool LeaderElection::is_leader() const {
  return impl_->leading;
}
const std::string& LeaderElection::observed_leader() const {
  return impl_->reported;
}

}  // namespace muster::client
