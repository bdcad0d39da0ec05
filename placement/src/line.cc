#include "line.h"

#include <map>

#include "reasons.h"
#include "shares.h"

namespace muster::placement {

Line::Line(State& state, PoolId pool) : state_(&state), pool_(pool) {
  std::vector<LeafId> served;
  for (const auto& [leaf, kinds] : state.pool(pool).lines) {
    auto path = state.path(leaf);
    if (verdict_of_leaf(state, leaf, path)) {
      barred_.push_back(leaf);
      continue;
    }
    served.push_back(leaf);
    leaves_.push_back({leaf, std::move(path), {}, {}, {}});
  }
  if (leaves_.empty()) return;
  fair_ = fair_shares(state, pool);
  const auto seniorities = seniority(state, pool, served);
  for (Leaf& l : leaves_) {
    l.seniority = seniorities.at(l.leaf);
    fill(l);
  }
  rank_anew();
}

void Line::fill(Leaf& l) const {
  const auto lane = state_->pool(pool_).lines.find(l.leaf);
  l.kinds.clear();
  l.heads.clear();
  if (lane == state_->pool(pool_).lines.end()) return;
  for (const auto& [kind, jobs] : lane->second) l.kinds.push_back({&kind, &jobs, jobs.begin()});
  for (std::size_t k = 0; k < l.kinds.size(); ++k) push(l, k);
}

void Line::leave_out(const Hopeless& hopeless) {
  for (Leaf& l : leaves_) {
    std::erase_if(l.heads, [&](const auto& head) {
      return hopeless(l.path, *l.kinds[head.second].kind, head.first->job);
    });
  }
  rank_anew();
}

void Line::push(Leaf& l, std::size_t kind) const {
  Kind& k = l.kinds[kind];
  while (k.next != k.jobs->end() && !state_->job(k.next->job).waits) ++k.next;
  if (k.next != k.jobs->end()) l.heads.emplace(&*k.next, kind);
}

bool Line::skip_started(Leaf& l) const {
  while (!l.heads.empty()) {
    const auto [key, kind] = *l.heads.begin();
    if (state_->job(key->job).waits) return true;
    l.heads.erase(l.heads.begin());
    ++l.kinds[kind].next;
    push(l, kind);
  }
  return false;
}

LeafRank Line::rank(const Leaf& l) const {
  const JobId id = l.heads.begin()->first->job;
  return rank_leaf(*state_, l.path, pool_, fair_, l.seniority,
                   state_->asked(state_->request_of(state_->job(id)), pool_));
}

JobId Line::head() {
  while (true) {
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
    const JobId id = leaves_[head_].heads.begin()->first->job;
    if (state_->job(id).waits) return id;
    pop(false);  // it started from another pool's line in the meantime
  }
}

void Line::pop(bool refused) {
  has_head_ = false;
  Leaf& l = leaves_[head_];
  const std::size_t kind = l.heads.begin()->second;
  l.heads.erase(l.heads.begin());
  Kind& k = l.kinds[kind];
  ++k.next;
  // The owner of a reservation asks the same and may use more.
  const auto& reservation = state_->pool(pool_).reservation;
  while (refused && k.next != k.jobs->end() && !(reservation && k.next->job == reservation->owner)) ++k.next;
  push(l, kind);
  if (skip_started(l)) order_.emplace(rank(l), head_);
}

void Line::rank_anew() {
  order_.clear();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (!(has_head_ && i == head_) && skip_started(leaves_[i])) order_.emplace(rank(leaves_[i]), i);
  }
}

std::vector<JobId> Line::in_order(std::size_t most) const {
  // Nothing changes on the way, so that a leaf's rank depends on what is asked alone.
  std::vector<Leaf> leaves;
  std::vector<std::map<const WaitKind*, LeafRank>> ranks(leaves_.size());
  std::set<std::pair<LeafRank, std::size_t>> order;
  const auto enter = [&](std::size_t i) {
    Leaf& l = leaves[i];
    if (l.heads.empty()) return;
    const WaitKind* kind = l.kinds[l.heads.begin()->second].kind;
    auto known = ranks[i].find(kind);
    if (known == ranks[i].end()) known = ranks[i].emplace(kind, rank(l)).first;
    order.emplace(known->second, i);
  };
  for (const Leaf& l : leaves_) {
    leaves.push_back({l.leaf, l.path, l.seniority, {}, {}});
    fill(leaves.back());
    enter(leaves.size() - 1);
  }
  std::vector<JobId> list;
  while (list.size() < most && !order.empty()) {
    const std::size_t i = order.extract(order.begin()).value().second;
    Leaf& l = leaves[i];
    const auto [key, kind] = *l.heads.begin();
    list.push_back(key->job);
    l.heads.erase(l.heads.begin());
    ++l.kinds[kind].next;
    push(l, kind);
    enter(i);
  }
  return list;
}

}  // namespace muster::placement
