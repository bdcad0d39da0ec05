#include "order/growth.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "disruption/disruption.h"
#include "model/due.h"
#include "node/resource_vector.h"
#include "order/infeasible.h"
#include "pool/totals.h"

namespace muster::placement {
namespace {

// a / b < c / d, for sizes and minimums.
bool smaller(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return a * std::max<std::int64_t>(1, d) < c * std::max<std::int64_t>(1, b);
}

}  // namespace

bool Growth::comes_after(const Entry& a, const Entry& b) {
  if (a.priority != b.priority) return a.priority < b.priority;
  if (smaller(a.size, a.least, b.size, b.least)) return false;
  if (smaller(b.size, b.least, a.size, a.least)) return true;
  return std::tie(a.submitted, a.id) > std::tie(b.submitted, b.id);
}

Growth::Growth(ClusterModel& state, PoolId pool, const std::vector<Resources>& fair, std::optional<Time>& due)
    : s_(state), pool_(pool), fair_(fair), due_(due), infeasible_(state, pool, fair) {
  std::map<QueueId, std::vector<JobId>> by_leaf;
  for (const JobId id : s_.pool(pool).growable) {
    const Job& j = s_.job(id);
    if (!j.runs() || !j.displaced.empty() || j.leaf == kNoId) continue;
    by_leaf[j.leaf].push_back(id);
  }
  std::vector<QueueId> served;
  for (const auto& [leaf, jobs] : by_leaf) {
    auto path = s_.tree().path(leaf);
    if (!s_.tree().may_start(leaf, path)) {
      for (const JobId id : jobs) forget_room(s_.job(id));
      continue;
    }
    Leaf l{leaf, std::move(path), {}, {}, lowest_running(s_.pool(pool), leaf), {}};
    for (const JobId id : jobs) {
      if (!is_infeasible(l, id)) l.jobs.push_back(entry(id));
    }
    if (l.jobs.empty()) continue;
    std::make_heap(l.jobs.begin(), l.jobs.end(), comes_after);
    served.push_back(leaf);
    leaves_.push_back(std::move(l));
  }
  const auto seniorities = seniority(s_.tree(), pool, served);
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    leaves_[i].seniority = seniorities.at(leaves_[i].leaf);
    enter(i);
  }
}

bool Growth::is_infeasible(const Leaf& l, JobId id) {
  const bool infeasible = infeasible_.growth(l.leaf, l.lowest, s_.job(id));
  if (infeasible) forget_room(s_.job(id));
  return infeasible;
}

Growth::Entry Growth::entry(JobId id) const {
  const Job& j = s_.job(id);
  const std::int64_t least = s_.request_of(j).total.pods;
  return {j.spec.priority, std::ssize(j.assignment->pods), least, j.spec.submitted, j.spec.id, id};
}

JobId Growth::take_first(Leaf& l) {
  std::pop_heap(l.jobs.begin(), l.jobs.end(), comes_after);
  const JobId id = l.jobs.back().job;
  l.jobs.pop_back();
  return id;
}

std::optional<Growth::GrowthClaim> Growth::claim_of(JobId id) const {
  const Job& j = s_.job(id);
  const Request& request = s_.request_of(j);
  GrowthClaim claim{id, {}, {}, {}};
  // Of several elastic roles that which is smallest relative to its minimum.
  std::vector<std::vector<bool>> held(request.roles.size());
  std::vector<std::int64_t> count(request.roles.size());  // also beyond the most: indexes may have gaps
  for (std::size_t r = 0; r < held.size(); ++r)
    held[r].resize(static_cast<std::size_t>(request.roles[r].most()));
  for (const PodPlace& p : j.assignment->pods) {
    if (p.role < 0 || static_cast<std::size_t>(p.role) >= held.size()) continue;
    ++count[static_cast<std::size_t>(p.role)];
    auto& list = held[static_cast<std::size_t>(p.role)];
    if (p.index >= 0 && static_cast<std::size_t>(p.index) < list.size())
      list[static_cast<std::size_t>(p.index)] = true;
  }
  std::size_t best = held.size();
  for (std::size_t r = 0; r < held.size(); ++r) {
    const RoleSpec& role = request.roles[r];
    if (count[r] >= role.most() || role.colocate_with >= 0) continue;
    if (best == held.size() || smaller(count[r], role.replicas, count[best], request.roles[best].replicas))
      best = r;
  }
  if (best == held.size()) return std::nullopt;
  const std::size_t step = request.groups.empty() ? 1 : static_cast<std::size_t>(request.groups.front().size);
  if (count[best] + static_cast<std::int64_t>(step) > request.roles[best].most()) return std::nullopt;
  const auto add = [&](std::size_t r, std::size_t index) {
    claim.pods.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(index)});
    Request one;
    one.roles = {request.roles[r]};
    one.roles[0].replicas = 1;
    one.total = request.roles[r].per_pod;
    one.by_memory = request.by_memory;
    claim.asked += s_.asked(one, pool_);
  };
  for (std::size_t i = 0; i < held[best].size() && claim.pods.size() < step; ++i) {
    if (!held[best][i]) add(best, i);
  }
  if (claim.pods.size() < step) return std::nullopt;
  const auto grown = claim.pods;
  for (std::size_t r = 0; r < held.size(); ++r) {  // what stands beside them
    if (request.roles[r].colocate_with != static_cast<std::int32_t>(best)) continue;
    for (const PodWish& w : grown) {
      const auto i = static_cast<std::size_t>(w.index);
      if (i < held[r].size() && !held[r][i]) add(r, i);
    }
  }
  return claim;
}

bool Growth::find_claim(Leaf& l) {
  while (!l.claim && !l.jobs.empty()) {
    const JobId id = l.jobs.front().job;
    const Job& j = s_.job(id);
    // Not in the plan that has done that; where nobody's going brings another one, it is asked for.
    const bool shrunk = j.shrunk_in != 0 && j.shrunk_in == s_.plans;
    if (shrunk && j.leaving.empty()) soonest(due_, s_.time);
    if (j.runs() && !shrunk && !is_infeasible(l, id)) l.claim = claim_of(id);
    if (!l.claim) take_first(l);
  }
  return l.claim.has_value();
}

LeafRank Growth::rank(const Leaf& l) const {
  return rank_leaf(s_.tree(), l.path, pool_, fair_, l.seniority, l.claim->asked);
}

void Growth::enter(std::size_t i) {
  if (find_claim(leaves_[i])) order_.emplace(rank(leaves_[i]), i);
}

std::optional<Growth::GrowthClaim> Growth::next() {
  while (!order_.empty()) {
    last_ = order_.extract(order_.begin()).value().second;
    Leaf& l = leaves_[last_];
    if (is_infeasible(l, l.claim->job)) {
      l.claim.reset();
      enter(last_);
      continue;
    }
    const std::pair now(rank(l), last_);
    if (!order_.empty() && *order_.begin() < now) {
      order_.insert(now);
      continue;
    }
    GrowthClaim claim = *std::exchange(l.claim, {});
    claim.path = l.path;
    return claim;
  }
  return std::nullopt;
}

void Growth::refused() {
  take_first(leaves_[last_]);
  enter(last_);
}

void Growth::granted(bool took) {
  infeasible_ = Infeasible(s_, pool_, fair_);  // less is free
  if (!took) {
    Leaf& l = leaves_[last_];
    l.jobs.push_back(entry(take_first(l)));
    std::push_heap(l.jobs.begin(), l.jobs.end(), comes_after);
    return enter(last_);
  }
  order_.clear();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Leaf& l = leaves_[i];
    l.claim.reset();
    l.lowest = lowest_running(s_.pool(pool_), l.leaf);
    for (const Entry& old : std::exchange(l.jobs, {})) {
      if (s_.job(old.job).runs()) l.jobs.push_back(entry(old.job));
    }
    std::make_heap(l.jobs.begin(), l.jobs.end(), comes_after);
    enter(i);
  }
}

std::int64_t steps_of_growth(const ClusterModel& s, const Growth::GrowthClaim& claim, const Resources& room) {
  const Job& j = s.job(claim.job);
  std::int64_t most = 0;
  for (const RoleSpec& role : s.request_of(j).roles) most += role.most();
  const std::int64_t missing = most - std::ssize(j.assignment->pods);
  std::int64_t steps = missing / std::max<std::int64_t>(1, std::ssize(claim.pods));
  for (const ResourceKind kind : kChargedKinds) {
    const std::int64_t asked = amount_of(claim.asked, kind);
    if (asked > 0) steps = std::min(steps, amount_of(room, kind) / asked);
  }
  return std::max<std::int64_t>(1, steps);
}

}  // namespace muster::placement
