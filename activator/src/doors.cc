#include "doors.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>
#include <utility>

#include "holding.h"
#include "muster/client/task_group.h"
#include "muster/client/waiter.h"
#include "request_head.h"
#include "sockets.h"

namespace muster::activator {
namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using client::Key;
using client::Task;

namespace {

constexpr auto kForHead = std::chrono::seconds{10};
constexpr auto kForConnect = std::chrono::seconds{3};
constexpr auto kFarewell = std::chrono::seconds{2};
// Whoever is held looks whether its turn has come.
constexpr client::Duration kLookAgain = std::chrono::seconds{1};
constexpr client::Duration kAvoided = std::chrono::seconds{1};    // a replica that did not take a request
constexpr client::Duration kOpenAgain = std::chrono::seconds{5};  // ports that could not be had
// Without file descriptors every accept fails at once.
constexpr auto kAcceptPause = std::chrono::milliseconds{100};
constexpr std::size_t kPiece = 32 << 10;
// While a head comes: anybody may open a connection, and each that is open has one.
constexpr std::size_t kHeadPiece = 4 << 10;
constexpr std::size_t kMaxTurnedAway = 200;   // at once; beyond, a connection is closed without a word
constexpr std::size_t kMostHeld = 128 << 10;  // of one request; the rest stays with its client
constexpr std::chrono::seconds kRetryFull{10}, kRetryClosed{1};

// A client, and what was read of its request.
struct Guest {
  Guest(tcp::socket socket, const client::Executor& executor)
      : client(std::move(socket)), replica(executor), news(executor) {
    set_up(client.socket());
  }
  beast::tcp_stream client, replica;
  std::string came;
  Head head;
  Ticket ticket = 0;
  std::size_t unfinished = 0;  // bytes of a head that count while it comes
  client::Waiter news;
  std::string address{};      // of the replica whose turn it is with it; "": none
  bool is_gone = false;       // the client is
  bool is_listening = false;  // for its client's leaving
};
using GuestPtr = std::shared_ptr<Guest>;

}  // namespace

struct Doors::State : std::enable_shared_from_this<Doors::State> {
  State(client::Environment e, const ActivatorOptions& o, std::function<void(bool)> d)
      : env(e),
        address(o.address),
        bounds(o.bounds),
        warn(o.warn),
        demand(std::move(d)),
        holding(o.bounds),
        tasks(e.executor),
        opening(e.executor) {}

  struct Door {
    Service service;
    std::shared_ptr<tcp::acceptor> acceptor;  // nullptr: not open
  };

  bool open(const Key& key, Door& door);
  static Task<void> open_again(std::shared_ptr<State> state);
  static Task<void> accept(std::shared_ptr<State> state, Key key, std::shared_ptr<tcp::acceptor> acceptor);
  static Task<void> serve(std::shared_ptr<State> state, Key key, tcp::socket socket);
  bool is_crowded(const Key& key) const;
  static Task<void> turn_away(std::shared_ptr<State> state, Key key, tcp::socket socket);
  static Task<void> talk(std::shared_ptr<State> state, Key key, GuestPtr guest);
  static Task<bool> read(std::shared_ptr<State> state, Key key, GuestPtr guest);
  static Task<bool> hold(std::shared_ptr<State> state, Key key, GuestPtr guest, client::TimePoint deadline);
  static Task<bool> connect(std::shared_ptr<State> state, GuestPtr guest);
  static Task<void> pass(std::shared_ptr<State> state, GuestPtr guest);
  static Task<void> upload(GuestPtr guest);
  static Task<void> refuse(GuestPtr guest, int status, std::string text, std::chrono::seconds retry = {});
  static void listen(const std::shared_ptr<State>& state, const GuestPtr& guest);
  void pump(const Key& key);
  void wake_all(const Key& key);

  client::Environment env;
  std::string address;
  Bounds bounds;
  std::function<void(const std::string&)> warn;
  std::function<void(bool)> demand;
  Holding holding;
  Counts counts;
  std::map<Key, Door> doors;
  std::map<Ticket, GuestPtr> guests;  // those that are held, or were passed on
  std::size_t connections = 0, turned_away = 0;
  std::map<Key, std::size_t> connections_of;  // of each service
  bool is_closed = false;
  client::TaskGroup tasks;    // accept, and one or two for each connection
  client::TaskGroup opening;  // tries again what could not be opened
};

bool Doors::State::open(const Key& key, Door& door) {
  error_code error;
  auto ip = asio::ip::make_address(address, error);
  auto acceptor = std::make_shared<tcp::acceptor>(env.executor);
  if (!error) acceptor->open(ip.is_v6() ? tcp::v6() : tcp::v4(), error);
  if (error && ip == asio::ip::address(asio::ip::address_v6::any())) {  // a machine without IPv6
    ip = asio::ip::address_v4::any();
    acceptor->open(tcp::v4(), error);
  }
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && ip.is_v6()) acceptor->set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor->bind(tcp::endpoint(ip, static_cast<std::uint16_t>(door.service.port)), error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    if (warn)
      warn(fmt::format("cannot listen for {} at port {}: {}", key, door.service.port, error.message()));
    return false;
  }
  door.acceptor = acceptor;
  tasks.spawn(accept(shared_from_this(), key, acceptor));
  return true;
}

// Until all are open.
Task<void> Doors::State::open_again(std::shared_ptr<State> state) {
  while (co_await state->env.clock.sleep_for(kOpenAgain)) {
    bool all = true;
    for (auto& [key, door] : state->doors) {
      if (door.acceptor || door.service.port == 0) continue;
      const bool is_open = state->open(key, door);
      all = all && is_open;
      if (is_open) state->demand(true);
    }
    if (all) co_return;
  }
}

Task<void> Doors::State::accept(std::shared_ptr<State> state, Key key,
                                std::shared_ptr<tcp::acceptor> acceptor) {
  error_code error;
  while (acceptor->is_open()) {
    tcp::socket socket = co_await acceptor->async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) break;
    if (error) {
      asio::steady_timer pause(state->env.executor, kAcceptPause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if (!state->is_crowded(key)) {
      state->tasks.spawn(serve(state, key, std::move(socket)));
      continue;
    }
    ++state->counts.crowded;
    if (state->turned_away < kMaxTurnedAway) state->tasks.spawn(turn_away(state, key, std::move(socket)));
  }
}

// One service cannot take all connections from the others.
bool Doors::State::is_crowded(const Key& key) const {
  const auto of = connections_of.find(key);
  return connections >= bounds.connections ||
         (of != connections_of.end() && of->second >= bounds.connections_of_service);
}

Task<void> Doors::State::turn_away(std::shared_ptr<State> state, Key key, tcp::socket socket) {
  ++state->turned_away;
  const auto guest = std::make_shared<Guest>(std::move(socket), state->env.executor);
  try {
    co_await refuse(guest, 503, fmt::format("{}: too many connections wait here; try again later\n", key),
                    kRetryFull);
  } catch (const std::exception& e) {
    if (state->warn) state->warn(fmt::format("a connection ended: {}", e.what()));
  }
  --state->turned_away;
  guest->client.close();
}

// What one connection makes us throw ends that connection only.
Task<void> Doors::State::serve(std::shared_ptr<State> state, Key key, tcp::socket socket) {
  ++state->connections;
  ++state->connections_of[key];
  const auto guest = std::make_shared<Guest>(std::move(socket), state->env.executor);
  try {
    co_await talk(state, key, guest);
  } catch (const std::exception& e) {
    if (state->warn) state->warn(fmt::format("a connection ended: {}", e.what()));
  }
  --state->connections;
  if (--state->connections_of[key] == 0) state->connections_of.erase(key);
  state->holding.forget_head(key, guest->unfinished);
  if (guest->ticket != 0) {
    const bool was_held = guest->address.empty();
    state->guests.erase(guest->ticket);
    state->holding.end(guest->ticket);
    if (was_held) state->demand(false);
    state->pump(key);
  }
  guest->client.close();
  guest->replica.close();
}

Task<void> Doors::State::talk(std::shared_ptr<State> state, Key key, GuestPtr guest) {
  if (!co_await read(state, key, guest)) co_return;
  state->holding.forget_head(key, std::exchange(guest->unfinished, 0));
  const auto ticket = state->holding.take(key, guest->came.size());
  if (!ticket) {
    ++state->counts.full;
    co_await refuse(guest, 429,
                    fmt::format("{}: too many requests wait for its first replica; try again later\n", key),
                    kRetryFull);
    co_return;
  }
  guest->ticket = *ticket;
  state->guests[*ticket] = guest;
  const bool is_first = state->holding.held(key) == 1;
  state->pump(key);
  if (guest->address.empty()) state->demand(is_first);
  const client::TimePoint deadline = state->env.clock.now() + state->bounds.time;
  while (true) {
    if (!co_await hold(state, key, guest, deadline)) co_return;
    if (co_await connect(state, guest)) break;
    state->holding.refused(guest->ticket, state->env.clock.now() + kAvoided);
    guest->address.clear();
    state->demand(false);
  }
  ++state->counts.passed;
  co_await pass(state, guest);
}

// Reads until the head is there. False: it does not come, or is none.
Task<bool> Doors::State::read(std::shared_ptr<State> state, Key key, GuestPtr guest) {
  std::vector<char> piece(kHeadPiece);
  guest->client.expires_after(kForHead);
  while (true) {
    error_code error;
    const std::size_t n = co_await guest->client.async_read_some(
        asio::buffer(piece), asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return false;
    if (!state->holding.take_head(key, n)) {
      ++state->counts.full;
      co_await refuse(guest, 429,
                      fmt::format("{}: too many requests are on their way in; try again later\n", key),
                      kRetryFull);
      co_return false;
    }
    guest->unfinished += n;
    guest->came.append(piece.data(), n);
    const auto head = read_head(guest->came);
    if (!head) {
      ++state->counts.wrong;
      co_await refuse(guest, 400, "this request cannot be held: " + head.error() + "\n");
      co_return false;
    }
    if (!*head) continue;
    guest->head = **head;
    guest->client.expires_never();
    co_return true;
  }
}

// What comes while it is held is kept, up to a bound; beyond, its client has to wait. So it shows when the
// client leaves.
void Doors::State::listen(const std::shared_ptr<State>& state, const GuestPtr& guest) {
  if (guest->is_listening || guest->came.size() >= kMostHeld) return;
  guest->is_listening = true;
  guest->client.socket().async_wait(tcp::socket::wait_read, [state, guest](error_code error) {
    guest->is_listening = false;
    if (error || !guest->address.empty()) return;
    std::vector<char> piece(kPiece);
    tcp::socket& socket = guest->client.socket();
    socket.non_blocking(true, error);
    const std::size_t n = socket.read_some(asio::buffer(piece), error);
    if (error == asio::error::would_block) return listen(state, guest);
    if (error) {
      guest->is_gone = true;
      guest->news.notify();
      return;
    }
    guest->came.append(piece.data(), n);
    if (state->holding.grow(guest->ticket, n)) listen(state, guest);
  });
}

// Until it has a replica. False: it is over.
Task<bool> Doors::State::hold(std::shared_ptr<State> state, Key key, GuestPtr guest,
                              client::TimePoint deadline) {
  while (guest->address.empty()) {
    listen(state, guest);
    const client::TimePoint now = state->env.clock.now();
    if (state->is_closed || !state->doors.contains(key)) {
      ++state->counts.closed;
      co_await refuse(guest, 503,
                      state->is_closed ? "this activator ends; try again\n"
                                       : fmt::format("{} is gone, or is not held for any more\n", key),
                      kRetryClosed);
      co_return false;
    }
    if (now >= deadline) {
      ++state->counts.late;
      const std::string& reason = state->doors.at(key).service.reason;
      co_await refuse(guest, 504,
                      fmt::format("{}: no replica took this request within {} s{}\n", key,
                                  std::chrono::floor<std::chrono::seconds>(state->bounds.time).count(),
                                  reason.empty() ? "" : " (" + reason + ")"));
      co_return false;
    }
    const auto woken =
        co_await guest->news.wait_until(state->env.clock, std::min(deadline, now + kLookAgain));
    if (guest->is_gone) ++state->counts.gone;
    if (guest->is_gone || woken == client::Wake::kCancelled) co_return false;
    state->pump(key);
  }
  error_code ignored;
  guest->client.socket().cancel(ignored);  // nobody listens for its leaving any more
  co_return true;
}

Task<bool> Doors::State::connect(std::shared_ptr<State> state, GuestPtr guest) {
  const auto endpoint = endpoint_of(guest->address);
  if (!endpoint) co_return false;
  error_code error;
  guest->replica.close();  // of an earlier try
  guest->replica.expires_after(kForConnect);
  co_await guest->replica.async_connect(*endpoint, asio::redirect_error(asio::use_awaitable, error));
  if (error && state->warn)
    state->warn(fmt::format("a replica at {} cannot be reached: {}", guest->address, error.message()));
  if (error) co_return false;
  guest->replica.expires_never();
  set_up(guest->replica.socket());
  co_return true;
}

// What the client sends goes to the replica as it comes.
Task<void> Doors::State::upload(GuestPtr guest) {
  std::vector<char> piece(kPiece);
  error_code error;
  while (true) {
    const std::size_t n = co_await guest->client.async_read_some(
        asio::buffer(piece), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    co_await asio::async_write(guest->replica, asio::buffer(piece, n),
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;  // the answer may say why
  }
  error_code ignored;
  if (error == asio::error::eof)
    guest->replica.socket().shutdown(tcp::socket::shutdown_send, ignored);
  else
    guest->replica.close();  // the client has gone: nobody waits for the answer
}

Task<void> Doors::State::pass(std::shared_ptr<State> state, GuestPtr guest) {
  std::string head = std::exchange(guest->head.passed_on, {});
  head.append(guest->came, guest->head.size);
  guest->came = {};
  error_code error;
  co_await asio::async_write(guest->replica, asio::buffer(head),
                             asio::redirect_error(asio::use_awaitable, error));
  head = {};
  state->tasks.spawn(upload(guest));
  std::vector<char> piece(kPiece);
  bool has_begun = false;
  while (true) {
    const std::size_t n = co_await guest->replica.async_read_some(
        asio::buffer(piece), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    has_begun = true;
    error_code gone;
    co_await asio::async_write(guest->client, asio::buffer(piece, n),
                               asio::redirect_error(asio::use_awaitable, gone));
    if (gone) co_return;
  }
  if (!has_begun)
    co_return co_await refuse(guest, 502, "the replica ended the connection without an answer\n");
  if (error != asio::error::eof) co_return cut(guest->client);
  error_code ignored;
  guest->client.socket().shutdown(tcp::socket::shutdown_send, ignored);
}

// Tells the client. What it still sends is read for a moment: if it were not, the client might not see the
// answer.
Task<void> Doors::State::refuse(GuestPtr guest, int status, std::string text, std::chrono::seconds retry) {
  error_code error;
  guest->client.socket().cancel(error);
  const std::string answer = refusal(guest->head.protocol, status, text, retry);
  guest->client.expires_after(kFarewell);
  co_await asio::async_write(guest->client, asio::buffer(answer),
                             asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return;
  guest->client.socket().shutdown(tcp::socket::shutdown_send, error);
  std::vector<char> piece(kPiece);
  for (std::size_t read = 0; read < (std::size_t{1} << 20);) {
    const std::size_t n = co_await guest->client.async_read_some(
        asio::buffer(piece), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    read += n;
  }
}

// Those whose turn it is hear of it.
void Doors::State::pump(const Key& key) {
  for (const Passed& passed : holding.pass_on(key, env.clock.now())) {
    const auto guest = guests.find(passed.ticket);
    if (guest == guests.end()) continue;
    guest->second->address = passed.replica;
    guest->second->news.notify();
    demand(false);
  }
}

void Doors::State::wake_all(const Key& key) {
  for (const Ticket ticket : holding.all_held(key)) {
    if (const auto guest = guests.find(ticket); guest != guests.end()) guest->second->news.notify();
  }
}

Doors::Doors(client::Environment env, const ActivatorOptions& options, std::function<void(bool)> demand)
    : state_(std::make_shared<State>(env, options, std::move(demand))) {}
Doors::~Doors() = default;

void Doors::set_service(const Key& key, Service service) {
  State& state = *state_;
  if (state.is_closed) return;
  auto& door = state.doors[key];
  const bool is_moved = door.service.port != service.port;
  door.service = std::move(service);
  if (!is_moved && door.acceptor) return;
  if (door.acceptor) door.acceptor->close();
  door.acceptor.reset();
  if (door.service.port != 0 && !state.open(key, door) && state.opening.empty())
    state.opening.spawn(State::open_again(state_));
  state.demand(true);
}

void Doors::remove_service(const Key& key) {
  const auto found = state_->doors.find(key);
  if (found == state_->doors.end()) return;
  if (found->second.acceptor) found->second.acceptor->close();
  state_->doors.erase(found);
  state_->wake_all(key);
  state_->demand(true);
}

void Doors::set_replicas(const Key& key, const std::vector<std::string>& ready) {
  state_->holding.set_replicas(key, ready);
  state_->pump(key);
}

std::map<Key, Doors::Demand> Doors::demand() const {
  std::map<Key, Demand> all;
  for (const auto& [key, door] : state_->doors) {
    if (door.acceptor) all[key] = {door.service.port, state_->holding.held(key)};
  }
  return all;
}

const Counts& Doors::counts() const {
  return state_->counts;
}

void Doors::close() {
  State& state = *state_;
  state.is_closed = true;
  state.opening.cancel();
  for (auto& [key, door] : state.doors) {
    if (door.acceptor) door.acceptor->close();
    state.wake_all(key);
  }
}

Task<void> Doors::join(client::TimePoint deadline) {
  const auto state = state_;
  co_await state->tasks.join_until(state->env.clock, deadline);
  state->tasks.cancel();
  for (const auto& [ticket, guest] : state->guests) {
    guest->client.close();
    guest->replica.close();
  }
  co_await state->tasks.join();
  co_await state->opening.join();
}

}  // namespace muster::activator
