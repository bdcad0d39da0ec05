#include "order/service_order.h"

#include <map>

#include "pool/totals.h"
#include "shares/shares.h"

namespace muster::placement {
namespace {

// They cannot start, and not by any disturbance. What others have who ask the same is another matter.
void forget_chance(ClusterModel& s, PoolId in_pool, QueueId of_leaf, const PendingKind& kind) {
  std::erase_if(s.requests.at(kind.request).costs_too_much_since, [&](const auto& chance) {
    const auto& [leaf, priority, pool, off] = chance.first;
    return leaf == of_leaf && priority == kind.priority && pool == in_pool;
  });
}

}  // namespace

ServiceOrder::ServiceOrder(ClusterModel& state, PoolId pool) : state_(&state), pool_(pool) {
  std::vector<QueueId> served;
  for (const auto& [leaf, queue] : state.pool(pool).pending_queues) {
    auto path = state.tree().path(leaf);
    if (!state.tree().may_start(leaf, path)) {
      barred_.push_back(leaf);
      for (const auto& [kind, jobs] : queue.kinds) forget_chance(state, pool, leaf, kind);
      continue;
    }
    served.push_back(leaf);
    leaves_.push_back({leaf, std::move(path), {}, {}, {}});
  }
  if (leaves_.empty()) return;
  fair_ = fair_shares(state, pool);
  state.pool(pool).fair = fair_;
  const auto seniorities = seniority(state.tree(), pool, served);
  Infeasible infeasible(state, pool, fair_);
  for (Leaf& l : leaves_) {
    l.seniority = seniorities.at(l.leaf);
    fill(l, infeasible);
  }
  rank_anew();
}

void ServiceOrder::fill(Leaf& l, Infeasible& infeasible) const {
  const auto lane = state_->pool(pool_).pending_queues.find(l.leaf);
  const std::int64_t lowest = lowest_running(state_->pool(pool_), l.leaf);
  const std::set<PendingKey>* first = nullptr;
  for (const auto& [kind, jobs] : lane->second.kinds) {
    const auto runs = kind.ends_within < 0 ? std::nullopt : std::optional(Duration{kind.ends_within});
    if (state_->tree().drains_before_end(l.path, state_->time, runs) != kNoId) continue;
    if (!infeasible.starts(l.leaf, lowest, kind)) {
      l.kinds.push_back({&jobs, jobs.begin(), false});
      continue;
    }
    forget_chance(*state_, pool_, l.leaf, kind);
    if (first == nullptr || *jobs.begin() < *first->begin()) first = &jobs;
  }
  if (first != nullptr && !state_->pool(pool_).reservation) l.kinds.push_back({first, first->begin(), true});
  for (std::size_t k = 0; k < l.kinds.size(); ++k) push(l, k);
}

void ServiceOrder::push(Leaf& l, std::size_t kind) const {
  Kind& k = l.kinds[kind];
  while (k.next != k.jobs->end() && !state_->job(k.next->job).waits) ++k.next;
  if (k.next != k.jobs->end()) l.heads.emplace(&*k.next, kind);
}

bool ServiceOrder::skip_started(Leaf& l) const {
  while (!l.heads.empty()) {
    const auto [key, kind] = *l.heads.begin();
    if (state_->job(key->job).waits) return true;
    l.heads.erase(l.heads.begin());
    ++l.kinds[kind].next;
    push(l, kind);
  }
  return false;
}

LeafRank ServiceOrder::rank(const Leaf& l, JobId first) const {
  return rank_leaf(state_->tree(), l.path, pool_, fair_, l.seniority,
                   state_->asked(state_->request_of(state_->job(first)), pool_));
}

JobId ServiceOrder::head() {
  while (true) {
    while (!has_head_ && !order_.empty()) {
      const auto first = order_.extract(order_.begin()).value();
      Leaf& l = leaves_[first.second];
      if (!skip_started(l)) continue;
      const std::pair now(rank(l, l.heads.begin()->first->job), first.second);
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
    pop(false);  // it started from the queue of another pool in the meantime
  }
}

bool ServiceOrder::head_is_infeasible() const {
  const Leaf& l = leaves_[head_];
  return l.kinds[l.heads.begin()->second].infeasible;
}

void ServiceOrder::pop(bool refused) {
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
  if (skip_started(l)) order_.emplace(rank(l, l.heads.begin()->first->job), head_);
}

void ServiceOrder::rank_anew() {
  order_.clear();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (!(has_head_ && i == head_) && skip_started(leaves_[i]))
      order_.emplace(rank(leaves_[i], leaves_[i].heads.begin()->first->job), i);
  }
}

std::vector<JobId> ServiceOrder::in_order(std::size_t most) const {
  struct Next {
    std::set<PendingKey>::const_iterator at, end;
    std::map<RequestId, LeafRank> ranks;  // nothing changes on the way: they depend on what is asked alone
  };
  std::vector<Next> leaves(leaves_.size());
  std::set<std::pair<LeafRank, std::size_t>> order;
  const auto enter = [&](std::size_t i) {
    Next& next = leaves[i];
    while (next.at != next.end && !state_->job(next.at->job).waits) ++next.at;
    if (next.at == next.end) return;
    const RequestId request = state_->job(next.at->job).request;
    auto known = next.ranks.find(request);
    if (known == next.ranks.end()) known = next.ranks.emplace(request, rank(leaves_[i], next.at->job)).first;
    order.emplace(known->second, i);
  };
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto lane = state_->pool(pool_).pending_queues.find(leaves_[i].leaf);
    if (lane == state_->pool(pool_).pending_queues.end()) continue;
    leaves[i] = {lane->second.all.begin(), lane->second.all.end(), {}};
    enter(i);
  }
  std::vector<JobId> list;
  while (list.size() < most && !order.empty()) {
    const std::size_t i = order.extract(order.begin()).value().second;
    list.push_back(leaves[i].at->job);
    ++leaves[i].at;
    enter(i);
  }
  return list;
}

}  // namespace muster::placement
