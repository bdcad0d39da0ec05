#include "pool/request.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "node/devices.h"
#include "node/wide.h"

namespace muster::placement {
namespace {

// Beyond this in any resource a job is a mistake: a tenth of an exa-something, and sums of many still fit.
constexpr Wide kAbsurd = Wide{1} << 57;

void put(std::string& out, const std::string& s) {
  out += std::to_string(s.size()), out += ':', out += s;
}
void put(std::string& out, std::int64_t n) {
  out += std::to_string(n), out += ';';
}

template <class T, class Put>
void put_list(std::string& out, const T& list, Put&& each) {
  put(out, static_cast<std::int64_t>(list.size()));
  for (const auto& item : list) each(item);
}

void put(std::string& out, const TopologyRule& r) {
  put(out, r.required), put(out, r.preferred);
}
void put(std::string& out, const Requirement& r) {
  put(out, r.key);
  put(out, static_cast<std::int64_t>(r.op));
  put_list(out, r.values, [&](const std::string& v) { put(out, v); });
}
void put(std::string& out, const Term& t) {
  put_list(out, t.labels, [&](const Requirement& r) { put(out, r); });
  put_list(out, t.fields, [&](const Requirement& r) { put(out, r); });
}

void put(std::string& out, const PodTerm& t) {
  put_list(out, t.selector, [&](const Requirement& r) { put(out, r); });
  put_list(out, t.namespaces, [&](const std::string& n) { put(out, n); });
  put(out, t.topology_key);
}

bool about_pods(const RoleSpec& r) {
  return !r.pod_affinity.empty() || !r.pod_anti_affinity.empty() || !r.preferred_pods.empty() ||
         !r.spread.empty();
}

// Everything that placement looks at, as text without ambiguity.
std::string key_of(const JobSpec& spec) {
  std::string out;
  for (const RoleSpec& r : spec.roles) {
    put(out, r.name);
    put(out, r.replicas);
    put(out, r.gpus);
    for (const auto n : {r.per_pod.cpu.value, r.per_pod.memory.value, r.per_pod.pods, r.share.milli.value,
                         r.share.memory.value, r.share.memory_limit.value, std::int64_t{r.max_replicas},
                         static_cast<std::int64_t>(r.share.kind), std::int64_t{r.share.overcommit},
                         std::int64_t{r.numa_aligned}, std::int64_t{r.colocate_with}})
      put(out, n);
    put_list(out, r.named, [&](const auto& a) { put(out, a.first), put(out, a.second); });
    put(out, r.share.profile);
    put(out, r.topology);
    for (const auto* terms : {&r.pod_affinity, &r.pod_anti_affinity})
      put_list(out, *terms, [&](const PodTerm& t) { put(out, t); });
    put_list(out, r.preferred_pods, [&](const auto& p) { put(out, p.first), put(out, p.second); });
    put_list(out, r.spread, [&](const SpreadConstraint& c) {
      put(out, c.max_skew), put(out, c.topology_key), put(out, std::int64_t{c.required}),
          put(out, c.min_domains);
      put_list(out, c.selector, [&](const Requirement& q) { put(out, q); });
    });
    put_list(out, r.labels, [&](const auto& kv) { put(out, kv.first), put(out, kv.second); });
    put_list(out, r.models, [&](const std::string& m) { put(out, m); });
    put_list(out, r.node_selector, [&](const auto& kv) { put(out, kv.first), put(out, kv.second); });
    put_list(out, r.required,
             [&](const AnyOf& any) { put_list(out, any, [&](const Term& t) { put(out, t); }); });
    put_list(out, r.preferred, [&](const auto& p) { put(out, p.first), put(out, p.second); });
    put_list(out, r.tolerations, [&](const Toleration& t) {
      put(out, t.key), put(out, t.value), put(out, t.effect), put(out, std::int64_t{t.exists});
    });
  }
  out += '/';
  put(out, spec.topology);
  put_list(out, spec.groups, [&](const GroupRule& g) { put(out, g.size), put(out, g.rule); });
  // Whose labels it would meet depends on the namespace where it has terms about pods.
  if (std::any_of(spec.roles.begin(), spec.roles.end(), about_pods))
    put(out, spec.id.substr(0, spec.id.find('/')));
  put_list(out, spec.avoid_nodes, [&](const std::string& n) { put(out, n); });
  return out;
}

std::string problem_of(const RoleSpec& r, std::size_t roles) {
  const std::string who = "role " + r.name + ": ";
  if (r.replicas < 0 || r.max_replicas < 0) return who + "replicas must not be negative";
  if (r.most() > 1'000'000) return who + "more than 1000000 replicas";
  if (r.gpus < 0 || r.gpus > 1024) return who + "gpus must be 0 to 1024 per pod";
  if (r.per_pod.cpu.value < 0 || r.per_pod.memory.value < 0 ||
      std::any_of(r.named.begin(), r.named.end(), [](const auto& a) { return a.second < 0; }))
    return who + "requests must not be negative";
  const GpuShare& share = r.share;
  if (share.kind == GpuShare::Kind::kFraction && (share.milli.value < 1 || share.milli.value > kMilliPerGpu))
    return who + "a fraction of a GPU must be 1m to 1";
  if (share.kind == GpuShare::Kind::kMemory && share.memory.value < 1)
    return who + "the memory asked of a GPU must be at least 1 byte";
  if (share.kind == GpuShare::Kind::kMig && !mig_profile(share.profile))
    return who + "\"" + share.profile + "\" is not a MIG profile such as 3g.40gb";
  if (r.colocate_with >= 0 && static_cast<std::size_t>(r.colocate_with) >= roles)
    return who + "the role to be colocated with does not exist";
  return r.per_pod.pods == 1 ? "" : who + "a pod takes one pod slot";
}

// There is a place to count in for each resource that a role asks for and that some node has.
std::string problem_of_names(const std::vector<RoleSpec>& roles, const ResourceNames& names) {
  for (const RoleSpec& r : roles) {
    if (const std::string* name = names.without_place(r.named)) {
      return "role " + r.name + " asks for " + *name + ", and " + names.why_no_more();
    }
  }
  return "";
}

// Every pod that goes to the node of another must have that other one.
std::string problem_of_colocation(const std::vector<RoleSpec>& roles) {
  for (const RoleSpec& r : roles) {
    if (r.colocate_with < 0) continue;
    const RoleSpec& other = roles[static_cast<std::size_t>(r.colocate_with)];
    if (r.replicas > other.replicas || r.most() > other.most())
      return "role " + r.name + " has more pods than role " + other.name + ", beside which they are to be";
    std::size_t steps = 0;
    for (const RoleSpec* at = &r; at->colocate_with >= 0; ++steps) {
      if (steps > roles.size()) return "role " + r.name + " is colocated with itself, in a circle";
      at = &roles[static_cast<std::size_t>(at->colocate_with)];
    }
  }
  return "";
}

// The sum of all pods of the minimum, or why there is none.
std::string total_of(const JobSpec& spec, const std::vector<RoleSpec>& roles, Resources& total) {
  Wide pods = 0;
  std::array<Wide, kAllKinds.size()> most{};
  for (const RoleSpec& r : roles) {
    if (auto problem = problem_of(r, roles.size()); !problem.empty()) return problem;
    pods += r.replicas;
    for (std::size_t i = 0; i < most.size(); ++i)
      most[i] += static_cast<Wide>(amount_of(r.per_pod, kAllKinds[i])) * r.most();
    total += r.per_pod * r.replicas;
  }
  if (pods == 0) return "the job has no pods";
  if (pods > 1'000'000) return "more than 1000000 pods";
  if (std::ranges::max(most) > kAbsurd) return "its pods together ask for more than can be counted";
  if (auto problem = problem_of_colocation(roles); !problem.empty()) return problem;
  std::int64_t around = static_cast<std::int64_t>(pods);
  for (const GroupRule& g : spec.groups) {
    if (g.size < 1) return "a group must have at least 1 pod";
    if (around % g.size != 0)
      return "groups of " + std::to_string(g.size) + " do not divide " + std::to_string(around) + " pods";
    around = g.size;
  }
  return "";
}

}  // namespace

RoleSpec complete(RoleSpec r, const ResourceNames& names) {
  r.per_pod.gpu = MilliGpu{};
  names.count(r.named, r.per_pod);
  switch (r.share.kind) {
    case GpuShare::Kind::kWhole:
    case GpuShare::Kind::kFraction:
    case GpuShare::Kind::kMig:
      r.per_pod.gpu = charge_on({}, r);
      break;
    case GpuShare::Kind::kMemory:
      break;
  }
  return r;
}

bool kind_would_do(const NodeSpec& n, const RoleSpec& r) {
  const bool is_model = r.gpus == 0 || r.models.empty() ||
                        std::find(r.models.begin(), r.models.end(), n.gpu_model) != r.models.end();
  return is_model && gpus_would_do(n, r) && untolerated(n, r.tolerations) == nullptr;
}

bool labels_would_do(const NodeSpec& n, const RoleSpec& r, const std::vector<std::string>& avoid) {
  for (const auto& [key, value] : r.node_selector) {
    const auto found = n.labels.find(key);
    if (found == n.labels.end() || found->second != value) return false;
  }
  for (const AnyOf& terms : r.required) {
    if (!matches(terms, n)) return false;
  }
  return std::find(avoid.begin(), avoid.end(), n.name) == avoid.end();
}

// By name: what no node lists, or what there is no place for, is in no amount.
bool named_would_do(const NodeSpec& n, const RoleSpec& r) {
  return std::all_of(r.named.begin(), r.named.end(), [&](const auto& asked) {
    if (asked.second <= 0) return true;
    const auto has = n.named.find(asked.first);
    return has != n.named.end() && has->second >= asked.second;
  });
}

bool would_do(const NodeSpec& n, const RoleSpec& r, const std::vector<std::string>& avoid) {
  return fits_beside_gpus(r.per_pod, n.allocatable) && kind_would_do(n, r) && named_would_do(n, r) &&
         labels_would_do(n, r, avoid);
}

RequestId Requests::acquire(const JobSpec& spec, const ResourceNames& names) {
  std::string key = key_of(spec);
  for (const RoleSpec& role : spec.roles) {
    if (role.named.empty()) continue;
    Resources counted;  // the same names may have other places now, or none
    names.count(role.named, counted);
    for (const std::int64_t amount : counted.named) put(key, amount);
    put(key, std::int64_t{names.without_place(role.named) != nullptr});
  }
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    ++at(found->second).users;
    return found->second;
  }
  RequestId id;
  if (free_.empty()) {
    id = static_cast<RequestId>(all_.size());
    all_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Request& r = at(id);
  r.users = 1;
  r.serial = ++last_serial_;
  for (const RoleSpec& role : spec.roles) {
    r.roles.push_back(complete(role, names));
    r.by_memory = r.by_memory || (role.gpus > 0 && role.share.kind == GpuShare::Kind::kMemory);
    r.elastic = r.elastic || role.most() > role.replicas;
    r.about_pods = r.about_pods || about_pods(role);
    r.with_anti_affinity = r.with_anti_affinity || !role.pod_anti_affinity.empty();
  }
  r.avoid = spec.avoid_nodes;
  r.topology = spec.topology;
  r.groups = spec.groups;
  r.invalid = total_of(spec, r.roles, r.total);
  r.uncounted = problem_of_names(r.roles, names);
  r.key = key;
  by_key_.emplace(std::move(key), id);
  return id;
}

void Requests::release(RequestId id) {
  if (id == kNoId || --at(id).users > 0) return;
  if (at(id).about_pods) --about_pods_;
  by_key_.erase(at(id).key);
  at(id) = Request{};
  free_.push_back(id);
}

void Requests::node_changed(NodeId id, const NodeSpec& spec) {
  table_.put(id, spec);
  for (Request& r : all_) {
    for (std::size_t role = 0; role < r.eligible.size(); ++role) {
      std::vector<bool>& list = r.eligible[role];
      if (list.size() <= static_cast<std::size_t>(id)) list.resize(static_cast<std::size_t>(id) + 1);
      list[static_cast<std::size_t>(id)] = would_do(spec, r.roles[role], r.avoid);
    }
  }
}

}  // namespace muster::placement
