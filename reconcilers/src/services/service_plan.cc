#include "muster/reconcilers/services/service_plan.h"

#include <algorithm>
#include <tuple>

namespace muster::reconcilers {
namespace {

// Smallest first: who goes first.
auto keep_order(const Replica& r) {
  return std::tuple(r.is_guaranteed, r.is_placed, r.is_ready, -r.created.time_since_epoch().count(),
                    -r.ordinal);
}

class Planner {
 public:
  Planner(WantedReplicas wanted, const crds::Rollout& rollout, const std::vector<Replica>& replicas,
          RolloutMemory before, crds::Time room_since, crds::Time now)
      : desired_(wanted.all),
        guaranteed_(std::min(wanted.guaranteed, wanted.all)),
        rollout_(rollout),
        replicas_(replicas),
        places_(before.places),
        room_since_(room_since),
        now_(now) {
    for (std::size_t i = 0; i < replicas.size(); ++i) (replicas[i].is_current ? current_ : old_).push_back(i);
    if (old_.empty()) return;
    const auto placed = std::ranges::count_if(replicas_, [](const Replica& r) { return r.is_placed; });
    plan_.rollout.places = places_ > 0 ? places_ : static_cast<std::int32_t>(placed);
    plan_.rollout.gives_way = before.gives_way || surge_is_stuck();
  }

  ServicePlan run() {
    for (auto* list : {&current_, &old_}) {
      std::ranges::sort(*list, {}, [this](std::size_t i) { return keep_order(replicas_[i]); });
    }
    remove_surplus();
    remove_old();
    const auto alive = static_cast<std::int32_t>(replicas_.size() - plan_.remove.size());
    const std::int32_t missing = desired_ - count(current_);
    plan_.create = std::max(0, std::min(missing, desired_ + surge() - alive));
    plan_.create_guaranteed = to_be_guaranteed();
    return std::move(plan_);
  }

 private:
  static std::int32_t count(const std::vector<std::size_t>& list) {
    return static_cast<std::int32_t>(list.size());
  }

  std::int32_t surge() const { return old_.empty() || plan_.rollout.gives_way ? 0 : rollout_.max_surge; }
  std::int32_t may_miss() const {
    return plan_.rollout.gives_way ? std::max(1, rollout_.max_unavailable) : rollout_.max_unavailable;
  }

  // True only if nothing else will free room. With maxUnavailable old replicas make room anyway. They also do
  // as soon as a replica that has its places is ready. A replica that waits for another reason than room
  // (most often because of a bad edit) would not start in the place of an old one either.
  bool surge_is_stuck() {
    if (rollout_.max_unavailable > 0 || old_.empty()) return false;
    const auto starts = [this](std::size_t i) { return replicas_[i].is_placed && !replicas_[i].is_ready; };
    if (std::ranges::any_of(current_, starts)) return false;
    bool is_stuck = false;
    for (const auto i : current_) {
      const Replica& r = replicas_[i];
      if (r.is_placed || !r.lacks_room) continue;
      const auto due = std::max({r.created, r.waits_since, room_since_}) + kSurgePatience;
      if (now_ >= due) {
        is_stuck = true;
      } else if (!plan_.wake_at || due < *plan_.wake_at) {
        plan_.wake_at = due;
      }
    }
    return is_stuck;
  }

  // Of plan_.create.
  std::int32_t to_be_guaranteed() const {
    const auto are = static_cast<std::int32_t>(
        std::ranges::count_if(current_, [this](std::size_t i) { return replicas_[i].is_guaranteed; }));
    if (old_.empty()) return std::clamp(guaranteed_ - are, 0, plan_.create);
    const std::int32_t others = desired_ - guaranteed_ - (count(current_) - are);
    return plan_.create - std::clamp(others, 0, plan_.create);
  }

  void remove_surplus() {
    const std::int32_t surplus = count(current_) - desired_;
    for (std::int32_t i = 0; i < surplus; ++i) plan_.remove.push_back(current_[static_cast<std::size_t>(i)]);
  }

  // Removes as many old replicas as are not needed, and all that hold nothing. An old replica that is not
  // ready counts as if it were, as in Deployments: otherwise a node that is away for a moment would cost all
  // replicas at once. But it goes first. If the service asks for more than there is, only as many can be kept
  // as had places.
  void remove_old() {
    std::int32_t serve = 0;
    for (const auto i : current_) serve += replicas_[i].is_ready ? 1 : 0;
    for (const auto i : plan_.remove) serve -= replicas_[i].is_ready ? 1 : 0;
    for (const auto i : old_) serve += replicas_[i].is_placed ? 1 : 0;
    const std::int32_t needed = std::min(desired_, places_) - may_miss();
    for (const auto i : old_) {
      if (!replicas_[i].is_placed) {
        plan_.remove.push_back(i);
      } else if (places_ == 0) {
        plan_.wake_at = now_;
      } else if (serve > needed) {
        --serve;
        plan_.remove.push_back(i);
      }
    }
  }

  std::int32_t desired_;
  std::int32_t guaranteed_;
  const crds::Rollout& rollout_;
  const std::vector<Replica>& replicas_;
  std::int32_t places_;  // as it is written down
  crds::Time room_since_;
  crds::Time now_;
  std::vector<std::size_t> current_, old_;  // indexes into replicas_
  ServicePlan plan_;
};

}  // namespace

ServicePlan plan_replicas(WantedReplicas wanted, const crds::Rollout& rollout,
                          const std::vector<Replica>& replicas, RolloutMemory before, crds::Time room_since,
                          crds::Time now) {
  return Planner(wanted, rollout, replicas, before, room_since, now).run();
}

}  // namespace muster::reconcilers
