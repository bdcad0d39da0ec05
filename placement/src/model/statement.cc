#include "model/statement.h"

namespace muster::placement {

void Statement::place(JobId job, PodPlace place, PoolId pool, Hold hold) {
  const NodeId on = state_.node_of(place.node);
  this->place(job, std::move(place), on, pool, hold);
}

void Statement::place(JobId job, PodPlace place, NodeId on, PoolId pool, Hold hold) {
  Allocation allocation = state_.take(state_.allocation_for(job, place, on, pool, hold));
  placed_.push_back({job, std::move(place), std::move(allocation)});
  steps_.push_back({Kind::kPlace, job, 0});
}

void Statement::release(JobId job, std::size_t pod) {
  if (state_.job(job).allocations[pod].node == kNoId) return;
  take_out(job, pod);
  steps_.push_back({Kind::kRelease, job, pod});
}

void Statement::readmit(JobId job, std::size_t pod) {
  if (!released(job, pod)) return;
  take_in(job, pod);
  steps_.push_back({Kind::kReadmit, job, pod});
}

Allocation Statement::allocation_before(JobId job, std::size_t pod) const {
  const Out& out = out_.at({job, pod});
  Allocation allocation = out.allocation;
  allocation.hold = out.before;
  return allocation;
}

void Statement::take_out(JobId job, std::size_t pod) {
  Job& j = state_.job(job);
  Out out{std::exchange(j.allocations[pod], {}), Hold::kRunning, false};
  out.before = out.allocation.hold;
  // What this very plan has started or added is not there yet.
  const auto now = [&](std::uint64_t plan) { return plan != 0 && plan == state_.plans; };
  out.leaving = out.before == Hold::kRunning && !now(j.started_in) && !now(out.allocation.added_in);
  if (out.leaving) {
    state_.turn(out.allocation, Hold::kLeaving);
  } else {
    state_.give_back(out.allocation, false);
  }
  out_.emplace(std::pair(job, pod), std::move(out));
}

void Statement::take_in(JobId job, std::size_t pod) {
  Out out = std::move(out_.extract({job, pod}).mapped());
  if (out.leaving) {
    state_.turn(out.allocation, out.before);
    state_.job(job).allocations[pod] = std::move(out.allocation);
  } else {
    state_.job(job).allocations[pod] = state_.take(std::move(out.allocation));
  }
}

void Statement::rollback(std::size_t to_mark) {
  while (steps_.size() > to_mark) {
    const Step step = steps_.back();
    steps_.pop_back();
    switch (step.kind) {
      case Kind::kPlace:
        state_.give_back(placed_.back().allocation, false);
        placed_.pop_back();
        break;
      case Kind::kRelease:
        take_in(step.job, step.pod);
        break;
      case Kind::kReadmit:
        take_out(step.job, step.pod);
        break;
    }
  }
}

Statement::Outcome Statement::commit() {
  Outcome outcome{std::move(placed_), {}};
  for (auto& [key, out] : out_) {
    const auto [job, pod] = key;
    Job& j = state_.job(job);
    const Node& n = state_.node(out.allocation.node);
    if (n.takes_part()) ++state_.pool(n.pool).gains;
    if (out.leaving) j.leaving.push_back({j.assignment->pods[pod], std::move(out.allocation)});
    outcome.released[job].push_back(pod);
  }
  steps_.clear();
  placed_.clear();
  out_.clear();
  return outcome;
}

}  // namespace muster::placement
