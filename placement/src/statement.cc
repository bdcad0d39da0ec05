#include "statement.h"

#include <utility>

namespace muster::placement {

void Statement::place(JobId job, const PodPlace& place, PoolId pool) {
  steps_.push_back({state_.take(state_.charge_for(job, place, pool)), job, 0, true});
}

void Statement::remove(JobId job, std::size_t pod) {
  Charge& charge = state_.job(job).charges[pod];
  if (charge.node == kNoId) return;
  steps_.push_back({std::exchange(charge, {}), job, pod, false});
  state_.give_back(steps_.back().charge, false);
}

void Statement::evict(JobId job) {
  for (std::size_t pod = 0; pod < state_.job(job).charges.size(); ++pod) remove(job, pod);
}

void Statement::rollback(std::size_t to_mark) {
  while (steps_.size() > to_mark) {
    Step& step = steps_.back();
    if (step.placed) {
      state_.give_back(step.charge, false);
    } else {
      state_.job(step.job).charges[step.pod] = state_.take(std::move(step.charge));
    }
    steps_.pop_back();
  }
}

std::vector<Charge> Statement::commit() {
  std::vector<Charge> placed;
  for (Step& step : std::exchange(steps_, {})) {
    if (step.placed) {
      placed.push_back(std::move(step.charge));
      continue;
    }
    const Node& n = state_.node(step.charge.node);
    if (n.takes_part()) ++state_.pool(n.pool).gains;
    state_.forget_node(step.charge.node);
  }
  return placed;
}

}  // namespace muster::placement
