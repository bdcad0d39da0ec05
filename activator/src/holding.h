// Which requests are held, and who goes when, to which replica. It does no I/O, and time comes in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/activator/serve.h"
#include "muster/client/object.h"

namespace muster::activator {

// A request. Who came first has the smaller number.
using Ticket = std::uint64_t;

struct Passed {
  Ticket ticket = 0;
  std::string replica;  // its address
  bool operator==(const Passed&) const = default;
};

class Holding {
 public:
  explicit Holding(Bounds bounds) : bounds_(bounds) {}

  // So much more has come of a request of which it is not known yet what it is. False: beyond the bound;
  // nothing is counted.
  bool take_head(const client::Key& service, std::size_t bytes);
  void forget_head(const client::Key& service, std::size_t bytes);
  // A request with so many bytes read. nullopt: beyond the bound of requests or of bytes.
  std::optional<Ticket> take(const client::Key& service, std::size_t bytes);
  // More of it was read while it is held. False: beyond the bound; nothing is counted.
  bool grow(Ticket ticket, std::size_t bytes);
  // It is over, held or passed on. Another may have its turn then.
  void end(Ticket ticket);
  // Its replica did not take it: it is held again, at its old place, and that replica gets nothing before
  // `until`.
  void refused(Ticket ticket, client::TimePoint until);

  // The replicas that are ready; those passed on to others stay there.
  void set_replicas(const client::Key& service, const std::vector<std::string>& ready);
  bool has_replica(const client::Key& service) const;
  // Those whose turn it is, in the order in which they came. Each goes to the ready replica that has the
  // fewest, and of these to the one whose last is longest ago. O(passed on * replicas).
  std::vector<Passed> pass_on(const client::Key& service, client::TimePoint now);

  std::size_t held(const client::Key& service) const;
  std::size_t held_bytes() const { return bytes_; }
  std::vector<Ticket> all_held(const client::Key& service) const;

 private:
  struct Request {
    client::Key service;
    std::size_t bytes = 0;
    std::string replica{};  // "": it is held
  };
  struct Replica {
    bool is_ready = false;
    std::size_t has = 0;
    std::uint64_t last = 0;  // when it got its last one, by turns
    client::TimePoint not_before{};
  };
  struct Line {
    std::set<Ticket> held;
    std::map<std::string, Replica> replicas;  // those that are not ready only while they have requests
  };
  void give_back(Line& line, const std::string& replica);

  Bounds bounds_;
  std::map<Ticket, Request> requests_;
  std::map<client::Key, Line> lines_;
  std::map<client::Key, std::size_t> heads_;  // bytes of those that still come; in bytes_ too
  std::size_t bytes_ = 0;
  Ticket next_ = 1;
  std::uint64_t turns_ = 0;
};

}  // namespace muster::activator
