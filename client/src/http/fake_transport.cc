#include "muster/client/testing/fake_transport.h"

#include "muster/client/waiter.h"

namespace muster::client::testing {

namespace {

Error transport_error(ErrorCode code, std::string message) {
  Error error;
  error.code = code;
  error.message = std::move(message);
  return error;
}

// Both ends of one stream.
struct StreamState final : FakeStream {
  explicit StreamState(const Environment& e) : env(e), waiter(e.executor) {}

  void push(std::string bytes) override {
    if (gone || ended || bytes.empty()) return;
    pieces.push_back(std::move(bytes));
    waiter.notify();
  }
  void finish() override {
    ended = true;
    waiter.notify();
  }
  void fail(Error e) override {
    if (ended) return;
    ended = true;
    error = std::move(e);
    waiter.notify();
  }
  bool client_gone() const override { return gone; }

  Environment env;
  Waiter waiter;
  std::deque<std::string> pieces;
  std::optional<Error> error;
  int status = 200;
  bool ended = false;
  bool gone = false;
};

// The client's end.
class StreamBody final : public BodyStream {
 public:
  StreamBody(std::shared_ptr<StreamState> state, std::shared_ptr<std::size_t> open_count)
      : state_(std::move(state)), open_count_(std::move(open_count)) {
    ++*open_count_;
  }
  ~StreamBody() override {
    state_->gone = true;
    state_->pieces.clear();
    --*open_count_;
  }

  Task<Result<std::string>> next(Duration idle) override {
    auto state = state_;
    const TimePoint deadline = state->env.clock.now() + idle;
    while (true) {
      const bool cancelled = co_await is_cancelled();
      if (cancelled) co_return std::unexpected(transport_error(ErrorCode::kCancelled, "cancelled"));
      if (!state->pieces.empty()) {
        std::string piece = std::move(state->pieces.front());
        state->pieces.pop_front();
        co_return piece;
      }
      if (state->error) co_return std::unexpected(*state->error);
      if (state->ended) co_return std::string{};
      const Wake wake = co_await state->waiter.wait_until(state->env.clock, deadline);
      if (wake == Wake::kTimeout)
        co_return std::unexpected(transport_error(ErrorCode::kDeadline, "stream is silent"));
    }
  }

 private:
  std::shared_ptr<StreamState> state_;
  std::shared_ptr<std::size_t> open_count_;
};

// One request on its way. It reaches the server even if the client no longer waits, as on a real network.
struct Exchange {
  explicit Exchange(const Environment& env) : waiter(env.executor) {}
  Waiter waiter;
  std::optional<Result<HttpResponse>> answer;
  std::shared_ptr<StreamState> stream;  // for open()
};

struct Counted {
  explicit Counted(std::shared_ptr<std::size_t> c) : count(std::move(c)) { ++*count; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*count; }
  std::shared_ptr<std::size_t> count;
};

}  // namespace

struct FakeTransport::Impl {
  explicit Impl(Environment e) : env(e) {}

  Environment env;
  Handler handler;
  StreamHandler stream_handler;
  FaultHook fault_hook;
  Duration latency_low{}, latency_high{};
  std::deque<HttpResponse> script;
  std::deque<std::shared_ptr<StreamState>> stream_script;
  std::vector<HttpRequest> requests;
  std::shared_ptr<std::size_t> in_flight = std::make_shared<std::size_t>(0);
  std::shared_ptr<std::size_t> open_streams = std::make_shared<std::size_t>(0);

  // What the server does with a request that reached it. Fills exchange.stream where the answer is one.
  HttpResponse execute(const HttpRequest& request, Exchange& exchange, bool streaming) {
    if (streaming && !stream_script.empty()) {
      exchange.stream = std::move(stream_script.front());
      stream_script.pop_front();
      HttpResponse head;
      head.status = exchange.stream->status;
      return head;
    }
    if (!script.empty()) {
      HttpResponse response = std::move(script.front());
      script.pop_front();
      return response;
    }
    if (streaming && stream_handler) {
      auto stream = std::make_shared<StreamState>(env);
      if (auto head = stream_handler(request, stream)) {
        exchange.stream = std::move(stream);
        return std::move(*head);
      }
    }
    if (handler) return handler(request);
    HttpResponse none;
    none.status = 404;
    none.body = "no handler";
    return none;
  }

  static Task<void> carry(std::shared_ptr<Impl> impl, std::shared_ptr<Exchange> exchange, HttpRequest request,
                          Fault fault, bool streaming) {
    const Duration latency = impl->env.random.between(impl->latency_low, impl->latency_high);
    if (fault.unsent_for.count() > 0) co_await impl->env.clock.sleep_for(fault.unsent_for);
    if (request.may_send && !request.may_send()) {
      exchange->answer =
          std::unexpected(transport_error(ErrorCode::kNotSent, "not sent: it may not be any more"));
      exchange->waiter.notify();
      co_return;
    }
    const Duration way_in = latency / 2 + fault.delay;
    if (way_in.count() > 0) co_await impl->env.clock.sleep_for(way_in);
    auto settle = [&exchange](Result<HttpResponse> answer) {
      exchange->answer = std::move(answer);
      exchange->waiter.notify();
    };
    switch (fault.kind) {
      case FaultKind::kNotSent:
        settle(std::unexpected(transport_error(ErrorCode::kNotSent, "connection refused")));
        co_return;
      case FaultKind::kLostBefore:
        settle(std::unexpected(transport_error(ErrorCode::kUnknownOutcome, "connection lost")));
        co_return;
      case FaultKind::kHangBefore:
        co_return;
      default:
        break;
    }
    HttpResponse response = fault.kind == FaultKind::kAnswer ? std::move(fault.answer)
                                                             : impl->execute(request, *exchange, streaming);
    if (fault.kind == FaultKind::kHangAfter) co_return;
    const Duration way_out = latency - latency / 2;
    if (way_out.count() > 0) co_await impl->env.clock.sleep_for(way_out);
    if (fault.kind == FaultKind::kLostAfter) {
      settle(std::unexpected(transport_error(ErrorCode::kUnknownOutcome, "connection lost")));
    } else {
      settle(std::move(response));
    }
  }

  static Task<Result<HttpResponse>> exchange(std::shared_ptr<Impl> impl, HttpRequest request,
                                             Duration timeout, std::shared_ptr<Exchange> exchange,
                                             bool streaming) {
    const bool cancelled = co_await is_cancelled();
    if (cancelled) co_return std::unexpected(transport_error(ErrorCode::kCancelled, "cancelled"));
    Counted counted(impl->in_flight);
    impl->requests.push_back(request);
    Fault fault;
    if (impl->fault_hook) fault = impl->fault_hook(request);
    spawn(impl->env.executor, carry(impl, exchange, std::move(request), std::move(fault), streaming));
    const TimePoint deadline = impl->env.clock.now() + timeout;
    const Wake wake = co_await exchange->waiter.wait_until(impl->env.clock, deadline);
    if (wake == Wake::kNotified && exchange->answer) co_return std::move(*exchange->answer);
    if (exchange->stream) exchange->stream->gone = true;
    if (wake == Wake::kCancelled)
      co_return std::unexpected(transport_error(ErrorCode::kCancelled, "cancelled"));
    co_return std::unexpected(transport_error(ErrorCode::kDeadline, "no answer in time"));
  }
};

FakeTransport::FakeTransport(Environment env) : impl_(std::make_shared<Impl>(env)) {}
FakeTransport::~FakeTransport() = default;

void FakeTransport::set_handler(Handler handler) {
  impl_->handler = std::move(handler);
}
void FakeTransport::set_stream_handler(StreamHandler handler) {
  impl_->stream_handler = std::move(handler);
}
void FakeTransport::set_fault_hook(FaultHook hook) {
  impl_->fault_hook = std::move(hook);
}
void FakeTransport::set_latency(Duration low, Duration high) {
  impl_->latency_low = low;
  impl_->latency_high = high;
}

void FakeTransport::enqueue(HttpResponse response) {
  impl_->script.push_back(std::move(response));
}
void FakeTransport::enqueue_json(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.headers.emplace_back("content-type", "application/json");
  response.body = std::move(body);
  enqueue(std::move(response));
}
std::shared_ptr<FakeStream> FakeTransport::enqueue_stream(int status) {
  auto stream = std::make_shared<StreamState>(impl_->env);
  stream->status = status;
  impl_->stream_script.push_back(stream);
  return stream;
}

const std::vector<HttpRequest>& FakeTransport::requests() const {
  return impl_->requests;
}
std::size_t FakeTransport::in_flight() const {
  return *impl_->in_flight;
}
std::size_t FakeTransport::open_streams() const {
  return *impl_->open_streams;
}

Task<Result<HttpResponse>> FakeTransport::round_trip(HttpRequest request, Duration timeout) {
  auto impl = impl_;
  auto exchange = std::make_shared<Exchange>(impl->env);
  co_return co_await Impl::exchange(impl, std::move(request), timeout, exchange, /*streaming=*/false);
}

Task<Result<StreamResponse>> FakeTransport::open(HttpRequest request, Duration timeout) {
  auto impl = impl_;
  auto exchange = std::make_shared<Exchange>(impl->env);
  auto answer = co_await Impl::exchange(impl, std::move(request), timeout, exchange, /*streaming=*/true);
  if (!answer) co_return std::unexpected(std::move(answer.error()));
  auto stream = exchange->stream;
  if (!stream) {
    stream = std::make_shared<StreamState>(impl->env);
    stream->push(std::move(answer->body));
    stream->finish();
  }
  StreamResponse response;
  response.status = answer->status;
  response.headers = std::move(answer->headers);
  response.body = std::make_unique<StreamBody>(std::move(stream), impl->open_streams);
  co_return response;
}

}  // namespace muster::client::testing
