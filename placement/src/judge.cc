#include "judge.h"

#include <algorithm>
#include <map>

#include "admission.h"
#include "estimate.h"
#include "place.h"
#include "reasons.h"
#include "reservation.h"
#include "rights.h"
#include "statement.h"

namespace muster::placement {
namespace {

constexpr std::int32_t kMostEstimated = 100;  // of each line: beyond that an estimate is worth little

}  // namespace

void Judge::line(const Line& line, const std::vector<JobId>& refused) {
  const PoolId pool = line.pool();
  Where where;
  std::map<LeafId, std::int32_t> in_project;
  const auto& reservation = s_.pool(pool).reservation;
  Estimate estimate(s_, pool);
  std::map<LeafId, std::vector<LeafId>> paths;
  std::map<std::pair<LeafId, RequestId>, std::optional<Verdict>> rights;
  for (const JobId id : refused) {
    const Job& j = s_.job(id);
    if (!j.waits || j.pools.front() != pool) continue;
    auto path = paths.find(j.leaf);
    if (path == paths.end()) path = paths.emplace(j.leaf, s_.path(j.leaf)).first;
    ++where.position;
    where.in_project = ++in_project[j.leaf];
    where.estimated_start.reset();
    const auto bound = broken_bound(s_, path->second, pool, s_.asked(s_.request_of(j), pool),
                                    j.spec.preemptible, View::kNow);
    if (bound && bound->binds) {
      publish(id, verdict_of_bound(s_, *bound, pool), 0, where);
      continue;
    }
    if (where.position <= kMostEstimated)
      where.estimated_start = estimate.next(s_.asked(s_.request_of(j), pool));
    const bool owner = reservation && reservation->owner == id;
    if (owner && reservation->start) where.estimated_start = reservation->start;
    if (kept_off(s_, id, pool) && fits_reserved(id, pool)) {
      publish(id, verdict_of_reservation(s_, j, pool), 0, where);
      continue;
    }
    const Refusal& refusal = described(j.request, pool);
    const auto [right, fresh] = rights.try_emplace({j.leaf, j.request});
    if (fresh && refusal.verdict.reason != Reason::kNoMatchingNodes)
      right->second = without_right(line, j, path->second);
    if (owner) {
      const Verdict& v = right->second ? *right->second : refusal.verdict;
      publish(id, verdict_of_owner(s_, v, *reservation), 0, where);
    } else if (right->second) {
      publish(id, *right->second, 0, where);
    } else {
      publish(id, refusal.verdict, refusal.serial, where);
    }
  }
  for (const LeafId leaf : line.barred()) {
    const Verdict v = verdict_of_leaf(s_, leaf, s_.path(leaf)).value();
    for (const WaitKey& key : s_.pool(pool).lines.at(leaf)) {
      if (s_.job(key.job).pools.front() == pool) publish(key.job, v, 0, {});
    }
  }
}

std::optional<Verdict> Judge::without_right(const Line& line, const Job& j, const std::vector<LeafId>& path) {
  Claimant c{s_.job_ids.at(j.spec.id), line.pool(), path, s_.asked(s_.request_of(j), line.pool()),
             &line.fair()};
  const bool within = std::all_of(path.begin(), path.end(), [&](LeafId at) {
    return s_.sums(at, c.pool).allocated.gpu + c.asked.gpu <= line.fair()[static_cast<std::size_t>(at)].gpu;
  });
  if (c.asked.gpu.value == 0 || within) return std::nullopt;
  // What others hold and could give would do: only the right to it is missing.
  const Pool& p = s_.pool(c.pool);
  const TreeSums& own = s_.sums(j.leaf, c.pool);
  const Resources theirs = p.domains[0].free + p.preemptible - (own.allocated - own.fixed);
  if (theirs.gpu < c.asked.gpu) return std::nullopt;
  return verdict_of_fair_share(s_, c);
}

// The refusal of a request with numbers as they are now; once for all jobs that ask the same.
const Refusal& Judge::described(RequestId id, PoolId pool) {
  Request& request = s_.requests.at(id);
  Refusal& refusal = request.refused[pool];
  if (refusal.version == s_.pool(pool).version) return refusal;
  Verdict v = verdict_of_shortage(s_, request, pool, refusal);
  if (refusal.serial == 0 || v != refusal.verdict) {
    refusal.verdict = std::move(v);
    refusal.serial = ++s_.last_serial;
  }
  refusal.version = s_.pool(pool).version;
  return refusal;
}

bool Judge::fits_reserved(JobId id, PoolId pool) {
  const auto [known, fresh] = fits_reserved_.try_emplace({s_.job(id).request, pool});
  if (fresh) {
    Statement statement(s_);
    known->second = place(s_, statement, {id, pool, View::kNow, Hold::kRunning, {}, 0, true}).has_value();
  }
  return known->second;
}

void Judge::nominated(PoolId pool) {
  for (const JobId id : s_.promised) {
    const Job& j = s_.job(id);
    if (!j.nominated() || s_.pool_of(j.assignment->pool) != pool) continue;
    publish(id, verdict_of_promise(s_, j), 0, {});
  }
}

void Judge::sidelined() {
  if (!s_.sidelined_changed) return;
  s_.sidelined_changed = false;
  for (const JobId id : s_.sidelined) publish(id, verdict_of_sidelined(s_, s_.job(id)), 0, {});
}

// `serial`: of the refusal that the verdict comes from; equal serials mean equal verdicts.
void Judge::publish(JobId id, const Verdict& verdict, std::uint64_t serial, const Where& where) {
  Job& j = s_.job(id);
  const bool same_text = j.verdict && serial != 0 && serial == j.verdict_serial;
  if (same_text && j.verdict->position == where.position && j.verdict->project_position == where.in_project &&
      j.verdict->estimated_start == where.estimated_start)
    return;
  Verdict v = same_text ? std::move(*j.verdict) : verdict;
  v.position = where.position;
  v.project_position = where.in_project;
  v.estimated_start = where.estimated_start;
  j.verdict_serial = serial;
  if (!same_text && j.verdict == v) return;
  j.verdict = std::move(v);
  changed_.push_back(j.spec.id);
}

}  // namespace muster::placement
