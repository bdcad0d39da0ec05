#include "muster/client/curl_transport.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/curl_engine.h"

namespace muster::client {

namespace asio = boost::asio;

namespace {

Error cancelled_error() {
  Error error;
  error.code = ErrorCode::kCancelled;
  error.message = "cancelled";
  return error;
}

Error deadline_error(std::string message) {
  Error error;
  error.code = ErrorCode::kDeadline;
  error.message = std::move(message);
  return error;
}

class CurlStream final : public BodyStream {
 public:
  explicit CurlStream(std::unique_ptr<Transfer> transfer) : transfer_(std::move(transfer)) {}

  Task<Result<std::string>> next(Duration idle) override {
    Transfer& transfer = *transfer_;
    while (true) {
      if (!transfer.response.body.empty()) {
        std::string bytes = std::exchange(transfer.response.body, {});
        transfer.engine->resume(transfer);
        co_return bytes;
      }
      if (transfer.done) {
        if (transfer.code == CURLE_OK) co_return std::string{};
        co_return std::unexpected(transfer.failure());
      }
      const Wake wake = co_await transfer.wait(idle);
      if (wake == Wake::kCancelled) co_return std::unexpected(cancelled_error());
      if (wake == Wake::kTimeout) {
        co_return std::unexpected(deadline_error("no byte for " + std::to_string(idle.count()) + " ms"));
      }
    }
  }

 private:
  std::unique_ptr<Transfer> transfer_;
};

}  // namespace

Task<Wake> Transfer::wait(Duration limit) {
  bool cancelled = co_await is_cancelled();
  if (cancelled) co_return Wake::kCancelled;
  if (!notified) {
    const auto longest = std::chrono::hours{24 * 365};
    signal.expires_after(std::min<std::chrono::steady_clock::duration>(limit, longest));
    co_await signal.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  if (std::exchange(notified, false)) co_return Wake::kNotified;
  cancelled = co_await is_cancelled();
  co_return cancelled ? Wake::kCancelled : Wake::kTimeout;
}

Task<bool> Transfer::wait() {
  if (co_await is_cancelled()) co_return false;
  if (!notified) {
    signal.expires_at(asio::steady_timer::time_point::max());
    co_await signal.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  co_return std::exchange(notified, false);
}

struct CurlTransport::Impl {
  Impl(Environment e, ClientConfig config, CurlOptions o)
      : env(e),
        credentials(env, config),
        // A paused stream holds up its whole connection, so requests never share one with streams.
        requests(std::make_shared<CurlEngine>(env.executor, config, o, o.max_connections)),
        streams(std::make_shared<CurlEngine>(env.executor, config, o, /*max_connections=*/0)) {}

  Environment env;
  Credentials credentials;
  std::shared_ptr<CurlEngine> requests;
  std::shared_ptr<CurlEngine> streams;
  mutable CurlStats stats;

  // After a 401 to a request with `used`: are there others by now?
  static Task<bool> other_credentials(std::shared_ptr<Impl> self, std::uint64_t used) {
    self->credentials.rejected(used);
    auto fresh = co_await self->credentials.get();
    if (!fresh || (*fresh)->generation == used) co_return false;
    ++self->stats.refreshed_credentials;
    co_return true;
  }

  static Task<Result<HttpResponse>> round_trip(std::shared_ptr<Impl> self, HttpRequest request,
                                               Duration timeout) {
    for (bool again = false;; again = true) {
      auto credentials = co_await self->credentials.get();
      if (!credentials) co_return std::unexpected(std::move(credentials.error()));
      const std::uint64_t generation = (*credentials)->generation;
      Transfer transfer(self->requests, std::move(request), std::move(*credentials));
      ++self->stats.requests;
      self->requests->start(transfer, timeout);
      if (!co_await transfer.wait()) co_return std::unexpected(cancelled_error());
      if (transfer.code != CURLE_OK) co_return std::unexpected(transfer.failure());
      if (transfer.response.status != 401 || again) co_return std::move(transfer.response);
      if (!co_await other_credentials(self, generation)) co_return std::move(transfer.response);
      request = std::move(transfer.request);
    }
  }

  // Starts a stream and waits for its headers.
  static Task<Result<std::unique_ptr<Transfer>>> start_stream(
      std::shared_ptr<Impl> self, HttpRequest request, std::shared_ptr<const CredentialSet> credentials,
      Duration timeout) {
    auto transfer = std::make_unique<Transfer>(self->streams, std::move(request), std::move(credentials));
    transfer->streaming = true;
    ++self->stats.streams;
    self->streams->start(*transfer, Duration{0});
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!transfer->head_complete && !transfer->done) {
      const auto left = std::chrono::ceil<Duration>(deadline - std::chrono::steady_clock::now());
      const Wake wake = co_await transfer->wait(std::max(Duration{0}, left));
      if (wake == Wake::kCancelled) co_return std::unexpected(cancelled_error());
      if (wake == Wake::kTimeout) {
        Error error = deadline_error("no answer within " + std::to_string(timeout.count()) + " ms");
        if (transfer->certainly_not_sent()) error.code = ErrorCode::kNotSent;
        co_return std::unexpected(std::move(error));
      }
    }
    if (!transfer->head_complete) co_return std::unexpected(transfer->failure());
    transfer->notified = true;  // bytes, or the end, may have come with the headers
    co_return transfer;
  }

  static Task<Result<StreamResponse>> open(std::shared_ptr<Impl> self, HttpRequest request,
                                           Duration timeout) {
    for (bool again = false;; again = true) {
      auto credentials = co_await self->credentials.get();
      if (!credentials) co_return std::unexpected(std::move(credentials.error()));
      const std::uint64_t generation = (*credentials)->generation;
      auto started = co_await start_stream(self, std::move(request), std::move(*credentials), timeout);
      if (!started) co_return std::unexpected(std::move(started.error()));
      std::unique_ptr<Transfer> transfer = std::move(*started);
      bool others = false;
      if (transfer->response.status == 401 && !again) others = co_await other_credentials(self, generation);
      if (others) {
        request = std::move(transfer->request);
        continue;
      }
      StreamResponse response;
      response.status = transfer->response.status;
      response.headers = std::move(transfer->response.headers);
      response.body = std::make_unique<CurlStream>(std::move(transfer));
      co_return response;
    }
  }
};

CurlTransport::CurlTransport(Environment env, ClientConfig config, CurlOptions options)
    : impl_(std::make_shared<Impl>(env, std::move(config), options)) {}
CurlTransport::~CurlTransport() = default;

Task<Result<HttpResponse>> CurlTransport::round_trip(HttpRequest request, Duration timeout) {
  return Impl::round_trip(impl_, std::move(request), timeout);
}

Task<Result<StreamResponse>> CurlTransport::open(HttpRequest request, Duration timeout) {
  return Impl::open(impl_, std::move(request), timeout);
}

const CurlStats& CurlTransport::stats() const {
  impl_->stats.connections = impl_->requests->connections() + impl_->streams->connections();
  return impl_->stats;
}

}  // namespace muster::client
