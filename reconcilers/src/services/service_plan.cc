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
        has_canary_(wanted.canary.has_value()),
        rollout_(rollout),
        replicas_(replicas),
        places_(before.places),
        room_since_(room_since),
        now_(now) {
    in_force_ = {.wanted = wanted.all, .guaranteed = std::min(wanted.guaranteed, wanted.all)};
    if (wanted.canary) {
      const std::int32_t share = std::clamp(wanted.canary->all, 0, wanted.all);
      in_force_ = {.wanted = share, .guaranteed = std::min(wanted.canary->guaranteed, share)};
      stable_ = {.wanted = wanted.all - share, .guaranteed = std::min(wanted.guaranteed, wanted.all - share)};
    }
    sort_out();
    if (old_.empty()) return;
    const auto placed = std::ranges::count_if(replicas_, [](const Replica& r) { return r.is_placed; });
    plan_.rollout.places = places_ > 0 ? places_ : static_cast<std::int32_t>(placed);
    plan_.rollout.gives_way = !moves_ && (before.gives_way || surge_is_stuck());
    plan_.cannot_move = moves_ && nobody_takes_over();
  }

  ServicePlan run() {
    remove_surplus();
    remove_old();
    const auto alive = static_cast<std::int32_t>(replicas_.size() - plan_.remove.size());
    std::int32_t room = desired_ + surge() - alive;
    plan_.create_stable = std::clamp(missing(stable_), 0, std::max(0, room));
    plan_.create_stable_guaranteed = to_be_guaranteed(stable_, plan_.create_stable);
    room -= plan_.create_stable;
    plan_.create = may_try() ? std::clamp(missing(in_force_), 0, std::max(0, room)) : 0;
    plan_.create_guaranteed = to_be_guaranteed(in_force_, plan_.create);
    return std::move(plan_);
  }

 private:
  // Replicas of a revision that is to have some.
  struct Part {
    std::int32_t wanted = 0, guaranteed = 0;
    std::vector<std::size_t> kept{};  // indexes into replicas_
  };

  // Who is kept, and who is to be replaced. Without a canary those that are too many are not replaced.
  void sort_out() {
    moves_ = !has_canary_ && rollout_.max_surge > 0 && std::ranges::all_of(replicas_, &Replica::is_current) &&
             std::ranges::any_of(replicas_, is_to_move);
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      if (moves_ && is_to_move(replicas_[i])) {
        old_.push_back(i);
      } else if (replicas_[i].is_current) {
        in_force_.kept.push_back(i);
      } else if (has_canary_ && replicas_[i].is_stable) {
        stable_.kept.push_back(i);
      } else {
        old_.push_back(i);
      }
    }
    for (Part* part : {&in_force_, &stable_}) {
      order(part->kept);
      if (has_canary_ && missing(*part) < 0) {
        const auto end = part->kept.begin() - missing(*part);
        old_.insert(old_.end(), part->kept.begin(), end);
        part->kept.erase(part->kept.begin(), end);
      }
      current_.insert(current_.end(), part->kept.begin(), part->kept.end());
    }
    order(old_);
  }

  void order(std::vector<std::size_t>& list) const {
    std::ranges::sort(list, {}, [this](std::size_t i) { return keep_order(replicas_[i]); });
  }
  static bool is_to_move(const Replica& r) { return r.is_cordoned && r.is_ready; }
  static std::int32_t missing(const Part& part) { return part.wanted - count(part.kept); }
  static std::int32_t count(const std::vector<std::size_t>& list) {
    return static_cast<std::int32_t>(list.size());
  }

  // From zero the first request goes to a revision that has served before.
  bool may_try() const {
    if (stable_.wanted == 0) return true;
    return std::ranges::any_of(replicas_, [](const Replica& r) { return r.is_ready; });
  }
  std::int32_t surge() const { return old_.empty() || plan_.rollout.gives_way ? 0 : rollout_.max_surge; }
  std::int32_t may_miss() const {
    if (moves_) return 0;
    return plan_.rollout.gives_way ? std::max(1, rollout_.max_unavailable) : rollout_.max_unavailable;
  }

  // True only if nothing else will free room. With maxUnavailable old replicas make room anyway. They also do
  // as soon as a replica that has its places is ready. A replica that waits for another reason than room
  // (most often because of a bad edit) would not start in the place of an old one either.
  bool surge_is_stuck() {
    if (rollout_.max_unavailable > 0 || old_.empty()) return false;
    const auto starts = [this](std::size_t i) { return replicas_[i].is_placed && !replicas_[i].is_ready; };
    if (std::ranges::any_of(current_, starts)) return false;
    return some_wait_too_long([](const Replica& r) { return r.lacks_room; });
  }

  // Of those that were made so that others may go.
  bool nobody_takes_over() {
    return some_wait_too_long([](const Replica&) { return true; });
  }

  // Some of these have found no place for kSurgePatience. For the others it is asked again when that is over.
  template <class Counts>
  bool some_wait_too_long(Counts counts) {
    bool is_stuck = false;
    for (const auto i : current_) {
      const Replica& r = replicas_[i];
      if (r.is_placed || !counts(r)) continue;
      const auto due = std::max({r.created, r.waits_since, room_since_}) + kSurgePatience;
      if (now_ >= due) {
        is_stuck = true;
      } else if (!plan_.wake_at || due < *plan_.wake_at) {
        plan_.wake_at = due;
      }
    }
    return is_stuck;
  }

  // Of those that are made.
  std::int32_t to_be_guaranteed(const Part& part, std::int32_t made) const {
    const auto are = static_cast<std::int32_t>(
        std::ranges::count_if(part.kept, [this](std::size_t i) { return replicas_[i].is_guaranteed; }));
    if (old_.empty()) return std::clamp(part.guaranteed - are, 0, made);
    const std::int32_t others = part.wanted - part.guaranteed - (count(part.kept) - are);
    return made - std::clamp(others, 0, made);
  }

  void remove_surplus() {
    const std::int32_t surplus = -missing(in_force_);
    for (std::int32_t i = 0; i < surplus; ++i)
      plan_.remove.push_back(in_force_.kept[static_cast<std::size_t>(i)]);
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
  bool has_canary_;
  bool moves_ = false;  // no rollout, but replicas leave cordoned nodes
  const crds::Rollout& rollout_;
  const std::vector<Replica>& replicas_;
  std::int32_t places_;  // as it is written down
  crds::Time room_since_;
  crds::Time now_;
  Part in_force_, stable_;
  std::vector<std::size_t> current_, old_;  // indexes into replicas_: those of both parts, and all others
  ServicePlan plan_;
};

}  // namespace

ServicePlan plan_replicas(WantedReplicas wanted, const crds::Rollout& rollout,
                          const std::vector<Replica>& replicas, RolloutMemory before, crds::Time room_since,
                          crds::Time now) {
  return Planner(wanted, rollout, replicas, before, room_since, now).run();
}

}  // namespace muster::reconcilers
