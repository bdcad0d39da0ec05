#include "place/affinity.h"

#include <algorithm>

#include "pool/topology.h"

namespace muster::placement {
namespace {

std::string_view namespace_of(std::string_view id) {
  return id.substr(0, id.find('/'));
}

bool in_namespace(const PodTerm& term, std::string_view owner, std::string_view ns) {
  if (term.namespaces.empty()) return ns == owner;
  return std::find(term.namespaces.begin(), term.namespaces.end(), ns) != term.namespaces.end();
}

// `owner`: the namespace of the pod that has the term.
bool meets(const PodTerm& term, std::string_view owner, std::string_view ns, const Labels& labels) {
  return in_namespace(term, owner, ns) && selects(term.selector, labels);
}

// The nodes whose pods a spread constraint counts: those that the pod's own node affinity accepts.
bool accepts(const RoleSpec& r, const NodeSpec& n) {
  const bool selected = std::all_of(r.node_selector.begin(), r.node_selector.end(), [&](const auto& kv) {
    const auto label = n.labels.find(kv.first);
    return label != n.labels.end() && label->second == kv.second;
  });
  return selected && std::all_of(r.required.begin(), r.required.end(),
                                 [&](const AnyOf& terms) { return matches(terms, n); });
}

}  // namespace

bool selects(const std::vector<Requirement>& selector, const Labels& labels) {
  return !selector.empty() && std::all_of(selector.begin(), selector.end(),
                                          [&](const Requirement& r) { return matches(r, labels); });
}

bool repels_itself_on_host(const RoleSpec& role) {
  return std::any_of(role.pod_anti_affinity.begin(), role.pod_anti_affinity.end(), [&](const PodTerm& t) {
    return t.topology_key == kHostLevel && t.namespaces.empty() && selects(t.selector, role.labels);
  });
}

bool InterPodAffinity::needed(const ClusterModel& s, const Request& request) {
  return request.about_pods || !s.jobs().with_anti_affinity().empty();
}

InterPodAffinity::InterPodAffinity(const ClusterModel& s, const Statement& statement, const PlaceQuery& q)
    : s_(s), q_(q), request_(s.request_of(s.job(q.job))), ns_(namespace_of(s.job(q.job).spec.id)) {
  roles_.resize(request_.roles.size());
  for (std::size_t r = 0; r < roles_.size(); ++r) add_terms(r);
  if (request_.about_pods) each_pod(statement, [&](const Seen& pod) { see(pod); });
  see_anti_affine(statement);
}

std::size_t InterPodAffinity::key_of(const std::string& name) {
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    if (keys_[k].name == name) return k;
  }
  Key& key =
      keys_.emplace_back(name, std::vector<Value>(s_.nodes().size(), -1), std::map<std::string, Value>{});
  for (std::size_t i = 0; i < s_.nodes().size(); ++i) {
    const NodeSpec& n = s_.nodes().all()[i].spec;
    const auto label = n.labels.find(name);
    if (label == n.labels.end() && name != kHostLevel) continue;
    const std::string& text = label == n.labels.end() ? n.name : label->second;
    key.of[i] = key.values.emplace(text, static_cast<Value>(key.values.size())).first->second;
  }
  return keys_.size() - 1;
}

// --- what is counted

void InterPodAffinity::Count::add(Value value, std::int64_t n) {
  if (value < 0) return;
  total += n;
  const auto it = pods.emplace(value, 0).first;
  it->second += n;
  if (it->second == 0) pods.erase(it);
}

std::int64_t InterPodAffinity::Count::at(Value value) const {
  const auto found = pods.find(value);
  return found == pods.end() ? 0 : found->second;
}

void InterPodAffinity::Spread::add(Value value, std::int64_t n) {
  const std::int64_t before = count.at(value);
  count.add(value, n);
  if (const auto bucket = domains.find(before); --bucket->second == 0) domains.erase(bucket);
  ++domains[before + n];
}

InterPodAffinity::Count InterPodAffinity::count_of(const std::string& key, const std::vector<bool>& own) {
  Count count;
  count.key = key_of(key);
  count.own = own;
  return count;
}

std::vector<bool> InterPodAffinity::own_roles(const PodTerm& term, std::string_view owner) const {
  std::vector<bool> own;
  for (const RoleSpec& r : request_.roles) own.push_back(meets(term, owner, ns_, r.labels));
  return own;
}

void InterPodAffinity::add_terms(std::size_t role) {
  const RoleSpec& r = request_.roles[role];
  OfRole& of = roles_[role];
  // A pod attracts if it meets all terms of required affinity.
  std::vector<bool> attracts(request_.roles.size(), true);
  for (const PodTerm& t : r.pod_affinity) {
    const auto own = own_roles(t, ns_);
    for (std::size_t k = 0; k < own.size(); ++k) attracts[k] = attracts[k] && own[k];
  }
  for (const PodTerm& t : r.pod_affinity) of.affinity.push_back(count_of(t.topology_key, attracts));
  of.matches_own_affinity = !r.pod_affinity.empty() && attracts[role];
  for (const PodTerm& t : r.pod_anti_affinity) of.anti.push_back(count_of(t.topology_key, own_roles(t, ns_)));
  for (const auto& [weight, t] : r.preferred_pods)
    of.preferred.emplace_back(weight, count_of(t.topology_key, own_roles(t, ns_)));
  for (const SpreadConstraint& c : r.spread) add_spread(role, c);
}

void InterPodAffinity::add_spread(std::size_t role, const SpreadConstraint& rule) {
  const RoleSpec& r = request_.roles[role];
  std::vector<bool> own;
  for (const RoleSpec& other : request_.roles) own.push_back(selects(rule.selector, other.labels));
  Spread spread{&rule, count_of(rule.topology_key, own), std::vector<bool>(s_.nodes().size()), {}};
  std::vector<std::size_t> keys;  // a node counts if it has the keys of all constraints of this sort
  for (const SpreadConstraint& c : r.spread) {
    if (c.required == rule.required) keys.push_back(key_of(c.topology_key));
  }
  std::set<Value> values;
  for (const NodeId id : s_.pool(q_.pool).nodes) {
    const Node& n = s_.node(id);
    const bool counts =
        n.takes_part() && accepts(r, n.spec) &&
        std::all_of(keys.begin(), keys.end(), [&](std::size_t k) { return value(k, id) >= 0; });
    spread.nodes[static_cast<std::size_t>(id)] = counts;
    if (counts) values.insert(value(spread.count.key, id));
  }
  if (!values.empty()) spread.domains[0] = static_cast<std::int64_t>(values.size());
  roles_[role].spread.push_back(std::move(spread));
}

// --- who is there

template <class Each>
void InterPodAffinity::each_pod(const Statement& statement, Each&& each) const {
  const auto of_job = [&](const Job& j, const PodPlace& p, const Allocation& c) {
    if (c.node == kNoId || p.role < 0 || static_cast<std::size_t>(p.role) >= j.spec.roles.size()) return;
    each(Seen{namespace_of(j.spec.id), &j.spec.roles[static_cast<std::size_t>(p.role)].labels, c.node,
              c.hold});
  };
  for (const Job& j : s_.jobs().all()) {
    if (!j.known) continue;
    s_.work.spend(1 + static_cast<std::int64_t>(j.allocations.size()));
    for (std::size_t i = 0; i < j.allocations.size(); ++i) of_job(j, j.assignment->pods[i], j.allocations[i]);
    for (const Leaving& l : j.leaving) of_job(j, l.place, l.allocation);
  }
  for (const Statement::Placed& p : statement.placed()) of_job(s_.job(p.job), p.place, p.allocation);
  for (const auto& [key, c] : s_.others.all()) {
    if (c.labels != nullptr) each(Seen{namespace_of(key), c.labels, c.node, c.hold});
  }
}

void InterPodAffinity::see(const Seen& pod) {
  const bool stays = pod.hold != Hold::kLeaving;
  for (std::size_t role = 0; role < roles_.size(); ++role) {
    const RoleSpec& r = request_.roles[role];
    OfRole& of = roles_[role];
    const auto meets_it = [&](const PodTerm& t) { return meets(t, ns_, pod.ns, *pod.labels); };
    if (stays && !r.pod_affinity.empty() &&
        std::all_of(r.pod_affinity.begin(), r.pod_affinity.end(), meets_it)) {
      for (Count& c : of.affinity) c.add(value(c.key, pod.node), 1);
    }
    for (std::size_t k = 0; k < of.anti.size() && counts(pod.hold, q_.view); ++k) {
      if (meets_it(r.pod_anti_affinity[k])) of.anti[k].add(value(of.anti[k].key, pod.node), 1);
    }
    for (std::size_t k = 0; k < of.preferred.size() && stays; ++k) {
      Count& c = of.preferred[k].second;
      if (meets_it(r.preferred_pods[k].second)) c.add(value(c.key, pod.node), 1);
    }
    for (Spread& spread : of.spread) {
      if (stays && pod.ns == ns_ && spread.nodes[static_cast<std::size_t>(pod.node)] &&
          selects(spread.rule->selector, *pod.labels))
        spread.add(value(spread.count.key, pod.node), 1);
    }
  }
}

// Pods that are there may not want those of the query beside them.
void InterPodAffinity::see_anti_affine(const Statement& statement) {
  for (const JobId id : s_.jobs().with_anti_affinity()) {
    const Job& j = s_.job(id);
    const auto one = [&](const PodPlace& p, const Allocation& c) {
      if (c.node == kNoId || !counts(c.hold, q_.view) || p.role < 0 ||
          static_cast<std::size_t>(p.role) >= j.spec.roles.size())
        return;
      repel(j.spec.roles[static_cast<std::size_t>(p.role)], namespace_of(j.spec.id), c.node, 1);
    };
    for (std::size_t i = 0; i < j.allocations.size(); ++i) one(j.assignment->pods[i], j.allocations[i]);
    for (const Leaving& l : j.leaving) one(l.place, l.allocation);
    for (const Statement::Placed& p : statement.placed()) {
      if (p.job == id) one(p.place, p.allocation);
    }
  }
}

void InterPodAffinity::repel(const RoleSpec& other, std::string_view ns, NodeId node, std::int64_t n) {
  for (const PodTerm& t : other.pod_anti_affinity) {
    for (std::size_t role = 0; role < roles_.size(); ++role) {
      if (!meets(t, ns, ns_, request_.roles[role].labels)) continue;
      const std::size_t key = key_of(t.topology_key);
      auto& list = roles_[role].repelled;
      auto found = std::find_if(list.begin(), list.end(), [&](const Count& c) { return c.key == key; });
      if (found == list.end()) found = list.insert(list.end(), Count{key, {}, 0, {}});
      found->add(value(key, node), n);
    }
  }
}

void InterPodAffinity::count_own(std::size_t placed, NodeId node, std::int64_t n) {
  const auto add = [&](Count& c) {
    if (c.own[placed]) c.add(value(c.key, node), n);
  };
  for (OfRole& of : roles_) {
    for (Count& c : of.affinity) add(c);
    for (Count& c : of.anti) add(c);
    for (auto& [weight, c] : of.preferred) add(c);
    for (Spread& spread : of.spread) {
      if (spread.count.own[placed] && spread.nodes[static_cast<std::size_t>(node)])
        spread.add(value(spread.count.key, node), n);
    }
  }
  repel(request_.roles[placed], ns_, node, n);
}

// --- answers

bool InterPodAffinity::allows(std::size_t role, NodeId node) const {
  const OfRole& of = roles_[role];
  if (of.pinned >= 0 && value(of.pinned_key, node) != of.pinned) return false;
  const bool nobody =
      std::all_of(of.affinity.begin(), of.affinity.end(), [](const Count& c) { return c.total == 0; });
  for (const Count& c : of.affinity) {
    const Value v = value(c.key, node);
    // The first of its kind need not find another.
    if (v < 0 || (c.at(v) == 0 && !(nobody && of.matches_own_affinity))) return false;
  }
  for (const auto* list : {&of.anti, &of.repelled}) {
    for (const Count& c : *list) {
      if (c.at(value(c.key, node)) > 0) return false;
    }
  }
  return std::all_of(of.spread.begin(), of.spread.end(), [&](const Spread& spread) {
    if (!spread.rule->required) return true;
    const Value v = value(spread.count.key, node);
    if (v < 0) return false;
    const auto domains = static_cast<std::int64_t>(spread.rule->min_domains);
    std::int64_t seen = 0;
    for (const auto& [pods, count] : spread.domains) seen += count;
    const std::int64_t least = seen < domains || spread.domains.empty() ? 0 : spread.domains.begin()->first;
    return spread.count.at(v) + (spread.count.own[role] ? 1 : 0) - least <= spread.rule->max_skew;
  });
}

bool InterPodAffinity::prefers(std::size_t role) const {
  const OfRole& of = roles_[role];
  return !of.preferred.empty() ||
         std::any_of(of.spread.begin(), of.spread.end(), [](const Spread& s) { return !s.rule->required; });
}

std::int64_t InterPodAffinity::dislike(std::size_t role, NodeId node) const {
  const OfRole& of = roles_[role];
  std::int64_t sum = 0;
  for (const auto& [weight, c] : of.preferred) {
    const std::int64_t bounded = std::clamp<std::int64_t>(weight, -1'000'000, 1'000'000);
    sum -= bounded * c.at(value(c.key, node));
  }
  for (const Spread& spread : of.spread) {
    if (!spread.rule->required) sum += spread.count.at(value(spread.count.key, node));
  }
  return sum;
}

std::string InterPodAffinity::shared_key(std::size_t role) const {
  const OfRole& of = roles_[role];
  if (!of.matches_own_affinity) return "";
  std::string finest = keys_[of.affinity.front().key].name;
  std::int32_t depth = kNoLevel;
  for (const Count& c : of.affinity) {
    if (c.total > 0) return "";
    const std::int32_t here = depth_of(s_.pool(q_.pool).spec, keys_[c.key].name);
    if (here > depth) depth = here, finest = keys_[c.key].name;
  }
  return finest;
}

bool InterPodAffinity::pin(std::size_t role, std::int32_t value) {
  OfRole& of = roles_[role];
  of.pinned_key = key_of(shared_key(role));
  of.pinned = value;
  return static_cast<std::size_t>(value) < keys_[of.pinned_key].values.size();
}

}  // namespace muster::placement
