#include "muster/reconcilers/pods/requests.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "muster/common/saturating.h"
#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/rendezvous.h"
#include "pods/template/aligned.h"
#include "pods/template/node_terms.h"

namespace muster::reconcilers {
namespace {

using crds::Result;

// By resource, as far as it is stated: cpu in thousandths, what has a size in bytes, the rest in whole units.
using Stated = placement::NamedAmounts;

std::string quantity_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? value.dump() : std::string();
}

constexpr std::string_view kHugePages = "hugepages-";

bool counts_gpus(std::string_view resource) {
  return resource.ends_with("/gpu") || resource.starts_with(kMigPrefix);
}
bool is_extended(std::string_view resource) {
  return resource.contains('/');
}
bool is_known(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource == "ephemeral-storage" ||
         resource.starts_with(kHugePages) || is_extended(resource);
}

// Kubernetes counts extended resources in whole numbers, and huge pages in pages.
std::optional<std::string> problem_of_amount(const std::string& resource, const std::string& text,
                                             std::int64_t amount) {
  if (is_extended(resource) && crds::parse_quantity(text, 1000).value_or(0) % 1000 != 0)
    return "must be a whole number, is " + text;
  if (!resource.starts_with(kHugePages)) return std::nullopt;
  const auto page = crds::parse_quantity(resource.substr(kHugePages.size()), 1);
  if (!page || *page == 0) return "must name the size of its pages, as in hugepages-2Mi";
  if (amount % *page != 0) return "must be a multiple of the size of a page, is " + text;
  return std::nullopt;
}

Result<Stated> read_list(const Json* list, const std::string& field) {
  Stated stated;
  if (list == nullptr) return stated;
  if (!list->is_object()) return wrong(field, "must be an object of quantities");
  for (const auto& [name, value] : list->items()) {
    if (counts_gpus(name) || !is_known(name)) {
      return wrong(field,
                   "must state cpu, memory, ephemeral-storage, hugepages-<size> and extended resources such "
                   "as rdma/hca only, has " +
                       name + "; GPUs are asked for with gpus");
    }
    const std::string text = quantity_text(value);
    const auto amount = crds::parse_quantity(text, name == "cpu" ? 1000 : 1);
    if (!amount) return wrong(field + "." + name, amount.error());
    if (const auto problem = problem_of_amount(name, text, *amount))
      return wrong(field + "." + name, *problem);
    stated[name] = *amount;
  }
  return stated;
}

// What one container asks for: a limit without a request is a request.
Result<Stated> read_container(const Json& container, const std::string& field) {
  const Json* resources = find(container, "resources");
  const std::string at = field + ".resources.requests";
  auto requests = read_list(find(resources, "requests"), at);
  if (!requests) return requests;
  const auto limits = read_list(find(resources, "limits"), field + ".resources.limits");
  if (!limits) return limits;
  for (const auto& [name, amount] : *requests) {
    const bool never_more = is_extended(name) || name.starts_with(kHugePages);
    const auto limit = limits->find(name);
    if (never_more && (limit == limits->end() || limit->second != amount))
      return wrong(at + "." + name,
                   "must equal the limit: of " + name + " no container gets more than it asks for");
  }
  requests->insert(limits->begin(), limits->end());
  return requests;
}

// Sums that stop at the largest number: such a pod fits nowhere, whatever the exact sum.
Stated sum(Stated a, const Stated& b) {
  for (const auto& [name, amount] : b) {
    std::int64_t& ours = a[name];
    ours = common::saturating_add(ours, amount);
  }
  return a;
}
Stated max(Stated a, const Stated& b) {
  for (const auto& [name, amount] : b) {
    std::int64_t& ours = a[name];
    ours = std::max(ours, amount);
  }
  return a;
}

// Kubernetes' rule (KEP-753): sidecars run beside everything that starts after them.
Result<Stated> aggregate(const Json& spec, const std::string& field) {
  Stated running;
  std::size_t i = 0;
  for (const Json& container : items(find(spec, "containers"))) {
    const auto one = read_container(container, field + ".containers[" + std::to_string(i++) + "]");
    if (!one) return one;
    running = sum(running, *one);
  }
  Stated sidecars;
  Stated starting;
  i = 0;
  for (const Json& container : items(find(spec, "initContainers"))) {
    const auto one = read_container(container, field + ".initContainers[" + std::to_string(i++) + "]");
    if (!one) return one;
    const Stated at_once = sum(*one, sidecars);
    starting = max(starting, at_once);
    if (text(find(container, "restartPolicy")) == "Always") {
      sidecars = at_once;
      running = sum(running, *one);
    }
  }
  return max(running, starting);
}

// Template fields under which Muster's placement could not keep its word.
struct Unsupported {
  std::string_view field;
  std::string_view why;
};
constexpr std::array kUnsupported = {
    Unsupported{"nodeName", "must not be set: Muster chooses the node"},
    Unsupported{"schedulerName", "must not be set: Muster places these pods itself"},
    Unsupported{"hostname", "must not be set: Muster gives every pod its name"},
    Unsupported{"subdomain", "must not be set: Muster gives every pod its name"},
    Unsupported{"schedulingGates", "must not be set: a gang starts whole when Muster places it"},
    Unsupported{"resourceClaims", "must not be set: Muster does not allocate ResourceClaims"},
};

bool is_empty(const Json& value) {
  return value.empty() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

std::optional<crds::FieldError> ports_of_the_node(const Json& spec, const std::string& field) {
  if (!is_true(find(spec, "hostNetwork"))) return std::nullopt;
  for (const char* list : {"initContainers", "containers"}) {
    std::size_t i = 0;
    for (const Json& container : items(find(spec, list))) {
      const std::string at = field + "." + list + "[" + std::to_string(i++) + "].ports";
      if (items(find(container, "ports")).empty()) continue;
      return wrong(at,
                   "must be left out under hostNetwork, where each would be a port of the node, which "
                   "Muster does not share out")
          .error();
    }
  }
  return std::nullopt;
}

std::optional<crds::FieldError> unsupported(const Json& spec, const std::string& field) {
  for (const auto& [name, why] : kUnsupported) {
    const Json* value = find(spec, name);
    if (value != nullptr && !is_empty(*value))
      return wrong(field + "." + std::string(name), std::string(why)).error();
  }
  return ports_of_the_node(spec, field);
}

Result<std::vector<Toleration>> read_tolerations(const Json& spec, const std::string& field) {
  std::vector<Toleration> all;
  for (const Json& item : items(find(spec, "tolerations"))) {
    const std::string at = field + ".tolerations[" + std::to_string(all.size()) + "]";
    Toleration t;
    t.key = text(find(item, "key"));
    t.value = text(find(item, "value"));
    t.effect = text(find(item, "effect"));
    const std::string op = text(find(item, "operator"));
    t.exists = op == "Exists";
    if (!op.empty() && op != "Exists" && op != "Equal")
      return wrong(at + ".operator", "must be Exists or Equal");
    if (t.key.empty() && !t.exists) return wrong(at + ".operator", "must be Exists when key is left out");
    if (t.exists && !t.value.empty()) return wrong(at + ".value", "must be left out when operator is Exists");
    all.push_back(std::move(t));
  }
  return all;
}

Result<std::vector<PreferredTerm>> read_preferred(const Json* list, const std::string& field) {
  std::vector<PreferredTerm> all;
  for (const Json& item : items(list)) {
    const std::string at = field + "[" + std::to_string(all.size()) + "]";
    const Json* weight = find(item, "weight");
    if (weight == nullptr || !weight->is_number_integer() || *weight < 1 || *weight > 100) {
      return wrong(at + ".weight", "must be an integer from 1 to 100");
    }
    const Json* preference = find(item, "preference");
    if (preference == nullptr) return wrong(at + ".preference", "is required");
    auto term = read_node_term(*preference, at + ".preference");
    if (!term) return std::unexpected(term.error());
    all.push_back({weight->get<std::int32_t>(), std::move(*term)});
  }
  return all;
}

Result<crds::StringMap> read_strings(const Json* object, const std::string& field) {
  crds::StringMap all;
  if (object == nullptr) return all;
  if (!object->is_object()) return wrong(field, "must be an object of strings");
  for (const auto& [key, value] : object->items()) {
    if (!value.is_string()) return wrong(field + "." + key, "must be a string");
    all.emplace(key, value.get<std::string>());
  }
  return all;
}

// Pods are counted by the labels that all pods of a role have in common.
constexpr std::array kOfSinglePods = {kIndexLabel, kAttemptLabel, kTryLabel,
                                      kGroupLabel, kWorkerLabel,  kTrafficLabel};

// Which pods a term or constraint is about. `of`: the term. `labels`: those of the pod that has it; as in
// Kubernetes, a key that it does not have plays no part.
Result<std::vector<NodeRequirement>> read_pod_selector(const Json& of, const crds::StringMap& labels,
                                                       const std::string& field) {
  const Json* stated = find(of, "labelSelector");
  auto selector = read_label_selector(stated, field + ".labelSelector");
  if (!selector) return selector;
  // Kubernetes would take every pod, also one without labels.
  if (stated != nullptr && selector->empty())
    return wrong(field + ".labelSelector", "must have at least one label or expression");
  for (const auto& [list, op] : {std::pair{"matchLabelKeys", NodeOperator::kIn},
                                 std::pair{"mismatchLabelKeys", NodeOperator::kNotIn}}) {
    if (stated == nullptr && !items(find(of, list)).empty())
      return wrong(field + "." + list, "must be left out where labelSelector is");
    for (const Json& key : items(find(of, list))) {
      const auto own = labels.find(text(&key));
      if (own != labels.end()) selector->push_back({own->first, op, {own->second}});
    }
  }
  for (const NodeRequirement& r : *selector) {
    if (std::ranges::find(kOfSinglePods, r.key) != kOfSinglePods.end())
      return wrong(field + ".labelSelector", "must not select by " + r.key + "; " + std::string(kJobLabel) +
                                                 " and " + std::string(kRoleLabel) +
                                                 " are known before pods are made");
  }
  return selector;
}

Result<placement::PodTerm> read_pod_term(const Json& term, const crds::StringMap& labels,
                                         const std::string& field) {
  placement::PodTerm out;
  auto selector = read_pod_selector(term, labels, field);
  if (!selector) return std::unexpected(selector.error());
  out.selector = std::move(*selector);
  if (find(term, "namespaceSelector") != nullptr)
    return wrong(field + ".namespaceSelector", "must be left out: name the namespaces in namespaces");
  for (const Json& ns : items(find(term, "namespaces"))) out.namespaces.push_back(text(&ns));
  out.topology_key = text(find(term, "topologyKey"));
  if (out.topology_key.empty()) return wrong(field + ".topologyKey", "is required");
  return out;
}

// `sign`: 1 for affinity, -1 for anti-affinity.
std::optional<crds::FieldError> read_pod_affinity(const Json* affinity, const std::string& field, int sign,
                                                  std::vector<placement::PodTerm>& required,
                                                  PodNeeds& needs) {
  std::string at = field + ".requiredDuringSchedulingIgnoredDuringExecution[";
  std::size_t i = 0;
  for (const Json& item : items(find(affinity, "requiredDuringSchedulingIgnoredDuringExecution"))) {
    auto term = read_pod_term(item, needs.labels, at + std::to_string(i++) + "]");
    if (!term) return term.error();
    required.push_back(std::move(*term));
  }
  at = field + ".preferredDuringSchedulingIgnoredDuringExecution[";
  i = 0;
  for (const Json& item : items(find(affinity, "preferredDuringSchedulingIgnoredDuringExecution"))) {
    const std::string one = at + std::to_string(i++) + "]";
    const Json* weight = find(item, "weight");
    if (weight == nullptr || !weight->is_number_integer() || *weight < 1 || *weight > 100)
      return wrong(one + ".weight", "must be an integer from 1 to 100").error();
    const Json* stated = find(item, "podAffinityTerm");
    if (stated == nullptr) return wrong(one + ".podAffinityTerm", "is required").error();
    auto term = read_pod_term(*stated, needs.labels, one + ".podAffinityTerm");
    if (!term) return term.error();
    needs.preferred_pods.emplace_back(sign * weight->get<std::int64_t>(), std::move(*term));
  }
  return std::nullopt;
}

std::optional<crds::FieldError> read_spread(const Json& spec, const std::string& field, PodNeeds& needs) {
  for (const Json& item : items(find(spec, "topologySpreadConstraints"))) {
    const std::string at = field + ".topologySpreadConstraints[" + std::to_string(needs.spread.size()) + "]";
    placement::SpreadConstraint c;
    const Json* skew = find(item, "maxSkew");
    if (skew == nullptr || !skew->is_number_integer() || *skew < 1 || *skew > 10'000)
      return wrong(at + ".maxSkew", "must be an integer from 1 to 10000").error();
    c.max_skew = skew->get<std::int32_t>();
    if (const Json* domains = find(item, "minDomains"); domains != nullptr && domains->is_number_integer())
      c.min_domains =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(domains->get<std::int64_t>(), 0, 10'000));
    c.topology_key = text(find(item, "topologyKey"));
    if (c.topology_key.empty()) return wrong(at + ".topologyKey", "is required").error();
    const std::string otherwise = text(find(item, "whenUnsatisfiable"));
    if (otherwise != "DoNotSchedule" && otherwise != "ScheduleAnyway")
      return wrong(at + ".whenUnsatisfiable", "must be DoNotSchedule or ScheduleAnyway").error();
    c.required = otherwise == "DoNotSchedule";
    if (text(find(item, "nodeAffinityPolicy")) == "Ignore")
      return wrong(at + ".nodeAffinityPolicy", "must be Honor or left out").error();
    if (text(find(item, "nodeTaintsPolicy")) == "Honor")
      return wrong(at + ".nodeTaintsPolicy", "must be Ignore or left out").error();
    auto selector = read_pod_selector(item, needs.labels, at);
    if (!selector) return selector.error();
    c.selector = std::move(*selector);
    needs.spread.push_back(std::move(c));
  }
  return std::nullopt;
}

placement::GpuShare share_of(const crds::Gpus& gpus) {
  using Kind = placement::GpuShare::Kind;
  placement::GpuShare share;
  if (gpus.fraction) {
    share.kind = Kind::kFraction;
    share.milli = placement::MilliGpu{gpus.fraction->value};
  } else if (gpus.memory) {
    share.kind = Kind::kMemory;
    share.memory = placement::Bytes{gpus.memory->value};
    if (gpus.memory_limit) share.memory_limit = placement::Bytes{gpus.memory_limit->value};
    // Saying what happens under pressure is the consent to it.
    share.overcommit = gpus.overcommit || gpus.on_memory_pressure;
  } else if (!gpus.mig.empty()) {
    share.kind = Kind::kMig;
    share.profile = gpus.mig;
  }
  return share;
}

}  // namespace

Result<PodRequests> effective_requests(const Json& pod_template, std::string_view field) {
  const std::string at = std::string(field) + ".spec";
  const Json* spec = find(pod_template, "spec");
  if (spec == nullptr) return wrong(at, "is required");
  auto total = aggregate(*spec, at);
  if (!total) return std::unexpected(total.error());
  // KEP-2837: stated for the pod, it counts in the containers' place; a limit alone where no container
  // states anything.
  const std::string of_pod = at + ".resources.requests";
  const auto requests = read_list(find(spec, "resources", "requests"), of_pod);
  if (!requests) return std::unexpected(requests.error());
  const auto limits = read_list(find(spec, "resources", "limits"), at + ".resources.limits");
  if (!limits) return std::unexpected(limits.error());
  for (const auto* list : {&*requests, &*limits}) {
    for (const auto& [name, amount] : *list) {
      if (is_extended(name) || name == "ephemeral-storage")
        return wrong(of_pod, "must state cpu, memory and hugepages-<size> only: Kubernetes takes " + name +
                                 " of containers");
    }
  }
  for (const auto& [name, amount] : *requests) (*total)[name] = amount;
  total->insert(limits->begin(), limits->end());
  const auto overhead = read_list(find(*spec, "overhead"), at + ".overhead");
  if (!overhead) return std::unexpected(overhead.error());
  Stated all = sum(std::move(*total), *overhead);
  PodRequests asked{crds::MilliCpu{all["cpu"]}, crds::Bytes{all["memory"]}};
  std::erase_if(all, [](const auto& a) { return a.first == "cpu" || a.first == "memory" || a.second == 0; });
  asked.named = std::move(all);
  return asked;
}

Result<PodNeeds> server_needs(const Json& pod_template, const std::optional<crds::Gpus>& gpus,
                              std::string_view field, const crds::StringMap& set_labels) {
  const std::string at = std::string(field) + ".spec";
  const Json* spec = find(pod_template, "spec");
  if (spec == nullptr || !spec->is_object()) return wrong(at, "is required and must be a PodSpec");
  if (items(find(*spec, "containers")).empty())
    return wrong(at + ".containers", "must have at least one container");
  if (const auto problem = unsupported(*spec, at)) return std::unexpected(*problem);

  PodNeeds needs;
  if (gpus) {
    needs.gpus = crds::devices_of(*gpus);
    needs.share = share_of(*gpus);
    needs.numa_aligned = gpus->numa_aligned;
    needs.gpu_models = gpus->models;
  }
  needs.host_network = is_true(find(*spec, "hostNetwork"));
  needs.runtime_class = text(find(*spec, "runtimeClassName"));
  auto labels =
      read_strings(find(&pod_template, "metadata", "labels"), std::string(field) + ".metadata.labels");
  if (!labels) return std::unexpected(labels.error());
  needs.labels = std::move(*labels);
  for (const auto& [key, value] : set_labels) needs.labels.insert_or_assign(key, value);
  const auto requests = effective_requests(pod_template, field);
  if (!requests) return std::unexpected(requests.error());
  needs.requests = *requests;
  auto selector = read_strings(find(*spec, "nodeSelector"), at + ".nodeSelector");
  if (!selector) return std::unexpected(selector.error());
  needs.node_selector = std::move(*selector);
  auto tolerations = read_tolerations(*spec, at);
  if (!tolerations) return std::unexpected(tolerations.error());
  needs.tolerations = std::move(*tolerations);

  const Json* affinity = find(spec, "affinity", "nodeAffinity");
  const std::string path = at + ".affinity.nodeAffinity.";
  constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
  constexpr std::string_view kPreferred = "preferredDuringSchedulingIgnoredDuringExecution";
  if (find(affinity, kRequired) != nullptr) {
    const std::string terms_at = path + std::string(kRequired) + ".nodeSelectorTerms";
    auto terms = read_node_terms(find(affinity, kRequired, "nodeSelectorTerms"), terms_at);
    if (!terms) return std::unexpected(terms.error());
    if (terms->empty()) return wrong(terms_at, "must have at least one term");
    needs.required = std::move(*terms);
  }
  auto preferred = read_preferred(find(affinity, kPreferred), path + std::string(kPreferred));
  if (!preferred) return std::unexpected(preferred.error());
  needs.preferred = std::move(*preferred);

  const Json* between = find(*spec, "affinity");
  auto problem = read_pod_affinity(find(between, "podAffinity"), at + ".affinity.podAffinity", 1,
                                   needs.pod_affinity, needs);
  if (!problem) {
    problem = read_pod_affinity(find(between, "podAntiAffinity"), at + ".affinity.podAntiAffinity", -1,
                                needs.pod_anti_affinity, needs);
  }
  if (!problem) problem = read_spread(*spec, at, needs);
  if (!problem && needs.numa_aligned) problem = not_alignable(*spec, needs.share, std::string(field));
  if (problem) return std::unexpected(*problem);
  return needs;
}

Result<PodNeeds> pod_needs(const Json& pod_template, const std::optional<crds::Gpus>& gpus,
                           std::string_view field, const crds::StringMap& set_labels) {
  auto needs = server_needs(pod_template, gpus, field, set_labels);
  const std::string restart = text(find(&pod_template, "spec", "restartPolicy"));
  if (needs && !restart.empty() && restart != "Never") {
    return wrong(std::string(field) + ".spec.restartPolicy",
                 "must be Never or left out: Muster restarts the gang as a whole, as spec.restart says");
  }
  return needs;
}

Result<std::vector<PodNeeds>> pod_needs(const crds::TrainingJob& job) {
  std::vector<PodNeeds> all;
  for (const crds::Role& role : job.spec.roles) {
    const std::string field = "spec.roles[" + std::to_string(all.size()) + "].template";
    static const Json kNone;
    auto needs = pod_needs(role.pod_template.value ? *role.pod_template.value : kNone, role.gpus, field,
                           labels_of_pods(job, role));
    if (!needs) {
      needs.error().object = "TrainingJob " + job.metadata.ns + "/" + job.metadata.name;
      return std::unexpected(std::move(needs.error()));
    }
    all.push_back(std::move(*needs));
  }
  if (const auto problem = rendezvous_problem(job)) return std::unexpected(*problem);
  return all;
}

bool asks_for_no_gpu(const std::vector<PodNeeds>& needs) {
  return !needs.empty() && std::ranges::all_of(needs, [](const PodNeeds& n) { return n.gpus == 0; });
}

bool asks_for_parts_of_gpus(const std::vector<PodNeeds>& needs) {
  return std::ranges::any_of(
      needs, [](const PodNeeds& n) { return n.share.kind != placement::GpuShare::Kind::kWhole; });
}

namespace {

PodRequests requests_of(const crds::TrainingJobSpec& spec, const std::vector<PodNeeds>& needs,
                        const crds::PodAssignment& place) {
  const auto role = std::ranges::find(spec.roles, place.role, &crds::Role::name);
  const auto r = static_cast<std::size_t>(role - spec.roles.begin());
  return r < needs.size() ? needs[r].requests : PodRequests{};
}

}  // namespace

crds::MilliCpu cpus_of(const crds::TrainingJobSpec& spec, const std::vector<PodNeeds>& needs,
                       const crds::PodAssignment& place) {
  return requests_of(spec, needs, place).cpu;
}
crds::NamedAmounts named_of(const crds::TrainingJobSpec& spec, const std::vector<PodNeeds>& needs,
                            const crds::PodAssignment& place) {
  return requests_of(spec, needs, place).named;
}
bool asks_for_named(const std::vector<PodNeeds>& needs) {
  return std::ranges::any_of(needs, [](const PodNeeds& n) { return !n.requests.named.empty(); });
}

}  // namespace muster::reconcilers
