#include "audit/audit_reason.h"

#include <algorithm>

#include "node/resource_vector.h"
#include "pool/request.h"

namespace muster::placement {
namespace {

class ReasonAudit {
 public:
  ReasonAudit(const ClusterModel& s, const Recount& now, JobId id, std::vector<std::string>& broken)
      : s_(s), now_(now), id_(id), j_(s.job(id)), broken_(broken) {}

  void run() {
    if (!j_.pending_reason || j_.pending_reason->reason == Reason::kNone ||
        j_.pending_reason->message.empty()) {
      broken_.push_back("I7: " + j_.spec.id + " waits and does not say why");
      return;
    }
    const PendingReason& v = *j_.pending_reason;
    for (const Blocking& b : v.blocking) {
      // Beside a reservation enough may be free, and in the wrong pieces (RULES.md 7.5).
      if (b.need <= b.have && v.reason != Reason::kReserved) wrong("needs no more than it has");
      if (b.by.size() > 8) wrong("names more than 8 holders");
    }
    if (is_of_pool(v) && v.blocking.empty()) wrong("gives no numbers");
  }

 private:
  void wrong(const std::string& why) {
    const PendingReason& v = *j_.pending_reason;
    broken_.push_back("I7: " + j_.spec.id + " waits for " + std::string(to_string(v.reason)) + ", but " +
                      why + ": " + v.message);
  }

  // Looks at what the reason says. False: it is about no pool, so it has no numbers.
  bool is_of_pool(const PendingReason& v) {
    const auto path = way_up(s_.tree(), j_.leaf);
    const auto is_held = [&](QueueId at) { return s_.tree().queue(at).spec.hold; };
    switch (v.reason) {
      case Reason::kInvalidSpec:
        if (s_.request_of(j_).refusal().empty()) wrong("its spec is valid");
        return false;
      case Reason::kProjectNotFound:
        if (!path.empty()) wrong("it has a Project");
        return false;
      case Reason::kQueueHeld:
        if (std::none_of(path.begin(), path.end(), is_held)) wrong("nothing is held");
        return false;
      case Reason::kNoDefaultPool:
        if (!j_.spec.pools.empty() || s_.tree().default_pool() != kNoId) wrong("it has a pool");
        return false;
      case Reason::kNoMatchingNodes:
        if (!j_.pools.empty()) no_node_would_do();
        return false;
      case Reason::kReserved:
        if (s_.tree().drains_before_end(path, s_.time, j_.spec.max_runtime) != kNoId) return true;
        if (std::none_of(s_.pools.begin(), s_.pools.end(),
                         [&](const Pool& p) { return p.reservation && p.reservation->owner != id_; }))
          wrong("nothing is reserved for another");
        return true;
      case Reason::kWaitingForVictims:
        if (!j_.nominated()) wrong("it has no places");
        return true;
      case Reason::kLimitReached:
      case Reason::kQuotaExceeded:
        numbers_of_bound(v, path);
        return true;
      default:
        return true;
    }
  }

  // With very many waiting, words may be a minute old.
  bool current(PoolId pool) const { return pool != kNoId && s_.pool(pool).waiting <= 1000; }

  void numbers_of_bound(const PendingReason& v, const std::vector<QueueId>& path) {
    for (const Blocking& b : v.blocking) {
      const PoolId pool = s_.find_pool(b.pool);
      if (!current(pool) || b.by.size() != 1) continue;
      const auto at = std::find_if(path.begin(), path.end(), [&](QueueId level) {
        const QueueSpec& q = s_.tree().queue(level).spec;
        return b.by[0] == (q.is_project ? "Project " : "Queue ") + q.name;
      });
      if (at == path.end()) return wrong("it does not stand below " + b.by[0]);
      const auto kind = std::ranges::find_if(
          s_.tree().accounted(), [&](ResourceKind k) { return b.resource == s_.resource_names.name_of(k); });
      if (kind == s_.tree().accounted().end()) continue;  // nobody states a bound of it any more
      const Tally held = now_.of(*at, pool);
      const Share& share = s_.tree().share(*at, pool);
      const bool limit = v.reason == Reason::kLimitReached;
      const std::int64_t used = limit
                                    ? std::max(amount_of(held.target(), *kind), amount_of(held.now(), *kind))
                                    : amount_of(held.non_preemptible, *kind);
      const std::int64_t most = bound_of(limit ? share.limit : share.quota, *kind).value_or(0);
      if (b.have != std::max<std::int64_t>(0, most - used))
        wrong("what is left is " + std::to_string(std::max<std::int64_t>(0, most - used)));
    }
  }

  void no_node_would_do() {
    const Request& request = s_.request_of(j_);
    const PoolId pool = j_.pools.front();
    if (!current(pool)) return;
    const auto& nodes = s_.nodes().all();
    for (const RoleSpec& role : request.roles) {
      const bool some = role.replicas == 0 || std::any_of(nodes.begin(), nodes.end(), [&](const Node& n) {
                          return n.takes_part() && n.pool == pool && would_do(n.spec, role, request.avoid) &&
                                 gives_such(n.spec, s_.pool(pool).spec, role);
                        });
      if (!some) return;
    }
    wrong("some node would do for each role");
  }

  const ClusterModel& s_;
  const Recount& now_;
  JobId id_;
  const Job& j_;
  std::vector<std::string>& broken_;
};

}  // namespace

void audit_reason(const ClusterModel& s, const Recount& now, JobId id, std::vector<std::string>& broken) {
  ReasonAudit(s, now, id, broken).run();
}

}  // namespace muster::placement
