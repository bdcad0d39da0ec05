#include "shares/admission.h"

#include <algorithm>
#include <array>

#include "node/resource_vector.h"
#include "shares/shares.h"

namespace muster::placement {
namespace {

// What `asked` more would be too much for; nullopt: nothing. `bound_of(kind)`: nullopt, there is none.
template <class BoundOf>
std::optional<BrokenBound> first_broken(const QueueTree& tree, QueueId at, Bound which,
                                        const Resources& asked, const Resources& used, BoundOf&& bound_of) {
  for (const ResourceKind kind : tree.accounted()) {
    const std::int64_t need = amount_of(asked, kind), has = amount_of(used, kind);
    if (need <= 0) continue;
    const std::optional<std::int64_t> most = bound_of(kind);
    if (most && wrapping_add(has, need) > *most) {
      return BrokenBound{at, which, kind, need, std::max<std::int64_t>(0, wrapping_sub(*most, has)), *most};
    }
  }
  return std::nullopt;
}

// What must stay free for others if the path takes so much more.
std::int64_t held_back(const QueueTree& tree, const std::vector<QueueId>& path, PoolId pool,
                       ResourceKind kind, std::int64_t asked) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const TreeSums& sums = tree.sums(path[i], pool);
    const std::int64_t own = amount_of(reserved_part(tree.share(path[i], pool), tree.accounted()), kind);
    if (own > 0 && amount_of(sums.allocated, kind) + asked <= own) break;
    const Resources& level =
        i + 1 < path.size() ? tree.sums(path[i + 1], pool).held_below : tree.held_back(pool);
    sum += amount_of(level, kind) - amount_of(sums.held_back, kind);
  }
  return sum;
}

std::optional<BrokenBound> taken_from_reserved(const ClusterModel& s, const std::vector<QueueId>& path,
                                               PoolId pool, const Resources& amounts) {
  if (!s.tree().reserves()) return std::nullopt;
  const Pool& p = s.pool(pool);
  Resources free = p.domains[0].free;
  if (amounts.gpu.value % kMilliPerGpu != 0) free.gpu = p.domains[0].capacity.gpu - p.used_gpu;
  for (const ResourceKind kind : s.tree().accounted()) {
    const std::int64_t asked = amount_of(amounts, kind);
    if (asked <= 0) continue;
    const std::int64_t held = held_back(s.tree(), path, pool, kind, asked);
    if (held <= 0) continue;
    const std::int64_t have = std::max<std::int64_t>(0, amount_of(free, kind) - held);
    if (asked > have) {
      return BrokenBound{path.front(), Bound::kReservedPart,          kind, asked, have,
                         held,         amount_of(free, kind) >= asked};
    }
  }
  return std::nullopt;
}

// The longest max_runtime of others' non-preemptible jobs to which this level lends; absent: to none.
std::optional<Duration> lends(const QueueTree& tree, QueueId at) {
  for (const QueueId level : tree.path(at)) {
    if (const auto& longest = tree.queue(level).spec.lends_non_preemptible) return longest;
  }
  return std::nullopt;
}

// How far non-preemptible jobs of this level may go beyond its quota for this one: by the idle quota that the
// levels beside it lend to such a job, less what others have of it already. O(levels beside it).
std::int64_t borrowable(const QueueTree& tree, QueueId at, PoolId pool, ResourceKind kind,
                        const Applicant& who) {
  if (!who.max_runtime || !tree.lends()) return 0;
  std::int64_t idle = 0, lent = 0;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const auto beside = static_cast<QueueId>(i);
    const TreeNode& t = tree.queues()[i];
    if (beside == at || !t.known || t.parent != tree.queue(at).parent) continue;
    const auto quota = quota_of(tree.share(beside, pool).quota, kind);
    if (!quota) continue;
    const TreeSums& sums = tree.sums(beside, pool);
    lent += std::max<std::int64_t>(0, amount_of(sums.non_preemptible, kind) - *quota);
    const auto longest = lends(tree, beside);
    if (!longest || *who.max_runtime > *longest) continue;
    const std::int64_t wanted =
        std::max(amount_of(sums.demand(), kind),
                 amount_of(reserved_part(tree.share(beside, pool), tree.accounted()), kind));
    idle += std::max<std::int64_t>(0, *quota - wanted);
  }
  return std::max<std::int64_t>(0, idle - lent);
}

// What counts against a limit: charged until it is gone, and what is nominated is not to be given twice.
Resources used_in(const TreeSums& sums, View view) {
  switch (view) {
    case View::kTarget:
      return sums.allocated;
    case View::kForNominated:
      return sums.in_use();
    case View::kNow:
      return larger_of(sums.allocated, sums.in_use());
  }
  return sums.allocated;
}

// A level with what counts against its limit and its quota.
struct Level {
  QueueId at;
  PoolId pool;
  const Share& share;
  Resources used, non_preemptible;
};

// The limit of one level and, of what is not preemptible, its quota.
std::optional<BrokenBound> broken_at(const QueueTree& tree, const Level& level, const Resources& amounts,
                                     const Applicant& who) {
  const auto limit = [&](ResourceKind kind) { return bound_of(level.share.limit, kind); };
  if (auto b = first_broken(tree, level.at, Bound::kLimit, amounts, level.used, limit)) return b;
  if (who.preemptible) return std::nullopt;
  const auto quota = [&](ResourceKind kind) -> std::optional<std::int64_t> {
    const auto own = quota_of(level.share.quota, kind);
    if (!own) return own;
    const std::int64_t beyond = amount_of(level.non_preemptible, kind) + amount_of(amounts, kind) - *own;
    const bool lent = beyond > 0 && beyond <= borrowable(tree, level.at, level.pool, kind, who);
    return lent ? std::nullopt : own;
  };
  return first_broken(tree, level.at, Bound::kQuota, amounts, level.non_preemptible, quota);
}

}  // namespace

std::optional<BrokenBound> broken_bound(const ClusterModel& s, const std::vector<QueueId>& path, PoolId pool,
                                        const Resources& amounts, const Applicant& who, View view) {
  for (const QueueId at : path) {
    const TreeSums& sums = s.tree().sums(at, pool);
    const Level level{at, pool, s.tree().share(at, pool), used_in(sums, view), sums.non_preemptible};
    if (auto b = broken_at(s.tree(), level, amounts, who)) return b;
  }
  if (view == View::kForNominated) return std::nullopt;  // it was seen to when they were nominated
  return taken_from_reserved(s, path, pool, amounts);
}

std::optional<Time> bounds_lifted(const ClusterModel& s, const std::vector<QueueId>& path, PoolId pool,
                                  const Resources& amounts, const Applicant& who,
                                  const std::map<QueueId, Resources>& promised) {
  Time when = s.time;
  for (const QueueId at : path) {
    const TreeSums& sums = s.tree().sums(at, pool);
    Resources used = used_in(sums, View::kNow), non_preemptible = sums.non_preemptible;
    if (const auto others = promised.find(at); others != promised.end()) {
      used += others->second;
      non_preemptible += others->second;
    }
    const Level now{at, pool, s.tree().share(at, pool), used, non_preemptible};
    if (!broken_at(s.tree(), now, amounts, who)) continue;
    const auto& coming = s.tree().queue(at).spec.coming_share;
    if (!coming || pool != s.tree().default_pool()) return std::nullopt;
    const Level then{at, pool, coming->share, used, non_preemptible};
    if (broken_at(s.tree(), then, amounts, who)) return std::nullopt;
    when = std::max(when, coming->at);
  }
  return when;
}

std::vector<QueueId> held_back_for(const QueueTree& tree, const std::vector<QueueId>& path, PoolId pool,
                                   ResourceKind what) {
  std::vector<QueueId> list;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const auto id = static_cast<QueueId>(i);
    const TreeNode& t = tree.queues()[i];
    if (!t.reserves || std::find(path.begin(), path.end(), id) != path.end()) continue;
    const bool beside = t.parent == kNoId ? t.spec.parent.empty()
                                          : std::find(path.begin(), path.end(), t.parent) != path.end();
    if (beside && amount_of(tree.sums(id, pool).held_back, what) > 0) list.push_back(id);
  }
  return list;
}

std::string breach(const QueueTree& tree, const std::vector<QueueId>& path, PoolId pool,
                   const Resources& asked, const Applicant& who) {
  const AccountedKinds& kinds = tree.accounted();
  for (const QueueId at : path) {
    const TreeSums& sums = tree.sums(at, pool);
    const Share& share = tree.share(at, pool);
    const bool over = std::any_of(kinds.begin(), kinds.end(), [&](ResourceKind kind) {
      if (amount_of(asked, kind) <= 0) return false;
      if (amount_of(sums.allocated, kind) > bound_of(share.limit, kind).value_or(kUnbounded)) return true;
      if (who.preemptible) return false;
      const auto own = quota_of(share.quota, kind);
      return own && amount_of(sums.non_preemptible, kind) >
                        wrapping_add(*own, borrowable(tree, at, pool, kind, who));
    });
    if (over) return tree.queue(at).spec.name;
  }
  return "";
}

}  // namespace muster::placement
