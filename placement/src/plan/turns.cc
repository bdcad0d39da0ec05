#include "plan/turns.h"

namespace muster::placement {

bool Turns::are_over() {
  cut_short_ = cut_short_ || s_.work.is_spent();
  return cut_short_;
}

Sweep::Refused Turns::key_of(PoolId pool, JobId id) const {
  const Job& j = s_.job(id);
  PendingKind kind = kind_of(j, id);
  // The owner of a reservation asks the same as others and may use more.
  const auto& reservation = s_.pool(pool).reservation;
  if (reservation && reservation->owner == id) kind.alone = id;
  return {pool, j.leaf, kind, s_.request_of(j).serial};
}

bool Turns::had(PoolId pool, JobId id) const {
  return goes_on_ && s_.sweep.refused.contains(key_of(pool, id));
}

bool Turns::had_for_growth(PoolId pool, JobId id) const {
  return goes_on_ && s_.sweep.refused_growth.contains({pool, id});
}

bool Turns::end_sweep(bool decided) {
  swept_ = true;
  return s_.sweep.changed || decided;
}

void Turns::leave_rest(const std::vector<PoolId>& served, bool decided) {
  const bool sweeps_again = swept_ && (s_.sweep.changed || decided);
  Sweep next;
  if (cut_short_) {
    if (goes_on_) next = std::move(s_.sweep);
    next.is_open = true;
    next.changed = next.changed || decided;
    next.refused.insert(refused_.begin(), refused_.end());
    next.refused_growth.insert(refused_growth_.begin(), refused_growth_.end());
  }
  s_.sweep = std::move(next);
  for (const PoolId p : served) s_.pool(p).has_unserved = cut_short_ || sweeps_again;
}

}  // namespace muster::placement
