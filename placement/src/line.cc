#include "line.h"

#include "reasons.h"
#include "shares.h"

namespace muster::placement {

Line::Line(State& state, PoolId pool) : state_(state), pool_(pool) {
  std::vector<LeafId> served;
  for (const auto& [leaf, jobs] : state.pool(pool).lines) {
    auto path = state.path(leaf);
    if (verdict_of_leaf(state, leaf, path)) {
      barred_.push_back(leaf);
      continue;
    }
    served.push_back(leaf);
    leaves_.push_back({leaf, std::move(path), {}, &jobs, jobs.begin()});
  }
  if (leaves_.empty()) return;
  fair_ = fair_shares(state, pool);
  const auto seniorities = seniority(state, pool, served);
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    leaves_[i].seniority = seniorities.at(leaves_[i].leaf);
    order_.emplace(rank(leaves_[i]), i);
  }
}

LeafRank Line::rank(const Leaf& l) const {
  return rank_leaf(state_, l.path, pool_, fair_, l.seniority,
                   state_.asked(state_.request_of(state_.job(l.next->job)), pool_));
}

bool Line::skip_started(Leaf& l) const {
  while (l.next != l.jobs->end() && !state_.job(l.next->job).waits) ++l.next;
  return l.next != l.jobs->end();
}

JobId Line::head() {
  while (!has_head_ && !order_.empty()) {
    const auto first = order_.extract(order_.begin()).value();
    Leaf& l = leaves_[first.second];
    if (!skip_started(l)) continue;
    const std::pair now(rank(l), first.second);
    if (!order_.empty() && *order_.begin() < now) {
      order_.insert(now);
      continue;
    }
    head_ = first.second;
    has_head_ = true;
  }
  if (!has_head_) return kNoId;
  const JobId id = leaves_[head_].next->job;
  if (state_.job(id).waits) return id;
  pop();  // it started from another pool's line in the meantime
  return head();
}

void Line::rank_anew() {
  order_.clear();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (!(has_head_ && i == head_) && skip_started(leaves_[i])) order_.emplace(rank(leaves_[i]), i);
  }
}

void Line::pop() {
  has_head_ = false;
  Leaf& l = leaves_[head_];
  ++l.next;
  if (skip_started(l)) order_.emplace(rank(l), head_);
}

}  // namespace muster::placement
