// RULES.md 7.4, TopologyUnsatisfiable: enough is free, but in no one domain of the demanded level.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "explain/reasons.h"
#include "node/resource_vector.h"
#include "place/layout.h"
#include "place/nodes.h"
#include "pool/topology.h"

namespace muster::placement {
namespace {

// Pods for which something has room; `at` is one of its nodes.
struct Spot {
  NodeId at = kNoId;
  std::int64_t pods = 0;
  std::size_t row = 0;  // of `at`, in the pool's roster
};

// What is demanded of the pods together: `size` of them (all: 0) in one domain of the level.
struct Demanded {
  std::string level;
  std::string field;  // of the job's spec
  std::int64_t size = 0;
};

constexpr std::int64_t kRowsAStep = 20;  // of the roster

std::int64_t room_if_empty(const Roster::Row& node, const RoleSpec& r) {
  std::int64_t k = node.pods;
  if (r.per_pod.cpu.value > 0) k = std::min(k, node.cpu / r.per_pod.cpu.value);
  if (r.per_pod.memory.value > 0) k = std::min(k, node.memory / r.per_pod.memory.value);
  if (r.gpus == 0) return k;
  // Of shares not all is known here, so they bound nothing but for plain fractions.
  const bool fraction = r.share.kind == GpuShare::Kind::kFraction;
  if (!fraction && r.share.kind != GpuShare::Kind::kWhole) return k;
  const std::int64_t each = fraction ? kMilliPerGpu / std::max<std::int64_t>(1, r.share.milli.value) : 1;
  return std::min<std::int64_t>(k, node.gpus * each / r.gpus);
}

class Topology {
 public:
  Topology(const ClusterModel& s, const Request& request, PoolId pool, bool if_empty)
      : s_(s),
        request_(request),
        pool_(s.pool(pool)),
        if_empty_(if_empty),
        roster_(roster_of(pool_, s.nodes().all())) {}

  std::optional<PendingReason> run() {
    const auto demanded = rules();
    for (const auto* rule : demanded) {
      if (depth_of(pool_.spec, *rule) == kNoLevel) return unknown(*rule);
    }
    if (std::ranges::all_of(demanded, &std::string::empty)) return std::nullopt;
    std::vector<std::size_t> all;
    for (std::size_t r = 0; r < request_.roles.size(); ++r) {
      if (request_.roles[r].replicas > 0) all.push_back(r);
      const std::string& own = request_.roles[r].topology.required;
      if (own.empty() || request_.roles[r].replicas == 0) continue;
      if (auto v = one_domain({own, "topology.required of role " + request_.roles[r].name, 0}, {r})) return v;
    }
    std::vector<Spot> spots = all.size() == 1 ? spots_of(all.front()) : std::vector<Spot>{};
    for (std::size_t g = request_.groups.size(); g > 0; --g) {
      const GroupRule& group = request_.groups[g - 1];
      if (group.rule.required.empty()) continue;
      const Demanded what{group.rule.required, "topology.groups[" + std::to_string(g - 1) + "].required",
                          group.size};
      if (auto v = all.size() == 1 ? groups(what, spots) : one_group(what, all)) return v;
    }
    if (request_.topology.required.empty()) return std::nullopt;
    const Demanded whole{request_.topology.required, "topology.required", 0};
    return all.size() == 1 ? one_domain(whole, all, spots) : one_domain(whole, all);
  }

 private:
  std::vector<const std::string*> rules() const {
    std::vector<const std::string*> list = {&request_.topology.required};
    for (const RoleSpec& r : request_.roles) list.push_back(&r.topology.required);
    for (const GroupRule& g : request_.groups) list.push_back(&g.rule.required);
    return list;
  }

  // By node; counted once for each role.
  const std::vector<Spot>& spots_of(std::size_t role) const {
    spots_.resize(request_.roles.size());
    if (spots_[role]) return *spots_[role];
    std::vector<Spot>& list = spots_[role].emplace();
    list.reserve(roster_.rows.size());
    s_.work.spend(static_cast<std::int64_t>(roster_.rows.size()) / (if_empty_ ? kRowsAStep : 1));
    const RoleSpec& r = request_.roles[role];
    const std::vector<bool>& eligible = request_.eligible[role];
    const bool named = asks_for_named(r.per_pod);  // the roster does not tell
    Roster::Row last;                              // neighbours are often alike
    std::int64_t room = room_if_empty(last, r);
    for (std::size_t i = 0; i < roster_.rows.size(); ++i) {
      const Roster::Row& row = roster_.rows[i];
      if (!eligible[static_cast<std::size_t>(row.node)]) continue;
      if (!if_empty_) {
        room = room_for(s_.node(row.node), pool_.spec, r, View::kNow);
      } else if (named) {
        const Resources& has = s_.node(row.node).spec.allocatable;
        room = times_in(has, r.per_pod, room_if_empty(row, r));
      } else if (!row.has_as_much_as(last)) {
        room = room_if_empty(row, r);
        last = row;
      }
      if (room > 0) list.push_back({row.node, room, i});
    }
    return list;
  }

  // Spots of one domain each; what lies in none of this depth is left out.
  std::vector<Spot> by_domain(const std::vector<Spot>& spots, std::int32_t depth) const {
    if (depth == kHostDepth) return spots;
    std::vector<Spot> sums(pool_.domains.size());
    for (const Spot& spot : spots) {
      const DomainId d = roster_.domain(spot.row, depth);
      if (d == kNoId) continue;
      Spot& sum = sums[static_cast<std::size_t>(d)];
      if (sum.at == kNoId) sum.at = spot.at, sum.row = spot.row;
      sum.pods += spot.pods;
    }
    std::erase_if(sums, [](const Spot& sum) { return sum.at == kNoId; });
    return sums;
  }
  static Spot largest(const std::vector<Spot>& spots) {
    const auto best = std::max_element(spots.begin(), spots.end(),
                                       [](const Spot& a, const Spot& b) { return a.pods < b.pods; });
    return best == spots.end() ? Spot{} : *best;
  }
  static std::int64_t sum(const std::vector<Spot>& spots) {
    std::int64_t pods = 0;
    for (const Spot& spot : spots) pods += spot.pods;
    return pods;
  }

  // A bound from above on the whole GPUs that a pod could get on the node.
  std::int64_t gpus_at(std::size_t i) const {
    const Roster::Row& row = roster_.rows[i];
    if (if_empty_) return row.gpus;
    gpus_.resize(roster_.rows.size(), -1);
    if (gpus_[i] >= 0) return gpus_[i];
    s_.work.spend(1);
    RoleSpec one;
    one.gpus = 1;
    one.per_pod = {};
    const Node& n = s_.node(row.node);
    const std::int64_t room = room_for(n, pool_.spec, one, View::kNow);
    return gpus_[i] = room < n.free(View::kNow).pods ? room : row.gpus;  // else it was pods that ran out
  }

  // Of these roles, `counts` pods each: how many fit at most into `gpus` whole GPUs.
  std::int64_t most_pods(const std::vector<std::size_t>& roles, const std::vector<std::int64_t>& counts,
                         std::int64_t gpus) const {
    std::map<std::int64_t, std::int64_t> wanted;  // by GPUs of a pod
    for (std::size_t k = 0; k < roles.size(); ++k) {
      const RoleSpec& r = request_.roles[roles[k]];
      wanted[r.share.kind == GpuShare::Kind::kWhole ? r.gpus : 0] += counts[k];
    }
    std::int64_t pods = 0;
    for (const auto& [each, count] : wanted) {
      const std::int64_t fit = each == 0 ? count : std::min(count, gpus / each);
      gpus -= fit * each;
      pods += fit;
    }
    return pods;
  }

  // Of several roles: each counted for itself, and all of them by the GPUs that they share. So it is a bound
  // from above.
  std::vector<Spot> together(const std::vector<std::size_t>& roles, const std::vector<std::int64_t>& counts,
                             std::int32_t depth) const {
    using Key = std::pair<NodeId, DomainId>;  // of a node where each is one, else of a domain
    const auto key_of = [&](const Spot& spot) {
      const bool by_node = depth == kHostDepth;
      return Key(by_node ? spot.at : NodeId{kNoId},
                 by_node ? DomainId{kNoId} : roster_.domain(spot.row, depth));
    };
    std::map<Key, Spot> sums;
    std::map<Key, std::int64_t> gpus;
    std::vector<bool> is_counted(roster_.rows.size());
    for (std::size_t k = 0; k < roles.size(); ++k) {
      for (const Spot& spot : by_domain(spots_of(roles[k]), depth))
        sums.try_emplace(key_of(spot), Spot{spot.at, 0, spot.row}).first->second.pods +=
            std::min(counts[k], spot.pods);
      for (const Spot& spot : spots_of(roles[k])) {
        if (is_counted[spot.row]) continue;
        is_counted[spot.row] = true;
        gpus[key_of(spot)] += gpus_at(spot.row);
      }
    }
    std::vector<Spot> list;
    for (auto& [where, spot] : sums) {
      spot.pods = std::min(spot.pods, most_pods(roles, counts, gpus[where]));
      list.push_back(spot);
    }
    return list;
  }

  std::optional<PendingReason> one_domain(const Demanded& what, const std::vector<std::size_t>& roles) const {
    std::vector<std::int64_t> counts;
    for (const std::size_t r : roles) counts.push_back(request_.roles[r].replicas);
    return in_one(what, roles, [&](std::int32_t depth) { return together(roles, counts, depth); });
  }
  std::optional<PendingReason> one_domain(const Demanded& what, const std::vector<std::size_t>& roles,
                                          const std::vector<Spot>& spots) const {
    return in_one(what, roles, [&](std::int32_t depth) { return by_domain(spots, depth); });
  }

  std::optional<PendingReason> in_one(const Demanded& what, const std::vector<std::size_t>& roles,
                                      const std::function<std::vector<Spot>(std::int32_t)>& spots) const {
    std::int64_t need = 0;
    for (const std::size_t r : roles) need += request_.roles[r].replicas;
    const std::int32_t depth = depth_of(pool_.spec, what.level);
    const Spot best = largest(spots(depth));
    if (best.pods >= need) return std::nullopt;
    std::string text =
        "needs room for " + pods(need, roles) + " in one " + level(what) + "; " + have(best, depth, need);
    std::int32_t wider = std::min(depth - 1, finest_depth(pool_.spec));
    while (wider >= 0 && largest(spots(wider)).pods < need) --wider;
    if (wider == 0)
      text += std::string("; without the rule it would have room") + (if_empty_ ? " if all were empty" : "");
    if (wider > 0) {
      const std::string& key = pool_.spec.topology[static_cast<std::size_t>(wider) - 1];
      text += "; one " + std::string(level_name(key)) + " (" + key + ") would have room" +
              (if_empty_ ? " if it were empty" : "");
    }
    return pending_reason(std::move(text), need, best.pods);
  }

  // Groups of one kind of pod: `spots` become those of whole groups.
  std::optional<PendingReason> groups(const Demanded& what, std::vector<Spot>& spots) const {
    const std::int64_t need = request_.total.pods;
    const std::int32_t depth = depth_of(pool_.spec, what.level);
    spots = by_domain(spots, depth);
    const Spot best = largest(spots);
    for (Spot& spot : spots) spot.pods = spot.pods / what.size * what.size;
    const std::int64_t found = sum(spots);
    if (found >= need) return std::nullopt;
    std::string text = "needs " + std::to_string(need / what.size) + " groups of " +
                       std::to_string(what.size) + " pods, each in one " + level(what) +
                       "; there is room for " + std::to_string(found / what.size) +
                       (if_empty_ ? " even if all were empty" : "") + "; " + have(best, depth, need);
    return pending_reason(std::move(text), need, found);
  }

  // The first group of several roles: no domain has room for it.
  std::optional<PendingReason> one_group(const Demanded& what, const std::vector<std::size_t>& roles) const {
    std::vector<std::int64_t> counts;
    std::int64_t left = what.size;
    for (const std::size_t r : roles) {
      counts.push_back(std::min<std::int64_t>(left, request_.roles[r].replicas));
      left -= counts.back();
    }
    const std::int32_t depth = depth_of(pool_.spec, what.level);
    const Spot best = largest(together(roles, counts, depth));
    if (best.pods >= what.size) return std::nullopt;
    return pending_reason("needs groups of " + std::to_string(what.size) + " pods, each in one " +
                              level(what) + "; " + have(best, depth, what.size),
                          what.size, best.pods);
  }

  std::optional<PendingReason> unknown(const std::string& key) const {
    std::string levels;
    for (const std::string& l : pool_.spec.topology) levels += (levels.empty() ? "" : ", ") + l;
    return pending_reason("pool " + pool_.spec.name + " has no topology level " + key + ": its levels are " +
                              (levels.empty() ? std::string(kHostLevel) + " alone" : levels),
                          request_.total.pods, 0);
  }

  // --- words

  std::string pods(std::int64_t need, const std::vector<std::size_t>& roles) const {
    std::string text = std::to_string(need) + (need == 1 ? " pod" : " pods");
    if (roles.size() != 1) return text;
    const RoleSpec& r = request_.roles[roles.front()];
    if (r.gpus == 0) return text;
    return text + " (" + show("gpu", r.per_pod.gpu.value) + " " + pool_.spec.gpu_resource + " each)";
  }
  std::string level(const Demanded& what) const {
    return std::string(level_name(what.level)) + " (" + what.field + ": " + what.level + ")";
  }
  std::string have(const Spot& best, std::int32_t depth, std::int64_t need) const {
    const std::string suffix = if_empty_ ? " even if it were empty" : "";
    if (best.at == kNoId) return "none has room for any" + suffix;
    const Node& n = s_.node(best.at);
    const std::string name =
        depth == kHostDepth ? "node " + n.spec.name : describe(pool_, domain_of(n, depth));
    return "the best, " + name + ", has room for " + std::to_string(std::min(best.pods, need)) + suffix;
  }
  std::optional<PendingReason> pending_reason(std::string message, std::int64_t need,
                                              std::int64_t found) const {
    PendingReason v;
    v.reason = Reason::kTopologyUnsatisfiable;
    v.message = std::move(message);
    v.blocking.push_back({"pods", pool_.spec.name, need, found, {}});
    return v;
  }

  const ClusterModel& s_;
  const Request& request_;
  const Pool& pool_;
  bool if_empty_;
  const Roster& roster_;
  mutable std::vector<std::optional<std::vector<Spot>>> spots_;  // by role
  mutable std::vector<std::int64_t> gpus_;                       // by row; -1: not counted yet
};

}  // namespace

std::optional<PendingReason> reason_of_topology(const ClusterModel& s, const Request& request, PoolId pool,
                                                bool if_empty) {
  return Topology(s, request, pool, if_empty).run();
}

}  // namespace muster::placement
