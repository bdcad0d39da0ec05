#include "victims/victim_trial.h"

#include <algorithm>
#include <tuple>

#include "disruption/surge.h"
#include "pool/totals.h"
#include "shares/admission.h"

namespace muster::placement {

bool VictimTrial::may_take(const Unit& u) const {
  if (u.after >= 0 && !in_use_[static_cast<std::size_t>(u.after)]) return false;
  if (action_ == Action::kMove) return true;
  if (keeps_services_ && u.last && is_last_of_service(u.job)) return kept_a_service_ = true, false;
  if (u.own) return true;
  // A gang that straddles the line goes whole: the right is judged before it goes.
  return may_give(s_.tree(), q_.claimant, eligibility_, s_.tree().path(u.leaf), u.amounts);
}

bool VictimTrial::is_last_of_service(JobId id) const {
  const Job& j = s_.job(id);
  if (!j.spec.serves || !j.progress.is_ready) return false;
  std::int32_t left = ready_replicas(s_, j);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const Job& other = s_.job(units_[i].job);
    const bool goes = in_use_[i] && units_[i].last && units_[i].job != id;
    if (goes && other.progress.is_ready && other.spec.service == j.spec.service) --left;
  }
  return left <= 1;
}

void VictimTrial::take(std::size_t i, NodeId on) {
  const Job& j = s_.job(units_[i].job);
  for (const std::size_t pod : units_[i].pods) {
    if (on == kNoId || j.allocations[pod].node == on) st_.release(units_[i].job, pod);
  }
  note_taken(i);
}

void VictimTrial::give(std::size_t i) {
  for (const std::size_t pod : units_[i].pods) st_.readmit(units_[i].job, pod);
  in_use_[i] = false;
}

// Surplus of jobs that have no lower priority is for a minimum that is guaranteed. True if none was taken.
bool VictimTrial::takes_from_peers_by_right() const {
  Resources gone;
  bool any = false;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!in_use_[i] || !units_[i].own) continue;
    any = any || units_[i].of_peer;
    if (units_[i].last) gone += units_[i].amounts;
  }
  return !any || is_minimum_guaranteed(s_.tree(), q_.claimant, minimums_ - gone);
}

void VictimTrial::claim(const std::vector<PodPlace>& places) {
  for (const PodPlace& p : places) st_.place(q_.claimant.job, p, q_.claimant.pool, Hold::kNominated);
}

void VictimTrial::reset(std::size_t mark) {
  st_.rollback(mark);
  in_use_.assign(units_.size(), false);
}

bool VictimTrial::entitled() const {
  const Claimant& c = q_.claimant;
  if (broken_bound(s_, c.path, c.pool, c.asked, applicant(s_.job(c.job).spec), View::kTarget)) return false;
  switch (action_) {
    case Action::kMove:
      return true;
    case Action::kReclaim:
      return is_eligible(s_.tree(), c, eligibility_, before_);
    case Action::kPreempt:
      return in_bounds() && takes_from_peers_by_right();
    case Action::kReclaimAndPreempt:
      return is_eligible(s_.tree(), c, eligibility_, before_) && in_bounds() && takes_from_peers_by_right();
  }
  return false;
}

bool VictimTrial::in_bounds() const {
  const Claimant& c = q_.claimant;
  for (std::size_t i = 0; i < c.path.size(); ++i) {
    const Resources after = s_.tree().sums(c.path[i], c.pool).allocated + c.asked;
    const Resources& fair = (*c.fair)[static_cast<std::size_t>(c.path[i])];
    if (exceeds(s_.tree().accounted(), after, larger_of(fair, before_[i]), c.asked)) return false;
  }
  return true;
}

std::optional<std::vector<PodPlace>> VictimTrial::fits(DomainId within) {
  if (!entitled()) return std::nullopt;
  const Claimant& c = q_.claimant;
  return place(s_, st_, {c.job, c.pool, View::kTarget, Hold::kNominated, q_.pods, within, q_.anywhere});
}

bool VictimTrial::refuted(DomainId within) {
  const Claimant& c = q_.claimant;
  return refuted_by_totals(s_, {c.job, c.pool, View::kTarget, Hold::kNominated, q_.pods, within});
}

bool VictimTrial::could_suffice() const {
  Resources sum = free_in(s_.pool(q_.claimant.pool));
  for (const Unit& u : units_) sum += u.amounts;
  return fits_in(q_.claimant.asked, sum);
}

bool VictimTrial::enough_without(std::size_t i) const {
  const Resources& free = s_.pool(q_.claimant.pool).domains[0].free;
  const Resources& part = units_[i].amounts;
  // Whole GPUs only: started ones may hide room for fractions.
  const RoleSpec* role = nullptr;
  for (const RoleSpec& r : s_.request_of(s_.job(q_.claimant.job)).roles) {
    if (r.gpus > 0) role = &r;
  }
  const bool whole = role != nullptr && role->share.kind == GpuShare::Kind::kWhole;
  const bool whole_part = part.gpu.value % kMilliPerGpu == 0;
  return !whole || !whole_part || free.gpu >= part.gpu;
}

bool VictimTrial::take_all(std::vector<std::size_t> list) {
  std::stable_sort(list.begin(), list.end(), [&](std::size_t a, std::size_t b) {
    const Resources& x = units_[a].amounts;
    const Resources& y = units_[b].amounts;
    return std::tie(x.gpu, x.cpu, x.memory, x.named) < std::tie(y.gpu, y.cpu, y.memory, y.named);
  });
  while (!list.empty()) {
    const auto next =
        std::find_if(list.begin(), list.end(), [&](std::size_t i) { return may_take(units_[i]); });
    if (next == list.end()) return false;
    take(*next);
    list.erase(next);
  }
  return true;
}

}  // namespace muster::placement
