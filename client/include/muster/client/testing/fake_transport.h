// An in-memory Transport for tests of whatever uses this library: answers come from a handler or a script,
// streams are pushed piece by piece, latency is in the time of the Environment's clock, and faults are dealt
// by a hook. With a VirtualClock everything repeats exactly for one seed.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/client/transport.h"

namespace muster::client::testing {

// The server's end of a stream. The client's end reads what was pushed, in order; each push is one piece.
class FakeStream {
 public:
  virtual ~FakeStream() = default;
  virtual void push(std::string bytes) = 0;  // nothing happens once the client is gone
  virtual void finish() = 0;                 // the end, as the server means it
  virtual void fail(Error error) = 0;        // e.g. kUnknownOutcome: the connection broke
  virtual bool client_gone() const = 0;      // the client destroyed its end
};

// What befalls one request. "Executed" means that the handler was called.
enum class FaultKind : std::uint8_t {
  kNone,
  kNotSent,     // refused: not executed, ErrorCode::kNotSent
  kLostBefore,  // lost on the way in: not executed, but the client sees ErrorCode::kUnknownOutcome
  kLostAfter,   // executed, the answer lost: ErrorCode::kUnknownOutcome
  kHangBefore,  // not executed; silence until the deadline, ErrorCode::kDeadline
  kHangAfter,   // executed; silence until the deadline
  kAnswer,      // not executed; `answer` instead
};

struct Fault {
  FaultKind kind = FaultKind::kNone;
  HttpResponse answer{};  // kAnswer
  Duration delay{};       // in addition to the latency
  Duration unsent_for{};  // before all else, it waits to be sent, as for a connection
};

class FakeTransport final : public Transport {
 public:
  // Plays the server: called at half the latency after the request was made. An HttpResponse is the whole
  // answer.
  using Handler = std::function<HttpResponse(const HttpRequest& request)>;
  // Asked first for requests made with open(). Returns the status and keeps `stream` to push into it;
  // nullopt: let the Handler answer, whose body then is the whole stream.
  using StreamHandler = std::function<std::optional<HttpResponse>(const HttpRequest& request,
                                                                  std::shared_ptr<FakeStream> stream)>;
  using FaultHook = std::function<Fault(const HttpRequest& request)>;

  explicit FakeTransport(Environment env);
  ~FakeTransport() override;

  void set_handler(Handler handler);
  void set_stream_handler(StreamHandler handler);
  void set_fault_hook(FaultHook hook);
  // Round trips take a time uniform between these; the default is none at all.
  void set_latency(Duration low, Duration high);

  // One answer of a script: used up, in order, before the handler is asked. Also as the whole body of a
  // stream.
  void enqueue(HttpResponse response);
  void enqueue_json(int status, std::string body);
  // One stream of a script: used up, in order, by requests made with open(), before enqueue()d answers. Push
  // into the returned end at any time, before or after the client opens it.
  std::shared_ptr<FakeStream> enqueue_stream(int status = 200);

  const std::vector<HttpRequest>& requests() const;  // all that were made, executed or not
  std::size_t in_flight() const;                     // round trips not yet answered
  std::size_t open_streams() const;                  // streams whose client end lives

  Task<Result<HttpResponse>> round_trip(HttpRequest request, Duration timeout) override;
  Task<Result<StreamResponse>> open(HttpRequest request, Duration timeout) override;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::client::testing
