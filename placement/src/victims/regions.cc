#include "victims/regions.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "place/nodes.h"
#include "pool/topology.h"
#include "shares/backfill.h"

namespace muster::placement {
namespace {

constexpr std::size_t kRegionsTried = 4;    // nodes or domains that are tried one by one
constexpr std::size_t kMaxNodesTried = 64;  // so many may all be looked at by a trial

// Room for so many pods more, once these units have gone.
struct Step {
  Wide cost = 0;
  std::int64_t pods = 0;
  std::vector<std::size_t> units;
  NodeId node = kNoId;  // one of its nodes

  void add(const Step& o) {
    cost += o.cost;
    pods += o.pods;
    units.insert(units.end(), o.units.begin(), o.units.end());
    if (node == kNoId) node = o.node;
  }
};

bool cheaper(const Step& a, const Step& b) {  // for each pod
  return a.cost * b.pods != b.cost * a.pods ? a.cost * b.pods < b.cost * a.pods : a.node < b.node;
}

// Of those that are to be placed.
std::size_t largest_role(const Request& request, const std::vector<PodWish>& pods) {
  std::size_t best = pods.empty() ? 0 : static_cast<std::size_t>(pods.front().role);
  for (std::size_t r = 0; r < request.roles.size(); ++r) {
    const bool asked = pods.empty() || std::any_of(pods.begin(), pods.end(), [&](const PodWish& w) {
                         return static_cast<std::size_t>(w.role) == r;
                       });
    if (asked && request.roles[r].per_pod.gpu > request.roles[best].per_pod.gpu) best = r;
  }
  return best;
}

// So many pods have to be in one domain of this depth.
struct Together {
  std::int32_t depth = 0;
  std::int64_t size = 1;
};

class Regions {
 public:
  Regions(ClusterModel& s, const SolutionQuery& q, const std::vector<Unit>& units, const Trial& trial)
      : s_(s),
        q_(q),
        units_(units),
        trial_(trial),
        pool_(s.pool(q.claimant.pool)),
        request_(s.requests.at(s.job(q.claimant.job).request)),
        role_(largest_role(request_, q.pods)),
        off_(!q.anywhere) {
    s_.requests.fill_eligible(request_, s_.nodes().all());
    wanted_ = request_.roles[role_].replicas;
    if (!q_.pods.empty()) {
      wanted_ = std::count_if(q_.pods.begin(), q_.pods.end(),
                              [&](const PodWish& w) { return static_cast<std::size_t>(w.role) == role_; });
    }
  }

  std::vector<TakingOrder> run() {
    const auto together = rules();
    std::vector<Step> steps = by_node(together);
    std::vector<TakingOrder> orders;
    if (wanted_ == 1) {
      std::stable_sort(steps.begin(), steps.end(), cheaper);
      std::erase_if(steps, [](const Step& step) { return step.units.empty(); });
      for (std::size_t k = 0; k < std::min(steps.size(), kRegionsTried); ++k)
        orders.push_back({steps[k].units, kWholePool});
      return orders;
    }
    for (const Together& t : together) {
      if (t.depth != kHostDepth) steps = by_domain(steps, t);
    }
    std::stable_sort(steps.begin(), steps.end(), cheaper);
    const bool one_region = !together.empty() && together.back().size == wanted_;
    if (!one_region) return {{in_order(steps), kWholePool}};
    for (std::size_t k = 0; k < std::min(steps.size(), kRegionsTried); ++k) {
      const Node& n = s_.node(steps[k].node);
      const bool host = together.back().depth == kHostDepth;
      const DomainId d = host ? n.domains.back() : domain_of(n, together.back().depth);
      orders.push_back({with_the_rest(steps[k], host ? steps[k].node : kNoId, d), d});
    }
    return orders;
  }

 private:
  // From the innermost set to the widest.
  std::vector<Together> rules() const {
    std::vector<Together> list;
    const auto add = [&](const std::string& level, std::int64_t size) {
      const std::int32_t depth = depth_of(pool_.spec, level);
      if (depth <= 0) return;
      // A wider set with a level as fine demands more.
      while (!list.empty() && list.back().depth <= depth) list.pop_back();
      list.push_back({depth, std::min(size, wanted_)});
    };
    for (std::size_t g = request_.groups.size(); g-- > 0;)
      add(request_.groups[g].rule.required, request_.groups[g].size);
    add(request_.roles[role_].topology.required, wanted_);
    add(request_.topology.required, wanted_);
    return list;
  }

  // What units hold on one node.
  struct Part {
    NodeId node = kNoId;
    std::size_t unit = 0;
    Resources amounts;
  };
  // Sorted by node, then unit; each pair once.
  class Parts {
   public:
    explicit Parts(std::vector<Part> sorted) : list_(std::move(sorted)) {}
    std::span<const Part> on(NodeId node) const {
      const auto range = std::ranges::equal_range(list_, node, {}, &Part::node);
      return {range.begin(), range.end()};
    }
    std::vector<NodeId> nodes() const {
      std::vector<NodeId> ids;
      for (const Part& p : list_) {
        if (ids.empty() || ids.back() != p.node) ids.push_back(p.node);
      }
      return ids;
    }

   private:
    std::vector<Part> list_;
  };

  Parts parts() const {
    std::vector<Part> all;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const Job& j = s_.job(units_[i].job);
      for (const std::size_t pod : units_[i].pods) {
        if (const Allocation& c = j.allocations[pod]; c.node != kNoId) all.push_back({c.node, i, c.amounts});
      }
    }
    std::ranges::stable_sort(all, {}, [](const Part& p) { return std::pair(p.node, p.unit); });
    std::vector<Part> joined;
    for (const Part& p : all) {
      if (joined.empty() || joined.back().node != p.node || joined.back().unit != p.unit)
        joined.push_back(p);
      else
        joined.back().amounts += p.amounts;
    }
    return Parts(std::move(joined));
  }

  // What the next pods would cost there if amounts were all that matters. pods == 0: there can be none.
  Step guess(NodeId id, std::int64_t have, std::span<const Part> here) const {
    const RoleSpec& r = request_.roles[role_];
    Step step{0, 0, {}, id};
    Resources free = s_.node(id).free(View::kTarget);
    const auto room = [&] {
      std::int64_t k = std::min(wanted_, free.pods);
      if (r.per_pod.gpu.value > 0) k = std::min(k, free.gpu.value / r.per_pod.gpu.value);
      return times_in(free, r.per_pod, k);
    };
    for (const Part& part : here) {
      free += part.amounts;
      step.cost += units_[part.unit].cost;
      step.pods = room() - have;
      if (step.pods > 0) return step;
    }
    step.pods = 0;
    return step;
  }

  // The nodes worth a trial: all of them where amounts do not tell which; else the cheapest by a guess, with
  // twice the room that is wanted.
  std::vector<std::pair<NodeId, std::int64_t>> worth_a_trial(const Parts& parts, bool together) const {
    const RoleSpec& r = request_.roles[role_];
    std::vector<std::pair<NodeId, std::int64_t>> all;  // and the pods for which there is room already
    // Free room alone makes no order, but where pods must be together.
    const auto candidates =
        together ? std::vector<NodeId>(pool_.nodes.begin(), pool_.nodes.end()) : parts.nodes();
    s_.work.spend(static_cast<std::int64_t>(candidates.size() + units_.size()));
    for (const NodeId id : candidates) {
      const Node& n = s_.node(id);
      if (n.pool != q_.claimant.pool || !n.takes_part() || (n.kept_for_reservation && off_) ||
          !request_.eligible[role_][static_cast<std::size_t>(id)])
        continue;
      all.emplace_back(id, std::min(wanted_, room_for(n, pool_.spec, r, View::kTarget)));
    }
    const bool whole = r.gpus == 0 || r.share.kind == GpuShare::Kind::kWhole;
    if (together || !whole || all.size() <= kMaxNodesTried) return all;
    std::vector<Step> guesses;
    std::vector<std::pair<NodeId, std::int64_t>> kept;
    for (const auto& [id, have] : all) {
      const auto here = parts.on(id);
      Step step = have < wanted_ ? guess(id, have, here) : Step{};
      if (have > 0) kept.emplace_back(id, have);
      if (have == 0 && step.pods > 0) guesses.push_back(std::move(step));
    }
    std::stable_sort(guesses.begin(), guesses.end(), cheaper);
    std::int64_t room = 0;
    for (std::size_t k = 0; k < guesses.size() && (k < kMaxNodesTried || room < 2 * wanted_); ++k) {
      kept.emplace_back(guesses[k].node, 0);
      room += guesses[k].pods;
    }
    std::sort(kept.begin(), kept.end());
    return kept;
  }

  // What the next pods cost on each node: its units in order, until there is room for all that are wanted.
  std::vector<Step> by_node(const std::vector<Together>& together) {
    const bool host = !together.empty() && together.front().depth == kHostDepth;
    const std::int64_t at_once = host ? together.front().size : 1;
    const RoleSpec& r = request_.roles[role_];
    const Parts held = parts();
    std::vector<Step> all;
    for (const auto& [id, room_now] : worth_a_trial(held, !together.empty())) {
      const Node& n = s_.node(id);
      std::int64_t have = room_now / at_once * at_once;
      std::vector<Step> steps;
      if (have > 0) steps.push_back({0, have, {}, id});
      if (const auto here = held.on(id); have < wanted_ && !here.empty()) {
        Step next{0, 0, {}, id};
        for (std::size_t at = 0; at < here.size(); ++at) {
          const std::size_t i = here[at].unit;
          // What a leaf may still give depends on all that it has given; else the rest of a gang is let be.
          const bool more = std::any_of(here.begin() + static_cast<std::ptrdiff_t>(at) + 1, here.end(),
                                        [&](const Part& p) { return units_[p.unit].leaf == units_[i].leaf; });
          if (!trial_.take(i, more ? kNoId : id)) continue;
          next.units.push_back(i);
          next.cost += units_[i].cost;
          next.pods = std::min(wanted_, room_for(n, pool_.spec, r, View::kTarget)) / at_once * at_once - have;
          if (next.pods <= 0) continue;
          have += next.pods;
          // What comes later on the same node must not seem cheaper.
          while (!steps.empty() && next.cost * steps.back().pods < steps.back().cost * next.pods) {
            Step joined = std::move(steps.back());
            steps.pop_back();
            joined.add(next);
            next = std::move(joined);
          }
          steps.push_back(std::exchange(next, Step{0, 0, {}, id}));
          if (have >= wanted_) break;
        }
        trial_.undo();
      }
      std::move(steps.begin(), steps.end(), std::back_inserter(all));
    }
    return all;
  }

  // In each domain its steps join to such as have room for `size` pods, the cheapest first.
  std::vector<Step> by_domain(std::vector<Step> steps, const Together& t) const {
    std::stable_sort(steps.begin(), steps.end(), cheaper);
    std::map<DomainId, Step> open;
    std::vector<Step> done;
    for (const Step& step : steps) {
      const DomainId d = domain_of(s_.node(step.node), t.depth);
      if (d == kNoId) continue;
      Step& sum = open[d];
      sum.add(step);
      const std::int64_t whole = sum.pods / t.size * t.size;
      if (whole == 0) continue;
      const Step rest{0, sum.pods - whole, {}, step.node};
      sum.pods = whole;
      done.push_back(std::exchange(sum, rest));
    }
    if (t.size < wanted_) return done;
    // One such is all there is to place.
    std::set<DomainId> seen;
    std::erase_if(done,
                  [&](const Step& s) { return !seen.insert(domain_of(s_.node(s.node), t.depth)).second; });
    return done;
  }

  static std::vector<std::size_t> in_order(const std::vector<Step>& steps) {
    std::vector<std::size_t> order;
    std::set<std::size_t> seen;
    for (const Step& step : steps) {
      for (const std::size_t i : step.units) {
        if (seen.insert(i).second) order.push_back(i);
      }
    }
    return order;
  }

  // And then what else is there: other roles have to find room as well.
  std::vector<std::size_t> with_the_rest(const Step& step, NodeId host, DomainId d) const {
    auto order = in_order({step});
    const std::set<std::size_t> seen(order.begin(), order.end());
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const bool inside = std::any_of(units_[i].nodes.begin(), units_[i].nodes.end(), [&](NodeId n) {
        if (host != kNoId) return n == host;
        const Node& node = s_.node(n);  // it may have gone to another pool since
        return node.pool == q_.claimant.pool && !node.domains.empty() &&
               contains(pool_, d, node.domains.back());
      });
      if (inside && !seen.contains(i)) order.push_back(i);
    }
    return order;
  }

  ClusterModel& s_;
  const SolutionQuery& q_;
  const std::vector<Unit>& units_;
  const Trial& trial_;
  const Pool& pool_;
  Request& request_;
  std::size_t role_;
  bool off_;  // not onto reserved nodes
  std::int64_t wanted_ = 0;
};

}  // namespace

std::vector<TakingOrder> orders_by_place(ClusterModel& s, const SolutionQuery& q,
                                         const std::vector<Unit>& units, const Trial& trial) {
  return Regions(s, q, units, trial).run();
}

}  // namespace muster::placement
