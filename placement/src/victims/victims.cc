#include "victims/victims.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/totals.h"
#include "victims/units.h"
#include "victims/victim_search.h"

namespace muster::placement {

std::optional<Room> make_room(State& s, Statement& statement, const RoomQuery& q, Safe& safe) {
  const Claimant& c = q.claimant;
  const Resources free = free_in(s.pool(c.pool));
  if (!fits_in(c.asked, free + s.pool(c.pool).preemptible)) return std::nullopt;
  std::vector<Right> rights;
  for (const Right right : {Right::kGuarantee, Right::kFairness}) {
    if (may_have_right(s, c, right)) rights.push_back(right);
  }
  std::vector<std::pair<Means, Right>> ways;
  for (const Right right : rights) ways.emplace_back(Means::kReclaim, right);
  // Somebody of its leaf could be preempted by it.
  const bool juniors = lowest_running(s, c.pool, c.path.front()) < s.job(c.job).spec.priority;
  if (juniors) ways.emplace_back(Means::kPreempt, Right::kGuarantee);
  // Idle room that leaves without a weight use is given back first.
  const bool idle_room = !rights.empty() && std::any_of(s.tree.begin(), s.tree.end(), [&](const TreeNode& t) {
    return t.known && s.share(static_cast<LeafId>(&t - s.tree.data()), c.pool).weight == 0;
  });
  const auto attempt = [&](Means means, Right right, bool surplus_only) -> std::optional<Room> {
    if (idle_room && means == Means::kReclaim) {
      if (auto found = find_victims(s, statement, q, means, right, {surplus_only, true}, safe))
        return std::move(found->room);
    }
    auto found = find_victims(s, statement, q, means, right, {surplus_only, false}, safe);
    return found ? std::optional(std::move(found->room)) : std::nullopt;
  };
  for (const auto& [means, right] : ways) {
    if (auto room = attempt(means, right, true)) return room;
  }
  // What moves needs its room elsewhere.
  if (q.moves && !q.limits_only && fits_in(c.asked, free)) {
    if (auto room = attempt(Means::kMove, Right::kGuarantee, false)) return room;
  }
  for (const auto& [means, right] : ways) {
    if (auto room = attempt(means, right, false)) return room;
  }
  if (!juniors) return std::nullopt;
  // By either right: as few as are needed go by preemption.
  const auto both = [&](Right right) {
    return find_victims(s, statement, q, Means::kBoth, right, {false, false}, safe);
  };
  const std::size_t mark = statement.mark();
  auto best = both(Right::kGuarantee);
  if (!best || best->own > 1) {
    statement.rollback(mark);
    auto other = both(Right::kFairness);
    if (other && (!best || other->own < best->own)) return std::move(other->room);
    statement.rollback(mark);
    if (best) best = both(Right::kGuarantee);
  }
  return best ? std::optional(std::move(best->room)) : std::nullopt;
}

}  // namespace muster::placement
