// RULES.md 5, one trial of a set of victims: the model with some units gone, and what the claimant then
// finds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "disruption/disruption.h"
#include "victims/units.h"
#include "victims/victim_order.h"
#include "victims/victims.h"

namespace muster::placement {

// A set of units and the claimant's places once they are gone.
struct Choice {
  std::vector<std::size_t> taken;  // indexes into the units, sorted
  std::vector<PodPlace> places;
  Preference key;
};

// All that it does is done in the statement, and is undone by reset().
class VictimTrial {
 public:
  VictimTrial(ClusterModel& state, Statement& statement, const SolutionQuery& query, Action action,
              Eligibility eligibility, const VictimFilter& who, Safe& safe)
      : s_(state),
        st_(statement),
        q_(query),
        action_(action),
        eligibility_(eligibility),
        owed_(who.owed),
        keeps_services_(who.keeps_services),
        units_(placement::units(s_,
                                {&q_.claimant, action, eligibility, who, q_.now,
                                 !disruption_terms(s_.tree(), q_.claimant.path).free()},
                                safe)),
        in_use_(units_.size(), false) {
    for (const QueueId at : q_.claimant.path)
      before_.push_back(s_.tree().sums(at, q_.claimant.pool).allocated);
    if (who.peers)
      minimums_ = minimums_below_surplus(s_, q_.claimant.path.front(), q_.claimant.pool).value_or(before_[0]);
  }
  VictimTrial(const VictimTrial&) = delete;
  VictimTrial& operator=(const VictimTrial&) = delete;

  const std::vector<Unit>& units() const { return units_; }
  std::size_t mark() const { return st_.mark(); }

  bool may_take(const Unit& u) const;
  // `on`: only what it has on this node; kNoId: all of it.
  void take(std::size_t i, NodeId on = kNoId);
  void give(std::size_t i);
  // The claimant has these places, which are free.
  void claim(const std::vector<PodPlace>& places);
  void reset(std::size_t mark);
  // Limits and quotas, and the right that is claimed, with the victims gone.
  bool entitled() const;
  std::optional<std::vector<PodPlace>> fits(DomainId within);
  bool refuted(DomainId within);
  // All candidates together free enough: else nothing need be tried.
  bool could_suffice() const;
  // What is free with the claimant in place, plus what the claimant has, would still do without this unit's
  // part.
  bool enough_without(std::size_t i) const;
  // Takes all of them, the small ones first: a unit may only go while its leaf is still over, so the largest
  // go last. false: one of them may not be taken.
  bool take_all(std::vector<std::size_t> list);

  // Takes the units of the choice and makes of it what the claimant gets: who finds a place in what is left
  // moves there instead. nullopt: it does not hold, and everything is undone up to the mark `start`.
  std::optional<Solution> carry_out(const Choice& best, std::size_t start);
  // Of the choice that was carried out last: how many units are of the claimant's own leaf.
  std::size_t own_taken() const { return own_taken_; }

  ClusterModel& model() { return s_; }
  const ClusterModel& model() const { return s_; }
  const SolutionQuery& query() const { return q_; }
  Action action() const { return action_; }
  // Who was taken, and is still gone.
  bool taken(std::size_t i) const { return in_use_[i]; }
  // It counts as gone again after a rollback to a mark at which it was.
  void note_taken(std::size_t i) { in_use_[i] = true; }
  void rollback(std::size_t to) { st_.rollback(to); }
  // Somebody was not taken because a service needs it: another search without that may find more.
  bool kept_a_service() const { return kept_a_service_; }

 private:
  bool in_bounds() const;
  bool takes_from_peers_by_right() const;
  // Whether it could keep what it reclaims. Who was preempted and finds free room will soon be back; if the
  // leaf is beyond the right by that, and the claimant a legal victim of those from whom it has reclaimed,
  // the two would take from each other in circles.
  bool can_keep(const Solution& solution);
  // All go to their new places, as far as these are free without anybody else's going than theirs.
  bool moved(const std::vector<Victim>& victims, std::size_t start);
  // Now that each has a place: who need not have gone, stays.
  Solution who_must_move(Solution solution, std::size_t start);
  EvictReason reason(const Unit& u) const;
  // `may_return`: a gang for which not enough is free may come back to some of the places that go with it.
  bool move(Victim& v, bool may_return);
  // RULES.md 5.12: whether it is moved as a replica that nobody misses, and whether it is moved only so.
  bool surges(const Victim& v);
  bool has_to_surge(const Victim& v) const;
  // With those that are gone already, this one would leave its service without a replica that serves.
  bool is_last_of_service(JobId id) const;
  // The pods that it gives, where there is room for them all.
  std::optional<std::vector<PodPlace>> place_again(const Victim& v, View view);

  ClusterModel& s_;
  Statement& st_;
  const SolutionQuery& q_;
  Action action_;
  Eligibility eligibility_;
  bool owed_, keeps_services_;
  std::vector<Resources> before_;  // allocated along the claimant's path, before anything is taken
  Resources minimums_;             // of the jobs of the claimant's leaf; only where they give surplus
  std::vector<Unit> units_;
  std::vector<bool> in_use_;
  std::size_t own_taken_ = 0;
  std::map<std::string, std::int32_t> surging_;  // of the solution that is carried out, by service
  mutable bool kept_a_service_ = false;
};

}  // namespace muster::placement
