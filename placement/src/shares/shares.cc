#include "shares/shares.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "node/resource_vector.h"
#include "node/wide.h"
#include "shares/past.h"

namespace muster::placement {
namespace {

std::int64_t reserved_of(const ShareClaim& c) {
  return std::max<std::int64_t>(0, std::min(c.reserved, c.limit));
}

// Step 1. A reserved part that is idle must not come out of the quotas of its siblings: what the children
// first get counts as demand.
std::int64_t of_guarantee(const ShareClaim& c) {
  return std::max(reserved_of(c), std::min({c.quota, c.limit, std::max(c.demand, c.below)}));
}

// Weighted max-min of `left` over `who`, each up to room[i]; adds to `extra`.
std::int64_t fill(std::int64_t left, std::int64_t unit, std::vector<std::size_t> who,
                  const std::vector<ShareClaim>& claims, const std::vector<std::int64_t>& room,
                  std::vector<std::int64_t>& extra) {
  // Whoever is satisfied by a proportional part leaves with all it wants; the others share the rest anew.
  while (!who.empty() && left > 0) {
    Wide weights = 0;
    for (const auto i : who) weights += claims[i].weight;
    if (weights == 0) break;
    std::vector<std::size_t> hungry;
    std::int64_t given = 0;
    for (const auto i : who) {
      if (Wide(room[i]) * weights <= Wide(left) * claims[i].weight) {
        extra[i] = room[i];
        given += room[i];
      } else {
        hungry.push_back(i);
      }
    }
    if (hungry.size() < who.size()) {
      left -= given;
      who = std::move(hungry);
      continue;
    }
    // All are hungry: proportional, rounded down to units, the remainder by largest fraction, then age.
    std::vector<std::pair<Wide, std::size_t>> fractions;
    std::int64_t handed = 0;
    for (const auto i : who) {
      const Wide exact = Wide(left) * claims[i].weight;
      const auto whole = static_cast<std::int64_t>(exact / weights / unit) * unit;
      extra[i] = whole;
      handed += whole;
      fractions.emplace_back(exact - Wide(whole) * weights, i);
    }
    left -= handed;
    std::stable_sort(fractions.begin(), fractions.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [fraction, i] : fractions) {
      if (left < unit) break;
      const std::int64_t more = std::min({unit, room[i] - extra[i], left});
      extra[i] += more;
      left -= more;
    }
    break;
  }
  return left;
}

// Claims (`got`) that exceed what there is: each is kept in order of priority, inside one priority by the
// quotas as weights. Whoever wants little has it whole.
void share_scarce(std::int64_t capacity, std::int64_t unit, const std::vector<ShareClaim>& claims,
                  std::vector<std::int64_t>& got) {
  std::set<std::int64_t, std::greater<>> priorities;
  std::vector<ShareClaim> by_quota = claims;
  for (ShareClaim& c : by_quota) {
    priorities.insert(c.priority);
    c.weight = std::max<std::int64_t>(1, std::min(c.quota, c.limit));
  }
  const auto wanted = std::exchange(got, std::vector<std::int64_t>(claims.size()));
  // Where somebody is promised a part of a GPU, parts are shared out.
  const bool whole = std::ranges::all_of(wanted, [&](std::int64_t w) { return w % unit == 0; });
  for (const auto priority : priorities) {
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (claims[i].priority == priority && wanted[i] > 0) who.push_back(i);
    }
    capacity = fill(capacity, whole ? unit : 1, std::move(who), by_quota, wanted, got);
  }
}

// Of one resource: what its quota accounts for, and what bounds it.
struct Stated {
  std::int64_t quota, limit;
  bool accounted;
};
Stated stated(const Share& share, ResourceKind kind) {
  const auto quota = quota_of(share.quota, kind);
  return {quota.value_or(0), bound_of(share.limit, kind).value_or(kPlenty), quota.has_value()};
}

// What one pool is shared out from.
struct Source {
  const QueueTree& tree;
  const PastByQueue& past;
  PoolId pool;
  // A Project with all above it, and what it asks for beyond what is counted.
  const std::vector<QueueId>& path;
  Resources more;
  // By QueueId; only where something is reserved there or below.
  std::vector<Resources> reserved;  // own part, or that of what is below if it is more
  std::vector<Resources> below;     // what its children first get, if there is enough

  std::int64_t demand(QueueId at, ResourceKind kind) const {
    Resources sum = tree.sums(at, pool).demand();
    if (std::find(path.begin(), path.end(), at) != path.end()) sum += more;
    return amount_of(sum, kind);
  }
};

void share_resource(const Source& source, std::int64_t capacity, std::int64_t unit, ResourceKind kind,
                    const std::vector<QueueId>& children, std::vector<Resources>& out) {
  const QueueTree& tree = source.tree;
  const PoolId pool = source.pool;
  std::vector<ShareClaim> claims;
  for (const QueueId c : children) {
    const Share& share = tree.share(c, pool);
    const Stated v = stated(share, kind);
    const std::int64_t demand = source.demand(c, kind);
    // A resource without a quota is not accounted: nobody's share of it binds.
    claims.push_back({v.accounted ? v.quota : demand, v.limit, demand,
                      v.accounted ? std::clamp<std::int64_t>(share.weight, 0, kMaxWeight) : 0, share.priority,
                      amount_of(source.reserved[static_cast<std::size_t>(c)], kind),
                      amount_of(source.below[static_cast<std::size_t>(c)], kind)});
  }
  const QueueId parent = tree.queue(children.front()).parent;
  if (parent != kNoId && tree.queue(parent).spec.half_life) {
    std::vector<std::int64_t> beyond;
    for (std::size_t i = 0; i < children.size(); ++i)
      beyond.push_back(amount_of(average_use(source.past, children[i], pool), kind) - claims[i].quota);
    discount(claims, beyond);
  }
  const auto got = share_out(capacity, unit, claims);
  for (std::size_t i = 0; i < children.size(); ++i) {
    const bool accounted = stated(tree.share(children[i], pool), kind).accounted;
    amount_of(out[static_cast<std::size_t>(children[i])], kind) = accounted ? got[i] : kPlenty;
  }
}

void first_part(const Source& source, ResourceKind kind, QueueId at, Resources& out) {
  const Stated v = stated(source.tree.share(at, source.pool), kind);
  const std::int64_t demand = source.demand(at, kind);
  const auto i = static_cast<std::size_t>(at);
  amount_of(out, kind) +=
      of_guarantee({v.accounted ? v.quota : demand, v.limit, demand, 0, 0,
                    amount_of(source.reserved[i], kind), amount_of(source.below[i], kind)});
}

void sum_reserved(Source& source, QueueId at) {
  const QueueTree& tree = source.tree;
  if (!tree.queue(at).reserves) return;
  const auto i = static_cast<std::size_t>(at);
  Resources reserved;
  for (const QueueId child : tree.queue(at).children) {
    sum_reserved(source, child);
    reserved += source.reserved[static_cast<std::size_t>(child)];
    for (const ResourceKind kind : tree.accounted()) first_part(source, kind, child, source.below[i]);
  }
  source.reserved[i] = reserved_part(tree.share(at, source.pool), tree.accounted());
  source.reserved[i] = larger_of(source.reserved[i], reserved);
}

void share_below(const Source& source, const Resources& capacity, std::vector<QueueId> children,
                 std::vector<Resources>& out) {
  if (children.empty()) return;
  const QueueTree& tree = source.tree;
  std::sort(children.begin(), children.end(), [&](QueueId a, QueueId b) {
    const QueueSpec& x = tree.queue(a).spec;
    const QueueSpec& y = tree.queue(b).spec;
    return std::tie(x.created, x.name, x.is_project) < std::tie(y.created, y.name, y.is_project);
  });
  for (const ResourceKind kind : tree.accounted()) {
    const bool are_gpus = kind == ResourceKind::kGpu || tree.accounted().is_model(kind);
    const std::int64_t unit = are_gpus ? kMilliPerGpu : 1;
    share_resource(source, amount_of(capacity, kind), unit, kind, children, out);
  }
  for (const QueueId c : children) {
    const auto& below = tree.queue(c).children;
    share_below(source, out[static_cast<std::size_t>(c)], {below.begin(), below.end()}, out);
  }
}

}  // namespace

void discount(std::vector<ShareClaim>& claims, const std::vector<std::int64_t>& beyond) {
  Wide all = 0, weights = 0;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (claims[i].weight <= 0) continue;
    all += std::max<std::int64_t>(0, beyond[i]);
    weights += claims[i].weight;
  }
  for (std::size_t i = 0; i < claims.size(); ++i) {
    std::int64_t& weight = claims[i].weight;
    if (weight <= 0) continue;
    const Wide part = all * weight / weights;
    const Wide used = std::max<Wide>(beyond[i], part);
    const Wide less = used == 0 ? kWeightUnit : part * kWeightUnit / used;
    weight *= static_cast<std::int64_t>(std::max<Wide>(1, less));
  }
}

std::vector<std::int64_t> share_out(std::int64_t capacity, std::int64_t unit,
                                    const std::vector<ShareClaim>& claims) {
  std::vector<std::int64_t> kept(claims.size()), got(claims.size()), room(claims.size()),
      extra(claims.size());
  capacity = std::max<std::int64_t>(0, capacity);
  Wide sum = 0, reserved = 0;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    kept[i] = reserved_of(claims[i]);
    got[i] = of_guarantee(claims[i]);
    room[i] = std::max<std::int64_t>(0, std::min(claims[i].limit, claims[i].demand) - got[i]);
    sum += got[i];
    reserved += kept[i];
  }
  if (sum > capacity) {  // what is reserved comes before all other claims
    if (reserved > capacity) {
      share_scarce(capacity, unit, claims, kept);
      return kept;
    }
    for (std::size_t i = 0; i < claims.size(); ++i) got[i] -= kept[i];
    share_scarce(capacity - static_cast<std::int64_t>(reserved), unit, claims, got);
    for (std::size_t i = 0; i < claims.size(); ++i) got[i] += kept[i];
    return got;
  }
  std::int64_t left = capacity - static_cast<std::int64_t>(sum);
  std::set<std::int64_t, std::greater<>> priorities;
  for (const ShareClaim& c : claims) priorities.insert(c.priority);
  for (const auto priority : priorities) {
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (claims[i].priority == priority && claims[i].weight > 0 && room[i] > 0) who.push_back(i);
    }
    left = fill(left, unit, std::move(who), claims, room, extra);
  }
  for (std::size_t i = 0; i < claims.size(); ++i) got[i] += extra[i];
  return got;
}

std::vector<Resources> fair_shares(const ClusterModel& s, PoolId pool) {
  return fair_shares_with(s, pool, {}, {});
}

std::vector<Resources> fair_shares_with(const ClusterModel& s, PoolId pool, const std::vector<QueueId>& path,
                                        const Resources& more) {
  const QueueTree& tree = s.tree();
  std::vector<Resources> out(tree.size());
  Source source{tree,
                s.past,
                pool,
                path,
                more,
                std::vector<Resources>(tree.size()),
                std::vector<Resources>(tree.size())};
  std::vector<QueueId> tops;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const TreeNode& t = tree.queues()[i];
    if (t.known && t.parent == kNoId && t.spec.parent.empty()) tops.push_back(static_cast<QueueId>(i));
  }
  for (const QueueId top : tops) sum_reserved(source, top);
  share_below(source, s.pool(pool).domains[0].capacity, std::move(tops), out);
  return out;
}

}  // namespace muster::placement
