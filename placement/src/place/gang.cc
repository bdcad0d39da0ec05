#include "place/gang.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "pool/topology.h"

namespace muster::placement {
namespace {

// Domains, or nodes for a set of several shapes, in which a search may fail before the next level is tried.
// Bounds and counts have refuted most others before.
constexpr int kMaxTries = 32;
// Bounds of the search with steps back.
constexpr std::size_t kMaxBundlesTriedTwice = 16;
constexpr int kMaxSteps = 300;
constexpr std::size_t kMaxChoices = 8;

std::vector<std::string> shared_keys(const InterPodAffinity* affinity, const Request& request) {
  std::vector<std::string> keys;
  for (std::size_t r = 0; affinity != nullptr && r < request.roles.size(); ++r)
    keys.push_back(affinity->shared_key(r));
  return keys;
}

}  // namespace

Gang::Gang(ClusterModel& state, Statement& statement, const PlaceQuery& query, const SearchLimits& limits)
    : s_(state),
      st_(statement),
      q_(query),
      limits_(limits),
      request_(state.requests.at(state.job(query.job).request)),
      pool_(state.pool(query.pool)),
      neighbours_(InterPodAffinity::needed(state, request_)
                      ? std::make_unique<InterPodAffinity>(state, statement, query)
                      : nullptr),
      layout_(state, query, shared_keys(neighbours_.get(), request_)),
      put_already_(layout_.bundles.size()) {
  const Job& j = s_.job(q_.job);
  if (q_.pods.empty() || !j.assignment) return;
  std::set<std::pair<std::int32_t, std::int32_t>> wanted;
  for (const PodWish& w : q_.pods) wanted.emplace(w.role, w.index);
  for (std::size_t i = 0; i < j.allocations.size(); ++i) {
    const PodPlace& p = j.assignment->pods[i];
    const NodeId node = j.allocations[i].node;
    if (node == kNoId || s_.node(node).pool != q_.pool || wanted.contains({p.role, p.index})) continue;
    held_[{layout_.leader(static_cast<std::size_t>(p.role)), p.index}] = node;
    stands({p.role, p.index}, node);
    last_ = node;
  }
}

std::optional<std::vector<PodPlace>> Gang::run(Refusal* refusal) {
  const Mark start = mark();
  Bundles all(layout_.bundles.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  bool done = layout_.unknown_level.empty() && put_beside_held();
  if (done) {
    std::erase_if(all, [&](std::size_t b) { return put_already_[b]; });
    done = fit_whole(all);
  }
  if (done) return std::move(places_);
  rollback(start);
  if (refusal != nullptr) {
    refusal->role = failed_role_;
    refusal->placed = std::max<std::int64_t>(0, most_placed_);
  }
  return std::nullopt;
}

bool Gang::fit_whole(const Bundles& all) {
  const Area area{q_.within, kNoId, false};
  const Mark start = mark();
  const auto once = [&] {
    if (fit(all, 0, area) && rules_hold()) return true;
    rollback(start);
    return false;
  };
  if (once()) return true;
  // Pods that want to be among their like took the first domain that came: others may hold more of them.
  for (std::size_t r = 0; neighbours_ && r < request_.roles.size(); ++r) {
    const std::string key = neighbours_->shared_key(r);
    if (key.empty() || depth_of(pool_.spec, key) != kNoLevel) continue;
    for (std::int32_t value = 0; value < kMaxTries && neighbours_->pin(r, value); ++value) {
      if (once()) return true;
    }
    return false;
  }
  if (layout_.shapes.size() == 1 || all.size() > kMaxBundlesTriedTwice) return false;
  const Demand demand = demand_of(all);
  if (!could_hold(q_.within, demand, 0) || !has_room(q_.within, demand, 0)) return false;
  Bundles order;
  const auto hungriest_first = orders(demand);
  for (const std::size_t shape : hungriest_first.front()) {
    for (const std::size_t b : all) {
      if (layout_.bundles[b].shape == shape) order.push_back(b);
    }
  }
  int steps = kMaxSteps;
  return backtrack(order, 0, steps);
}

bool Gang::backtrack(const Bundles& order, std::size_t next, int& steps) {
  if (next == order.size()) return true;
  const Bundle& bundle = layout_.bundles[order[next]];
  const Domain& domain = pool_.domains[static_cast<std::size_t>(q_.within)];
  std::vector<NodeId> tried;
  while (tried.size() < kMaxChoices && steps-- > 0) {
    const RankedNode c = best_node({s_, pool_, request_, layout_.shapes[bundle.shape], q_.view, limits_,
                                    &domain, &tried, neighbours_.get(), nullptr},
                                   1);
    if (c.node == kNoId) return false;
    tried.push_back(c.node);
    const Mark start = mark();
    if (put(bundle, c.node, 1) && rules_hold() && backtrack(order, next + 1, steps)) return true;
    rollback(start);
  }
  return false;
}

// --- sets and their domains

bool Gang::fit(const Bundles& bundles, std::size_t layer, const Area& area) {
  if (bundles.empty()) return true;
  if (layer == layout_.layers()) return leaf(bundles, area);
  std::map<SetKey, Bundles> sets;
  for (const std::size_t b : bundles)
    sets[layout_.set_of(layer, layout_.bundles[b].pods.front())].push_back(b);
  const Mark start = mark();
  for (const auto& [set, list] : sets) {
    if (fit_set(list, set, area)) continue;
    rollback(start);
    return false;
  }
  return true;
}

bool Gang::fit_set(const Bundles& bundles, const SetKey& set, const Area& area) {
  const DepthRule rule = layout_.rule_of(set);
  if (rule.none() || area.host != kNoId) return fit(bundles, set.layer + 1, area);
  if (const auto others = stands_.find(set); others != stands_.end() && !others->second.empty())
    return fit_beside(std::vector(others->second), bundles, set, area);
  if ((rule.required == kHostDepth || rule.preferred == kHostDepth) && fit_on_host(bundles, set, area))
    return true;
  const std::int32_t least =
      std::max(rule.required, pool_.domains[static_cast<std::size_t>(area.domain)].depth);
  for (std::int32_t depth = finest_depth(pool_.spec); depth >= least; --depth) {
    if (fit_in_domains(bundles, set, area, depth)) return true;
  }
  return false;
}

// From the smallest domain that holds the others upwards.
bool Gang::fit_beside(const std::vector<NodeId>& others, const Bundles& bundles, const SetKey& set,
                      const Area& area) {
  const DepthRule rule = layout_.rule_of(set);
  const Node& first = s_.node(others.front());
  const bool one_host =
      std::all_of(others.begin(), others.end(), [&](NodeId n) { return n == others.front(); });
  if (one_host && (rule.required == kHostDepth || rule.preferred == kHostDepth) &&
      domain_of(first, pool_.domains[static_cast<std::size_t>(area.domain)].depth) == area.domain &&
      attempt(bundles, set.layer + 1, {area.domain, others.front(), true})) {
    return true;
  }
  for (std::size_t k = first.domains.size(); k > 0; --k) {
    const DomainId d = first.domains[k - 1];
    const std::int32_t depth = pool_.domains[static_cast<std::size_t>(d)].depth;
    if (depth < rule.required) return false;
    if (!std::all_of(others.begin(), others.end(),
                     [&](NodeId n) { return domain_of(s_.node(n), depth) == d; }))
      continue;
    const bool outside = contains(pool_, d, area.domain);  // the area is narrower
    if (!outside && !contains(pool_, area.domain, d)) return false;
    if (attempt(bundles, set.layer + 1, {outside ? area.domain : d, kNoId, true})) return true;
    if (outside) return false;
  }
  return false;
}

bool Gang::fit_in_domains(const Bundles& bundles, const SetKey& set, const Area& area, std::int32_t depth) {
  const Demand demand = demand_of(bundles);
  // Pack: where it takes the fewest nodes, of those what is left with least, of equal ones what is so in the
  // domain around it. Spread: with most.
  struct Choice {
    std::size_t left;  // where its numbers begin, its own first
    DomainId domain;
  };
  std::vector<Choice> choices;
  std::vector<std::int64_t> left;
  const bool gpus = demand.sum.gpu.value > 0;
  const std::int64_t sign = pool_.spec.order == NodeOrder::kPack ? 1 : -1;
  const std::vector<DomainId> domains = domains_at(pool_, area.domain, depth);
  choices.reserve(domains.size());
  left.reserve(domains.size() * (static_cast<std::size_t>(depth) + 2));
  const bool few = sign > 0 && domains.size() > 1 && bundles.size() > 1;
  for (const DomainId d : domains) {
    if (!could_hold(d, demand, set.layer + 1)) continue;
    choices.push_back({left.size(), d});
    left.push_back(few ? fewest_nodes_in(d, demand) : 0);
    for (DomainId around = d; around != kNoId;) {
      const Domain& domain = pool_.domains[static_cast<std::size_t>(around)];
      left.push_back(sign * (gpus ? domain.free.gpu.value : domain.free.cpu.value));
      around = domain.parent;
    }
  }
  const std::size_t levels = choices.empty() ? 0 : left.size() / choices.size();  // equally deep, all of them
  const auto after = [&](const Choice& a, const Choice& b) {  // heaps have the largest first
    const std::int64_t *x = left.data() + a.left, *y = left.data() + b.left;
    const auto [at, other] = std::mismatch(x, x + levels, y);
    return at == x + levels ? a.domain > b.domain : *at > *other;
  };
  std::make_heap(choices.begin(), choices.end(), after);
  for (int tries = 0; !choices.empty() && tries < kMaxTries;) {
    std::pop_heap(choices.begin(), choices.end(), after);
    const DomainId d = choices.back().domain;
    choices.pop_back();
    if (!has_room(d, demand, set.layer + 1)) continue;
    if (attempt(bundles, set.layer + 1, {d, kNoId, true})) return true;
    ++tries;
  }
  return false;
}

// Shape by shape, as if each were alone.
std::int64_t Gang::fewest_nodes_in(DomainId id, const Demand& demand) const {
  std::int64_t nodes = 0;
  for (const auto& [shape, count] : demand.of_shape) {
    nodes += fewest_nodes({s_, pool_, request_, layout_.shapes[shape], q_.view, limits_,
                           &pool_.domains[static_cast<std::size_t>(id)], nullptr, neighbours_.get()},
                          count);
  }
  return nodes;
}

bool Gang::fit_on_host(const Bundles& bundles, const SetKey& set, const Area& area) {
  const Demand demand = demand_of(bundles);
  const std::size_t shape = orders(demand).front().front();
  const std::int64_t wanted = demand.of_shape.at(shape);
  const Domain& domain = pool_.domains[static_cast<std::size_t>(area.domain)];
  std::vector<NodeId> banned;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    const Node* near = last_ == kNoId ? nullptr : &s_.node(last_);
    const RankedNode c = best_node({s_, pool_, request_, layout_.shapes[shape], q_.view, limits_, &domain,
                                    &banned, neighbours_.get(), near},
                                   wanted, wanted);
    if (c.node == kNoId) return false;
    if (attempt(bundles, set.layer + 1, {area.domain, c.node, true})) return true;
    banned.push_back(c.node);
  }
  return false;
}

bool Gang::attempt(const Bundles& bundles, std::size_t layer, const Area& area) {
  const Mark start = mark();
  if (fit(bundles, layer, area)) return true;
  rollback(start);
  return false;
}

// Shape by shape, in several orders; what failed in one is first in the next.
bool Gang::leaf(const Bundles& bundles, const Area& area) {
  std::map<std::size_t, Bundles> by_shape;
  for (const std::size_t b : bundles) by_shape[layout_.bundles[b].shape].push_back(b);
  auto to_try = by_shape.size() == 1 ? std::vector<std::vector<std::size_t>>{{by_shape.begin()->first}}
                                     : orders(demand_of(bundles));
  const Mark start = mark();
  std::set<std::vector<std::size_t>> tried;
  while (!to_try.empty()) {
    auto order = std::move(to_try.front());
    to_try.erase(to_try.begin());
    if (!tried.insert(order).second) continue;
    auto failed = order.begin();
    for (; failed != order.end(); ++failed) {
      const Bundles& list = by_shape.at(*failed);
      if (fill(list, 0, area) < list.size()) break;
    }
    if (failed == order.end()) return true;
    if (const auto placed = static_cast<std::int64_t>(places_.size()); placed > most_placed_) {
      most_placed_ = placed;
      failed_role_ = layout_.shapes[*failed].roles.front();
    }
    rollback(start);
    std::rotate(order.begin(), failed, failed + 1);
    if (tried.size() <= by_shape.size()) to_try.push_back(std::move(order));
  }
  return false;
}

// --- pods of one shape

std::size_t Gang::fill(const Bundles& bundles, std::size_t next, const Area& area) {
  if (area.host == kNoId) return fill_domain(bundles, next, area);
  return fill_node(bundles, next, area.host, static_cast<std::int64_t>(bundles.size()));
}

std::size_t Gang::fill_domain(const Bundles& bundles, std::size_t next, const Area& area) {
  const Domain& domain = pool_.domains[static_cast<std::size_t>(area.domain)];
  const Shape& shape = layout_.shapes[layout_.bundles[bundles.front()].shape];
  const bool pack = pool_.spec.order == NodeOrder::kPack;
  if (area.near && q_.view != View::kForNominated) {
    // The fewest parts: the tightest that takes all that is left, else the one that takes most.
    std::vector<std::pair<std::int64_t, DomainId>> parts;
    for (const DomainId child : domain.children)
      parts.emplace_back(most_in(pool_.domains[static_cast<std::size_t>(child)], shape), child);
    while (next < bundles.size() && !parts.empty()) {
      const auto left = static_cast<std::int64_t>(bundles.size() - next);
      const auto key = [&](const auto& part) {
        const bool all = part.first >= left;
        return std::tuple(!all, all && pack ? part.first : -part.first, part.second);
      };
      const auto best = std::min_element(parts.begin(), parts.end(),
                                         [&](const auto& a, const auto& b) { return key(a) < key(b); });
      if (best->first <= 0) break;
      next = fill_domain(bundles, next, {best->second, kNoId, true});
      parts.erase(best);
    }
  }
  const bool one_by_one =
      neighbours_ && std::any_of(shape.roles.begin(), shape.roles.end(),
                                 [&](std::size_t r) { return neighbours_->one_by_one(r); });
  std::vector<NodeId> banned;  // where a closer look found no room
  // As few nodes as possible: with GPUs the search sees to that. Without, a node that takes all is asked for.
  bool one_takes_all = pack && !one_by_one && !shape.takes_gpus() && bundles.size() - next > 1;
  while (next < bundles.size()) {
    const auto left = static_cast<std::int64_t>(bundles.size() - next);
    const Node* near = last_ == kNoId ? nullptr : &s_.node(last_);
    const NodeSearch search{s_,      pool_,   request_,          shape, q_.view, limits_,
                            &domain, &banned, neighbours_.get(), near};
    RankedNode c = best_node(search, left);
    if (one_takes_all && c.room < left) {
      const RankedNode all = best_node(search, left, left);
      one_takes_all = all.node != kNoId && std::tie(all.dislike, all.scattered, all.gpus_beside) <=
                                               std::tie(c.dislike, c.scattered, c.gpus_beside);
      if (one_takes_all) c = all;
      if (!one_takes_all && !neighbours_) return fill_few(bundles, next, search);
    }
    if (c.node == kNoId) break;
    const std::size_t before = next;
    next = fill_node(bundles, next, c.node, pack && !one_by_one ? std::min(c.room, left) : 1);
    if (next == before) banned.push_back(c.node);
  }
  return next;
}

// Pods without GPUs, packed: the nodes with most room first, and at last the tightest that takes all the
// rest.
std::size_t Gang::fill_few(const Bundles& bundles, std::size_t next, const NodeSearch& search) {
  const auto kind = [](const RankedNode& c) { return std::tie(c.dislike, c.scattered, c.gpus_beside); };
  const auto after = [](const RankedNode& a, const RankedNode& b) { return b.better_than(a); };
  for (const bool shun : {true, false}) {
    std::vector<RankedNode> nodes = nodes_by_room(search, shun);
    std::make_heap(nodes.begin(), nodes.end(), after);
    while (next < bundles.size() && !nodes.empty()) {
      const auto left = static_cast<std::int64_t>(bundles.size() - next);
      std::pop_heap(nodes.begin(), nodes.end(), after);
      RankedNode best = nodes.back();
      nodes.pop_back();
      const bool takes_all = best.room >= left;
      for (std::size_t i = 0; takes_all && i < nodes.size(); ++i) {
        const RankedNode& c = nodes[i];
        if (c.room >= left && kind(c) == kind(best) &&
            std::tie(c.second, c.apart, c.node) < std::tie(best.second, best.apart, best.node))
          best = c;
      }
      next = fill_node(bundles, next, best.node, std::min(best.room, left));
    }
  }
  return next;
}

// Places the next bundles on the node until they are `most` or no more fit.
std::size_t Gang::fill_node(const Bundles& bundles, std::size_t next, NodeId node, std::int64_t most) {
  for (std::int64_t k = 0; k < most && next < bundles.size(); ++k, ++next) {
    const auto to_come = std::min(most - k, static_cast<std::int64_t>(bundles.size() - next));
    if (!put(layout_.bundles[bundles[next]], node, to_come)) break;
  }
  return next;
}

bool Gang::put(const Bundle& bundle, NodeId node, std::int64_t to_come) {
  const Mark start = mark();
  for (const PodWish& w : bundle.pods) {
    const auto role = static_cast<std::size_t>(w.role);
    const RoleSpec& r = request_.roles[role];
    const Node& n = s_.node(node);
    auto devices = request_.eligible[role][static_cast<std::size_t>(node)] && n.takes_part() &&
                           room_for(n, pool_.spec, r, q_.view, limits_) > 0 &&
                           (!neighbours_ || neighbours_->allows(role, node))
                       ? choose_devices(n, pool_.spec, r, q_.view, {q_.job, to_come})
                       : std::nullopt;
    if (!devices) {
      rollback(start);
      return false;
    }
    PodPlace p{w.role, w.index, n.spec.name, *std::move(devices)};
    st_.place(q_.job, p, node, q_.pool, q_.hold);
    places_.push_back(std::move(p));
    nodes_.push_back(node);
    stands(w, node);
    if (neighbours_) neighbours_->add(role, node);
    last_ = node;
  }
  return true;
}

bool Gang::put_beside_held() {
  for (std::size_t b = 0; b < layout_.bundles.size() && !held_.empty(); ++b) {
    const PodWish& lead = layout_.bundles[b].pods.front();
    const auto partner = held_.find({layout_.leader(static_cast<std::size_t>(lead.role)), lead.index});
    if (partner == held_.end()) continue;
    const Node& node = s_.node(partner->second);
    if (node.pool != q_.pool || node.domains.empty() || !contains(pool_, q_.within, node.domains.back()))
      return false;
    if (!put(layout_.bundles[b], partner->second, 1)) return false;
    put_already_[b] = true;
  }
  return true;
}

// --- the rest

// Hungriest shapes first: they have the least choice. Then those first for which the fewest nodes would do.
std::vector<std::vector<std::size_t>> Gang::orders(const Demand& demand) const {
  std::vector<std::size_t> order;
  for (const auto& [shape, count] : demand.of_shape) order.push_back(shape);
  if (order.size() == 1) return {order};
  const auto hunger = [&](std::size_t i) {
    const Shape& shape = layout_.shapes[i];
    std::int64_t gpus = 0;
    for (const std::size_t r : shape.roles) gpus += request_.roles[r].gpus;
    return std::tuple(gpus, shape.sum.cpu, shape.sum.memory, shape.sum.named);
  };
  const auto follows = [&](std::size_t i) {  // others have to be there first
    return std::any_of(layout_.shapes[i].roles.begin(), layout_.shapes[i].roles.end(),
                       [&](std::size_t r) { return !request_.roles[r].pod_affinity.empty(); });
  };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return follows(a) != follows(b) ? follows(b) : hunger(a) > hunger(b);
  });
  std::vector<std::vector<std::size_t>> list = {order};
  std::map<std::size_t, std::ptrdiff_t> choice;
  for (const std::size_t i : order) {
    for (const std::size_t r : layout_.shapes[i].roles) {
      const auto count = std::count(request_.eligible[r].begin(), request_.eligible[r].end(), true);
      const auto [it, fresh] = choice.emplace(i, count);
      if (!fresh) it->second = std::min(it->second, count);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return choice.at(a) < choice.at(b); });
  list.push_back(std::move(order));
  return list;
}

// Colocated pods follow others, whose sets may not be theirs: then it shows here.
bool Gang::rules_hold() const {
  for (const auto& [set, nodes] : stands_) {
    const std::int32_t depth = layout_.rule_of(set).required;
    for (const NodeId n : nodes) {
      const bool same = depth == kHostDepth
                            ? n == nodes.front()
                            : domain_of(s_.node(n), depth) != kNoId &&
                                  domain_of(s_.node(n), depth) == domain_of(s_.node(nodes.front()), depth);
      if (!same) return false;
    }
  }
  return true;
}

void Gang::stands(const PodWish& pod, NodeId node) {
  for (std::size_t l = 0; l < layout_.layers(); ++l) stands_[layout_.set_of(l, pod)].push_back(node);
}

void Gang::rollback(const Mark& to) {
  st_.rollback(to.steps);
  while (places_.size() > to.places) {
    const PodWish pod{places_.back().role, places_.back().index};
    for (std::size_t l = 0; l < layout_.layers(); ++l) stands_[layout_.set_of(l, pod)].pop_back();
    if (neighbours_) neighbours_->remove(static_cast<std::size_t>(pod.role), nodes_.back());
    places_.pop_back();
    nodes_.pop_back();
  }
}

}  // namespace muster::placement
