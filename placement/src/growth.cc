#include "growth.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "due.h"
#include "reasons.h"

namespace muster::placement {
namespace {

// a / b < c / d, for sizes and minimums.
bool smaller(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return a * std::max<std::int64_t>(1, d) < c * std::max<std::int64_t>(1, b);
}

}  // namespace

Growth::Growth(State& state, PoolId pool, const std::vector<Resources>& fair, Time now,
               std::optional<Time>& due)
    : s_(state), pool_(pool), fair_(fair) {
  std::map<LeafId, std::vector<JobId>> by_leaf;
  for (const JobId id : s_.pool(pool).growable) {
    const Job& j = s_.job(id);
    if (!j.runs() || !j.displaced.empty() || j.leaf == kNoId) continue;
    if (j.progress.resized && *j.progress.resized + j.spec.grow_after > now) {
      const Time then = *j.progress.resized + j.spec.grow_after;
      soonest(due, then);
      continue;
    }
    by_leaf[j.leaf].push_back(id);
  }
  std::vector<LeafId> served;
  for (auto& [leaf, jobs] : by_leaf) {
    auto path = s_.path(leaf);
    if (verdict_of_leaf(s_, leaf, path)) continue;
    served.push_back(leaf);
    leaves_.push_back({leaf, std::move(path), {}, std::move(jobs)});
  }
  const auto seniorities = seniority(s_, pool, served);
  for (Leaf& l : leaves_) l.seniority = seniorities.at(l.leaf);
}

std::optional<Growth::Claim> Growth::claim_of(JobId id) const {
  const Job& j = s_.job(id);
  const Request& request = s_.request_of(j);
  Claim claim{id, {}, {}, {}};
  // Of several elastic roles that which is smallest relative to its minimum.
  std::vector<std::vector<bool>> held(request.roles.size());
  for (std::size_t r = 0; r < held.size(); ++r)
    held[r].resize(static_cast<std::size_t>(request.roles[r].most()));
  for (const PodPlace& p : j.assignment->pods) {
    if (p.role < 0 || static_cast<std::size_t>(p.role) >= held.size()) continue;
    auto& list = held[static_cast<std::size_t>(p.role)];
    if (p.index >= 0 && static_cast<std::size_t>(p.index) < list.size())
      list[static_cast<std::size_t>(p.index)] = true;
  }
  const auto count = [&](std::size_t r) { return std::count(held[r].begin(), held[r].end(), true); };
  std::size_t best = held.size();
  for (std::size_t r = 0; r < held.size(); ++r) {
    const RoleSpec& role = request.roles[r];
    if (count(r) >= role.most() || role.colocate_with >= 0) continue;
    if (best == held.size() || smaller(count(r), role.replicas, count(best), request.roles[best].replicas))
      best = r;
  }
  if (best == held.size()) return std::nullopt;
  const std::size_t step = request.groups.empty() ? 1 : static_cast<std::size_t>(request.groups.front().size);
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

std::optional<Growth::Claim> Growth::next() {
  std::optional<std::pair<LeafRank, Claim>> best;
  for (Leaf& l : leaves_) {
    std::optional<Claim> claim;
    while (!claim && !l.jobs.empty()) {
      const auto size = [&](JobId id) {
        return static_cast<std::int64_t>(s_.job(id).assignment->pods.size());
      };
      const auto least = [&](JobId id) { return s_.request_of(s_.job(id)).total.pods; };
      const auto first = std::min_element(l.jobs.begin(), l.jobs.end(), [&](JobId a, JobId b) {
        const Job& x = s_.job(a);
        const Job& y = s_.job(b);
        if (x.spec.priority != y.spec.priority) return x.spec.priority > y.spec.priority;
        if (smaller(size(a), least(a), size(b), least(b))) return true;
        if (smaller(size(b), least(b), size(a), least(a))) return false;
        return std::tie(x.spec.submitted, x.spec.id) < std::tie(y.spec.submitted, y.spec.id);
      });
      const Job& j = s_.job(*first);
      const bool shrunk = j.shrunk_in != 0 && j.shrunk_in == s_.plans;  // not in the plan that has done that
      claim = !j.runs() || shrunk ? std::nullopt : claim_of(*first);
      if (!claim) l.jobs.erase(first);
    }
    if (!claim) continue;
    claim->path = l.path;
    const LeafRank rank = rank_leaf(s_, l.path, pool_, fair_, l.seniority, claim->asked);
    if (!best || rank < best->first) best.emplace(rank, std::move(*claim));
  }
  if (!best) return std::nullopt;
  return std::move(best->second);
}

void Growth::refuse(JobId job) {
  for (Leaf& l : leaves_) std::erase(l.jobs, job);
}

}  // namespace muster::placement
