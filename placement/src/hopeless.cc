#include "hopeless.h"

#include <limits>

#include "place.h"
#include "rights.h"
#include "statement.h"

namespace muster::placement {

bool Hopeless::no_room(RequestId id, JobId first) {
  const auto [known, fresh] = no_room_.try_emplace(id, false);
  if (!fresh) return known->second;
  const Pool& p = s_.pool(pool_);
  Request& request = s_.requests.at(id);
  const Resources asked = s_.asked(request, pool_);
  const Resources& free = p.domains[0].free;
  const bool joined = asked.gpu <= p.spare_gpu && asked.cpu <= free.cpu && asked.memory <= free.memory &&
                      asked.pods <= free.pods;
  if (joined || p.leaving > 0 || p.reservation) return false;
  Refusal& refusal = request.refused[pool_];
  if (refusal.gains != p.gains) {
    const PlaceQuery query{first, pool_, View::kNow, Hold::kRunning, {}, 0};
    if (!refuted_by_totals(s_, query)) return false;
    Statement statement(s_);
    if (place(s_, statement, query, &refusal)) return false;
    refusal.gains = p.gains;
  }
  return known->second = true;
}

bool Hopeless::operator()(const std::vector<LeafId>& path, const WaitKind& kind, JobId first) {
  if (kind.alone != kNoId || !no_room(kind.request, first)) return false;
  const auto& held = s_.pool(pool_).preemptible_jobs;
  const auto least = held.lower_bound({path.front(), std::numeric_limits<std::int64_t>::min()});
  if (least != held.end() && least->first.first == path.front() && least->first.second < kind.priority)
    return false;
  const Claimant claimant{
      first, pool_, {path.front()}, s_.asked(s_.requests.at(kind.request), pool_), &fair_};
  return !may_have_right(s_, claimant, Right::kGuarantee) && !may_have_right(s_, claimant, Right::kFairness);
}

}  // namespace muster::placement
