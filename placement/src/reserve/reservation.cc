#include "reserve/reservation.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "disruption/surge.h"
#include "model/due.h"
#include "model/statement.h"
#include "node/resource_vector.h"
#include "place/place.h"
#include "pool/totals.h"
#include "shares/admission.h"
#include "shares/backfill.h"
#include "shares/shares.h"

namespace muster::placement {
namespace {

constexpr Duration kLate = seconds(60);     // a pod may need as long to go
constexpr std::size_t kMaxTried = 4;        // in one plan, of those that could not start whoever ends
constexpr std::size_t kMaxLookedAt = 100;   // kinds of those that are refused
constexpr std::int32_t kMaxDoublings = 6;   // of how long none is made again that was in vain
constexpr std::int64_t kUnknownRounds = 6;  // so many times reservation_after a place without an end is kept

void drop(ClusterModel& s, Pool& p) {
  for (const NodeId id : p.reservation->nodes) s.node(id).kept_for_reservation = false;
  p.reservation.reset();
  ++p.gains;
  ++p.version;
}

// As things are, not as a search for victims tries them.
void note_rights(const ClusterModel& s, PoolId pool, Reservation& r) {
  const Job& owner = s.job(r.owner);
  r.kept_bounds = bounds_kept(s, s.tree().path(owner.leaf), pool, s.asked(s.request_of(owner), pool), false);
}

// Within limits and quotas as far as plans can see: what is leaving has left. What is reserved for other
// Projects may come free.
bool within_bounds(const ClusterModel& s, const Job& j, PoolId pool) {
  const auto bound = broken_bound(s, s.tree().path(j.leaf), pool, s.asked(s.request_of(j), pool),
                                  applicant(j.spec), View::kTarget);
  return !bound || bound->kind == Bound::kReservedPart;
}

bool fits(ClusterModel& s, JobId id, PoolId pool) {
  Statement statement(s);
  return place(s, statement, {id, pool, View::kTarget, Hold::kNominated, {}, kWholePool, true}).has_value();
}

// Something may start in its leaf, and it is places that it lacks: not only room under a limit or a quota.
bool lacks_places(ClusterModel& s, JobId id, PoolId pool) {
  const Job& j = s.job(id);
  const auto path = s.tree().path(j.leaf);
  if (!s.tree().may_start(j.leaf, path)) return false;
  if (s.tree().drains_before_end(path, s.time, j.spec.max_runtime) != kNoId) return false;
  return within_bounds(s, j, pool) || !fits(s, id, pool);
}

bool in_line(const Job& j, PoolId pool) {
  return j.known && j.waits && std::find(j.pools.begin(), j.pools.end(), pool) != j.pools.end();
}

// It ends at a time that somebody knows or has learned, or it may be taken. What else runs, such as a
// notebook or a replica of a service, may be there for ever: nothing is kept free beside it in vain.
bool has_end(const Job& j) {
  return end_of(j) || learned_end_of(j) || (j.spec.preemptible && !j.spec.serves);
}

// Whether the pool is large enough for what is asked beside all that may be there for ever.
bool is_room_beside(const ClusterModel& s, PoolId pool, Resources sum) {
  for (const auto& [leaf, jobs] : s.pool(pool).holding) {
    for (const JobId id : jobs) {
      if (has_end(s.job(id))) continue;
      for (const Allocation& a : s.job(id).allocations) sum += a.amounts;
    }
  }
  return fits_in(sum, s.pool(pool).domains[0].capacity);
}

// What runs in the pool and may come free, in the order in which it is expected to end. Replicas of services
// may be moved, if there is room for all of them elsewhere.
std::vector<JobId> by_end(const ClusterModel& s, PoolId pool, const Resources& asked) {
  std::vector<std::tuple<bool, Time, std::string_view, JobId>> list;
  const bool can_move = is_room_beside(s, pool, asked);
  for (const auto& [leaf, jobs] : s.pool(pool).holding) {
    for (const JobId id : jobs) {
      const Job& j = s.job(id);
      const bool moves = j.spec.serves && can_move && (j.spec.preemptible || may_surge(j));
      if (!has_end(j) && !moves) continue;
      const auto end = end_of(j);
      list.emplace_back(!end, end ? *end : j.progress.began, j.spec.id, id);
    }
  }
  std::sort(list.begin(), list.end());
  std::vector<JobId> ids;
  for (const auto& entry : list) ids.push_back(std::get<JobId>(entry));
  return ids;
}

// How many of `running` have to end before the job fits, at least one, and where it then does. By doubling
// until it fits and bisection between the last two, with the same search for places as ever. O(pods of twice
// as many as that, and log(running) searches).
std::optional<std::pair<std::size_t, std::vector<PodPlace>>> earliest(ClusterModel& s, JobId id, PoolId pool,
                                                                      const std::vector<JobId>& running) {
  Statement statement(s);
  std::vector<std::size_t> marks = {statement.mark()};  // [k]: when k of them have ended
  std::optional<std::vector<PodPlace>> best;
  const auto fits_after = [&](std::size_t count) {
    if (count + 1 < marks.size()) {
      statement.rollback(marks[count]);
      marks.resize(count + 1);
    }
    while (marks.size() <= count) {
      const JobId next = running[marks.size() - 1];
      for (std::size_t i = 0; i < s.job(next).allocations.size(); ++i) statement.release(next, i);
      marks.push_back(statement.mark());
    }
    if (!within_bounds(s, s.job(id), pool)) return false;
    auto places = place(s, statement, {id, pool, View::kTarget, Hold::kNominated, {}, kWholePool, true});
    statement.rollback(marks.back());
    if (!places) return false;
    best = std::move(places);
    return true;
  };
  std::size_t low = 0, high = 1;  // it does not fit after `low`, and fits after `high`
  while (!fits_after(high)) {
    if (high == running.size()) return std::nullopt;
    low = std::exchange(high, std::min(2 * high, running.size()));
  }
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (fits_after(middle) ? high : low) = middle;
  }
  return std::pair(high, std::move(*best));
}

// Nodes would idle in vain: the owner stays within no bound, so Projects that do are not kept off (7.2), and
// of what others hold, half as much as it asks for is within their fair shares. Of a job with GPUs only GPUs
// count.
bool others_come_first(const ClusterModel& s, PoolId pool, const Reservation& r) {
  const Job& owner = s.job(r.owner);
  if (kept_throughout(r.kept_bounds, s.tree().path(owner.leaf), {}).any()) return false;
  const Resources asked = s.asked(s.request_of(owner), pool);
  const Pool& p = s.pool(pool);
  const auto hold_half = [&](ResourceKind kind) {
    std::int64_t held = 0;
    for (const auto& [leaf, jobs] : p.holding) {
      const auto i = static_cast<std::size_t>(leaf);
      if (leaf != owner.leaf && i < p.fair.size())
        held += std::min(amount_of(s.tree().sums(leaf, pool).allocated, kind), amount_of(p.fair[i], kind));
    }
    return amount_of(asked, kind) > 0 && 2 * held >= amount_of(asked, kind);
  };
  if (asked.gpu.value > 0) return hold_half(ResourceKind::kGpu);
  return std::ranges::any_of(s.tree().accounted(), hold_half);
}

bool make(ClusterModel& s, PoolId pool, JobId id) {
  const auto running = by_end(s, pool, s.asked(s.request_of(s.job(id)), pool));
  if (running.empty()) return false;
  const auto found = earliest(s, id, pool, running);
  if (!found) return false;
  Reservation r;
  r.owner = id;
  r.name = s.job(id).spec.id;
  for (const PodPlace& p : found->second) r.nodes.push_back(s.nodes().find(p.node));
  std::sort(r.nodes.begin(), r.nodes.end());
  r.nodes.erase(std::unique(r.nodes.begin(), r.nodes.end()), r.nodes.end());
  r.start = end_of(s.job(running[found->first - 1]));
  r.made = s.time;
  note_rights(s, pool, r);
  if (others_come_first(s, pool, r)) return false;
  for (const NodeId n : r.nodes) s.node(n).kept_for_reservation = true;
  s.pool(pool).reservation = std::move(r);
  ++s.pool(pool).gains;  // refusals of those that are kept off from now on are another matter
  return true;
}

// When all that is still on the nodes has ended; nullopt: something there has no end.
std::optional<Time> last_end(const ClusterModel& s, PoolId pool, const std::vector<NodeId>& nodes) {
  Time last = s.time;
  // Most of what has no end holds GPUs, and is found at once.
  for (const NodeId id : nodes) {
    for (const Gpu& gpu : s.node(id).gpus) {
      for (const GpuUse& use : gpu.uses) {
        if (use.holder != kOther && use.hold == Hold::kRunning && !end_of(s.job(use.holder)))
          return std::nullopt;
      }
    }
  }
  for (const auto& [leaf, jobs] : s.pool(pool).holding) {
    for (const JobId id : jobs) {
      const Job& j = s.job(id);
      const bool there = std::any_of(j.allocations.begin(), j.allocations.end(), [&](const Allocation& c) {
        return std::binary_search(nodes.begin(), nodes.end(), c.node);
      });
      if (!there) continue;
      const auto end = end_of(j);
      if (!end) return std::nullopt;
      last = std::max(last, *end);
    }
  }
  return last;
}

// From when on a reservation is late, and made anew.
Time late(const Pool& p) {
  const Reservation& r = *p.reservation;
  return r.start ? *r.start + kLate : r.made + Duration{p.spec.reservation_after.ms * kUnknownRounds};
}

bool has_ended(ClusterModel& s, PoolId pool) {
  const Pool& p = s.pool(pool);
  const Reservation& r = *p.reservation;
  const Job& owner = s.job(r.owner);
  const bool waits = owner.spec.id == r.name && in_line(owner, pool) && lacks_places(s, r.owner, pool);
  const bool there = std::all_of(r.nodes.begin(), r.nodes.end(), [&](NodeId id) {
    return s.node(id).kept_for_reservation && s.node(id).takes_part() && s.node(id).pool == pool;
  });
  return !waits || !there || late(p) <= s.time;
}

// An owner without a right keeps off nobody who has one, so its start may be missed again and again. Each
// time the nodes are free for twice as long as before, compared with how long they were kept.
void note_whether_in_vain(ClusterModel& s, PoolId pool) {
  const Pool& p = s.pool(pool);
  const Reservation& r = *p.reservation;
  Job& owner = s.job(r.owner);
  if (owner.spec.id != r.name) return;
  const bool has_right = kept_throughout(r.kept_bounds, s.tree().path(owner.leaf), {}).any();
  if (has_right || late(p) > s.time) {
    owner.reserved_in_vain = 0;
    return;
  }
  owner.reserved_in_vain = std::min(owner.reserved_in_vain + 1, kMaxDoublings);
  const Duration kept = s.time - r.made;
  owner.no_reservation_before =
      s.time + Duration{wrapping_mul(kept.ms, std::int64_t{1} << owner.reserved_in_vain)};
}

void bring_up_to_date(const ClusterModel& s, PoolId pool, Reservation& r) {
  if (!r.start) r.start = last_end(s, pool, r.nodes);
  note_rights(s, pool, r);
}

// The next plan would find it different, by what this one has decided.
bool is_outdated(ClusterModel& s, PoolId pool) {
  if (has_ended(s, pool)) return true;
  const Reservation& r = *s.pool(pool).reservation;
  Reservation next = r;
  const auto judged_by = std::exchange(s.pool(pool).fair, fair_shares(s, pool));
  bring_up_to_date(s, pool, next);
  s.pool(pool).fair = judged_by;
  return next.start != r.start || next.kept_bounds != r.kept_bounds;
}

void note_when_it_changes(ClusterModel& s, PoolId pool) {
  Pool& p = s.pool(pool);
  soonest(p.due, std::max(late(p), s.time + seconds(1)));
  if (is_outdated(s, pool)) soonest(p.due, s.time + seconds(1));
  if (p.reservation->start) return;
  // Who runs may grow or be moved onto its nodes as soon as it has no longer to go than this: kept_off().
  const auto next =
      std::find_if(p.ends.upper_bound({s.time + p.spec.reservation_after, kLastId<JobId>}), p.ends.end(),
                   [&](const auto& end) {
                     // What it would grow by may be beyond the right that it has as it is.
                     const Request& request = s.request_of(s.job(end.second));
                     return request.elastic || kept_off(s, end.second, pool, s.asked(request, pool), true);
                   });
  if (next != p.ends.end()) soonest(p.due, next->first - p.spec.reservation_after);
}

}  // namespace

void refresh_reservation(ClusterModel& s, PoolId pool) {
  Pool& p = s.pool(pool);
  if (!p.reservation) return;
  if (has_ended(s, pool)) {
    note_whether_in_vain(s, pool);
    return drop(s, p);
  }
  bring_up_to_date(s, pool, *p.reservation);
}

void note_rights_of_owner(ClusterModel& s, PoolId pool) {
  if (auto& r = s.pool(pool).reservation) note_rights(s, pool, *r);
}

bool never_fits(const ClusterModel& s, JobId job, PoolId pool) {
  const auto& known = s.request_of(s.job(job)).refused;
  const auto refusal = known.find(pool);
  return refusal != known.end() && refusal->second.never && refusal->second.members == s.pool(pool).members;
}

void reserve_for(ClusterModel& s, PoolId pool, JobId refused, Reserving& search) {
  Pool& p = s.pool(pool);
  if (p.reservation || search.over || search.tried == kMaxTried) return;
  Job& j = s.job(refused);
  if (!in_line(j, pool)) return;
  // What was found of one holds for all of its kind, and who could never start is in nobody's way.
  const std::tuple kind{j.leaf, j.request, j.spec.preemptible};
  if (search.passed_over.contains(kind)) return;
  if (never_fits(s, refused, pool)) return;
  if (search.looked_at == kMaxLookedAt) return;
  const bool has_one = std::any_of(s.pools.begin(), s.pools.end(), [&](const Pool& o) {
    return o.reservation && o.reservation->owner == refused;
  });
  if (has_one) return;
  if (j.no_reservation_before > s.time) return soonest(p.due, j.no_reservation_before);
  ++search.looked_at;
  if (!lacks_places(s, refused, pool)) {
    search.passed_over.insert(kind);
    return;
  }
  const Time then = std::max(j.spec.submitted, j.last_held) + p.spec.reservation_after;
  if (then > s.time) {
    soonest(p.due, then);
    search.over = true;
    search.next = refused;
  } else if (++search.tried; !make(s, pool, refused)) {
    j.no_reservation_before = s.time + p.spec.reservation_after;
    soonest(p.due, s.time + seconds(1));  // whoever is next has its turn
    search.passed_over.insert(kind);
  }
}

JobId reserve(ClusterModel& s, PoolId pool, const std::vector<JobId>& refused) {
  Reserving search;
  for (const JobId id : refused) reserve_for(s, pool, id, search);
  if (s.pool(pool).reservation) note_when_it_changes(s, pool);
  return search.next;
}

}  // namespace muster::placement
