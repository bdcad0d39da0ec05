// RULES.md 2.7: a plan that has done all the work that it may leaves the rest to the next one. Who has had a
// turn, and who comes next?
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// The turns of one plan. A plan that was cut off leaves an open sweep (model/work.h). The plan that follows
// goes on with it: it passes over those who were refused in the sweep already.
class Turns {
 public:
  explicit Turns(ClusterModel& state) : s_(state), goes_on_(state.sweep.is_open) {}

  // Something has changed in a pool since the plan before.
  void note_change() { s_.sweep.changed = true; }
  bool goes_on() const { return goes_on_; }

  void begin_round() { refused_.clear(); }
  // Whether all the work is done that this plan may do. Then nobody else has a turn in it.
  bool are_over();
  bool were_cut_short() const { return cut_short_; }
  bool had(PoolId pool, JobId job) const;
  void refuse(PoolId pool, JobId job) { refused_.push_back(key_of(pool, job)); }
  bool had_for_growth(PoolId pool, JobId job) const;
  void refuse_growth(PoolId pool, JobId job) { refused_growth_.emplace_back(pool, job); }

  // Everybody has had a turn since the sweep began. True: something has changed meanwhile, so those who were
  // refused early in it have to be looked at again. `decided`: this plan has decided something.
  bool end_sweep(bool decided);
  bool swept() const { return swept_; }
  // Leaves the sweep to the next plan. `served`: the pools of this one.
  void leave_rest(const std::vector<PoolId>& served, bool decided);

 private:
  Sweep::Refused key_of(PoolId pool, JobId job) const;

  ClusterModel& s_;
  bool goes_on_;
  bool cut_short_ = false;
  bool swept_ = false;
  std::vector<Sweep::Refused> refused_;  // in this round
  std::vector<std::pair<PoolId, JobId>> refused_growth_;
};

}  // namespace muster::placement
