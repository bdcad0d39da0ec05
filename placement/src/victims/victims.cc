#include "victims/victims.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/totals.h"
#include "victims/units.h"
#include "victims/victim_search.h"

namespace muster::placement {

std::optional<Solution> find_solution(ClusterModel& s, Statement& statement, const SolutionQuery& q,
                                      Safe& safe) {
  const Claimant& c = q.claimant;
  const Resources free = free_in(s.pool(c.pool));
  if (!fits_in(c.asked, free + s.pool(c.pool).preemptible)) return std::nullopt;
  std::vector<Eligibility> eligibilities;
  for (const Eligibility eligibility : {Eligibility::kByQuota, Eligibility::kByFairShare}) {
    if (may_be_eligible(s, c, eligibility)) eligibilities.push_back(eligibility);
  }
  std::vector<std::pair<Action, Eligibility>> ways;
  for (const Eligibility eligibility : eligibilities) ways.emplace_back(Action::kReclaim, eligibility);
  // Somebody of its leaf could be preempted by it.
  const bool juniors = lowest_running(s, c.pool, c.path.front()) < s.job(c.job).spec.priority;
  if (juniors) ways.emplace_back(Action::kPreempt, Eligibility::kByQuota);
  // Idle room that leaves without a weight use is given back first.
  const bool idle_room =
      !eligibilities.empty() && std::any_of(s.tree.begin(), s.tree.end(), [&](const TreeNode& t) {
        return t.known && s.share(static_cast<QueueId>(&t - s.tree.data()), c.pool).weight == 0;
      });
  const auto attempt = [&](Action action, Eligibility eligibility,
                           bool surplus_only) -> std::optional<Solution> {
    if (idle_room && action == Action::kReclaim) {
      if (auto found = find_victims(s, statement, q, action, eligibility, {surplus_only, true}, safe))
        return std::move(found->solution);
    }
    auto found = find_victims(s, statement, q, action, eligibility, {surplus_only, false}, safe);
    return found ? std::optional(std::move(found->solution)) : std::nullopt;
  };
  for (const auto& [action, eligibility] : ways) {
    if (auto solution = attempt(action, eligibility, true)) return solution;
  }
  // What moves needs its room elsewhere.
  if (q.moves && !q.limits_only && fits_in(c.asked, free)) {
    if (auto solution = attempt(Action::kMove, Eligibility::kByQuota, false)) return solution;
  }
  for (const auto& [action, eligibility] : ways) {
    if (auto solution = attempt(action, eligibility, false)) return solution;
  }
  if (!juniors) return std::nullopt;
  // By either right: as few as are needed go by preemption.
  const auto both = [&](Eligibility eligibility) {
    return find_victims(s, statement, q, Action::kReclaimAndPreempt, eligibility, {false, false}, safe);
  };
  const std::size_t mark = statement.mark();
  auto best = both(Eligibility::kByQuota);
  if (!best || best->own > 1) {
    statement.rollback(mark);
    auto other = both(Eligibility::kByFairShare);
    if (other && (!best || other->own < best->own)) return std::move(other->solution);
    statement.rollback(mark);
    if (best) best = both(Eligibility::kByQuota);
  }
  return best ? std::optional(std::move(best->solution)) : std::nullopt;
}

}  // namespace muster::placement
