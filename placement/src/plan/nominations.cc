// RULES.md 6.2: when a nominated place is given up, and when the job starts there.
#include <algorithm>
#include <utility>

#include "disruption/disruption.h"
#include "explain/reasons.h"
#include "plan/decisions.h"
#include "shares/admission.h"
#include "shares/eligibility.h"

namespace muster::placement {

// A nomination ends with the node, or when the node is not of the job's pool any more, and when its leaf may
// start nothing any more or is beyond a limit with it: the job asks again.
bool Decisions::end_if_void(JobId id) {
  const Job& j = s_.job(id);
  const PoolId pool = s_.find_pool(j.assignment->pool);
  const bool good =
      may_start(id, pool) &&
      std::all_of(j.nominated_pods.begin(), j.nominated_pods.end(), [&](std::size_t i) {
        const Allocation& c = j.allocations[i];
        const Node& n = s_.node(c.node);
        const auto there = [&](std::int32_t gpu) { return gpu < n.spec.gpus && n.healthy(gpu); };
        return n.takes_part() && n.pool == pool && c.unnamed == 0 &&
               std::all_of(c.gpus.begin(), c.gpus.end(), there);
      });
  if (!good) end_nomination(id);
  return !good;
}

void Decisions::end_nomination(JobId id) {
  Job& j = s_.job(id);
  ++changes_;
  const bool whole = j.nominated();
  const auto pods = j.nominated_pods;
  for (const std::size_t i : pods) s_.give_back(j.allocations[i]);
  auto [a, allocations] = s_.unhold(id);
  if (whole) {
    j.moving = false;
    j.started_in = 0;
    s_.start_waiting(id);
    return;
  }
  erase_pods(a, allocations, pods);
  s_.hold(id, std::move(a), std::move(allocations));
}

bool Decisions::may_start(JobId id, PoolId pool) const {
  const Job& j = s_.job(id);
  if (j.moving) return true;  // it does not start, it goes on
  const auto path = s_.tree().path(j.leaf);
  Resources nominated;
  for (const std::size_t i : j.nominated_pods) nominated += j.allocations[i].amounts;
  return !reason_of_leaf(s_.tree(), j.leaf, path) &&
         breach(s_.tree(), path, pool, nominated, applicant(j.spec)).empty();
}

void Decisions::start_nominated() {
  for (const JobId id : std::vector<JobId>(s_.jobs().nominated().begin(), s_.jobs().nominated().end())) {
    if (end_if_void(id)) continue;
    Job& j = s_.job(id);
    const bool whole = j.nominated();
    if (whole && !j.leaving.empty()) continue;                  // its own pods have to go first
    if (j.shrunk_in != 0 && j.shrunk_in == s_.plans) continue;  // not in the plan that has shrunk it
    const PoolId pool = s_.pool_of(j.assignment->pool);
    const auto path = s_.tree().path(j.leaf);
    // Charged until gone: what is leaving counts against limits still.
    Resources amounts;
    for (const std::size_t i : j.nominated_pods) amounts += j.allocations[i].amounts;
    // Who is moved held as much before: it waits for those who leave, not for a limit that was lowered since.
    const bool goes_on = j.moving && std::none_of(path.begin(), path.end(), [&](QueueId at) {
                           return s_.tree().sums(at, pool).leaving.pods > 0;
                         });
    if (!goes_on && broken_bound(s_, path, pool, amounts, Applicant{}, View::kForNominated)) continue;
    const auto version = s_.pool(pool).version;
    std::vector<std::size_t> ready;
    bool in_vain = false;  // somebody is there who does not leave: a foreign pod
    for (const std::size_t i : j.nominated_pods) {
      if (s_.available(j.allocations[i], View::kForNominated)) {
        s_.turn(j.allocations[i], Hold::kRunning);
        ready.push_back(i);
      } else {
        in_vain = in_vain || s_.node(j.allocations[i].node).leaving.pods == 0;
      }
    }
    const bool all = ready.size() == j.nominated_pods.size();
    if (!all && (whole || in_vain || !s_.request_of(j).groups.empty())) {
      for (const std::size_t i : ready) s_.turn(j.allocations[i], Hold::kNominated);
      s_.pool(pool).version = version;  // nothing has changed
      if (in_vain) end_nomination(id);
      continue;
    }
    if (ready.empty()) continue;
    ++changes_;
    for (const std::size_t i : ready) j.allocations[i].added_in = whole ? 0 : s_.plans;
    s_.note_nominations(id);
    if (whole) {
      // What it had a right to when it was nominated may be somebody else's by now.
      const bool beyond = amounts.gpu.value > 0 && std::any_of(path.begin(), path.end(), [&](QueueId at) {
                            return beyond_quota(s_.tree(), at, pool).gpu.value > 0;
                          });
      if (!started_now(j) && beyond) j.entitled = false;
      j.assumed = true;
      j.moving = false;
      j.started_in = s_.plans;  // and can be undone for a better right, like every start of this plan
      begin_attempt(j, now_);
      j.assignment->since = now_;
      s_.note_end(id);
      j.pending_reason.reset();
      say(Decision::Kind::kStart, id, EvictReason::kNone, "", "");
    } else if (!started_now(j) && find(id, Decision::Kind::kGrow) == nullptr) {
      say(Decision::Kind::kGrow, id, EvictReason::kNone, "", "");
    }
  }
}

}  // namespace muster::placement
