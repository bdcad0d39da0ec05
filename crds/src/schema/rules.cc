#include "schema/rules.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "muster/crds/quantity.h"
#include "muster/crds/training_job.h"
#include "schema/cron_rule.h"
#include "types/json_text.h"

namespace muster::crds {
namespace {

bool has(const Json& self, std::string_view name) {
  return member(self, name) != nullptr;
}
std::string_view text(const Json& self, std::string_view name) {
  return text_of(member(self, name));
}
bool flag(const Json& self, std::string_view name) {
  const Json* value = member(self, name);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}
// Equal, or both absent.
bool same(const Json& self, const Json& old_self, std::string_view name) {
  const Json* a = member(self, name);
  const Json* b = member(old_self, name);
  return a == nullptr || b == nullptr ? a == b : *a == *b;
}
std::size_t size(const Json& self, std::string_view name) {
  const Json* value = member(self, name);
  return value == nullptr ? 0 : value->size();
}
bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// In thousandths, as CEL's quantity() compares: exact, for what the schemas' patterns admit.
std::int64_t milli(const Json& quantity) {
  const std::string number = quantity.is_string() ? std::string() : quantity.dump();
  const auto value = parse_quantity(quantity.is_string() ? text_of(&quantity) : number, 1000);
  return value.value_or(std::numeric_limits<std::int64_t>::max());
}

std::int64_t number(const Json& self, std::string_view name) {
  return member(self, name)->get<std::int64_t>();
}

template <class Predicate>
bool all_roles(const Json& self, Predicate predicate) {
  const Json* roles = member(self, "roles");
  return roles == nullptr || std::ranges::all_of(*roles, predicate);
}
template <class Predicate>
bool all_keys(const Json& self, Predicate predicate) {
  return std::ranges::all_of(self.items(),
                             [&](const auto& item) { return predicate(std::string_view(item.key())); });
}

bool requests_within_limits(const Json& self, const Json*) {
  const Json* requests = member(self, "requests");
  const Json* limits = member(self, "limits");
  if (requests == nullptr || limits == nullptr) return true;
  return std::ranges::all_of(requests->items(), [&](const auto& item) {
    const Json* limit = member(limits, item.key());
    return limit == nullptr || milli(item.value()) <= milli(*limit);
  });
}

// Pods of all roles, each counted by the first of the two fields that it states.
std::int64_t pods(const Json& self, std::string_view field, std::string_view or_else) {
  std::int64_t sum = 0;
  all_roles(self, [&](const Json& role) {
    const Json* replicas = has(role, field) ? member(role, field) : member(role, or_else);
    sum += replicas == nullptr ? 1 : replicas->get<std::int64_t>();
    return true;
  });
  return sum;
}

bool wish_within_bounds(const Json& self, const Json*) {
  const Json* wish = member(member(self, "elastic"), "replicas");
  if (wish == nullptr) return true;
  const auto replicas = wish->get<std::int64_t>();
  return pods(self, "minReplicas", "replicas") <= replicas &&
         replicas <= pods(self, "maxReplicas", "replicas");
}

bool replicas_within_bound(const Json& self, const Json*) {
  return pods(self, "maxReplicas", "replicas") <= kMaxPods;
}

bool first_group_divides_gang(const Json& self, const Json*) {
  const Json* groups = member(member(self, "topology"), "groups");
  if (groups == nullptr || groups->empty()) return true;
  return pods(self, "minReplicas", "replicas") % (*groups)[0].at("size").get<std::int64_t>() == 0;
}

// Of a replica of a service with roles.
std::int64_t pods_of_set(const Json& self) {
  std::int64_t sum = 0;
  all_roles(self, [&](const Json& role) {
    const std::int64_t groups = has(role, "replicas") ? number(role, "replicas") : 1;
    sum += groups * (has(role, "groupSize") ? number(role, "groupSize") : 1);
    return true;
  });
  return sum;
}

bool first_group_divides(const Json& self, std::int64_t pods_of_replica) {
  const Json* groups = member(member(self, "topology"), "groups");
  return groups == nullptr || groups->empty() || pods_of_replica % number((*groups)[0], "size") == 0;
}

bool one_role_at_most_has_traffic(const Json& self, const Json*) {
  int n = 0;
  all_roles(self, [&](const Json& role) {
    n += flag(role, "traffic") ? 1 : 0;
    return true;
  });
  return n <= 1;
}

bool groups_divide_each_other(const Json& self, const Json*) {
  const Json* groups = member(self, "groups");
  if (groups == nullptr) return true;
  for (std::size_t i = 1; i < groups->size(); ++i) {
    const auto coarse = (*groups)[i - 1].at("size").get<std::int64_t>();
    if (coarse % (*groups)[i].at("size").get<std::int64_t>() != 0) return false;
  }
  return true;
}

bool colocated_roles_exist(const Json& self, const Json*) {
  return all_roles(self, [&](const Json& role) {
    if (!has(role, "colocateWith")) return true;
    const auto wanted = text(role, "colocateWith");
    return wanted != text(role, "name") &&
           !all_roles(self, [&](const Json& other) { return text(other, "name") != wanted; });
  });
}

bool gpus_stated_in_one_way(const Json& self, const Json*) {
  const int ways = (has(self, "count") && !has(self, "mig") ? 1 : 0) + (has(self, "fraction") ? 1 : 0) +
                   (has(self, "memory") ? 1 : 0) + (has(self, "mig") ? 1 : 0);
  return ways == 1;
}

bool memory_limit_above_memory(const Json& self, const Json*) {
  if (!has(self, "memoryLimit")) return true;
  return has(self, "memory") && milli(*member(self, "memoryLimit")) >= milli(*member(self, "memory"));
}

bool completion_role_exists(const Json& self, const Json*) {
  const Json* completion = member(self, "completion");
  if (completion == nullptr || !has(*completion, "role")) return true;
  return !all_roles(self, [&](const Json& role) { return text(role, "name") != text(*completion, "role"); });
}

bool exposes_each_port_once(const Json& self, const Json*) {
  const Json* all = member(self, "expose");
  if (all == nullptr) return true;
  return std::ranges::all_of(*all, [&](const Json& one) {
    return std::ranges::count_if(*all, [&](const Json& other) { return same(one, other, "port"); }) == 1;
  });
}

bool grace_period_stated_once(const Json& self, const Json*) {
  return !has(self, "checkpoint") || all_roles(self, [](const Json& role) {
    const Json* spec = member(member(role, "template"), "spec");
    return member(spec, "terminationGracePeriodSeconds") == nullptr;
  });
}

// A name, a dash and the highest index are a name too.
bool array_leaves_room_for_indexes(const Json& self, const Json*) {
  const Json* count = member(member(member(self, "spec"), "array"), "count");
  if (count == nullptr) return true;
  const auto highest = std::to_string(count->get<std::int64_t>() - 1);
  return text_of(member(member(self, "metadata"), "name")).size() + highest.size() < 40;
}

bool array_keeps_roles(const Json& self, const Json* old_self) {
  return !has(self, "array") || !has(*old_self, "array") || same(self, *old_self, "roles");
}

bool array_keeps_elastic_replicas(const Json& self, const Json* old_self) {
  const auto replicas = [](const Json& spec) {
    const Json* stated = member(member(spec, "elastic"), "replicas");
    return stated == nullptr ? 0 : stated->get<std::int64_t>();
  };
  return !has(self, "array") || !has(*old_self, "array") || replicas(self) == replicas(*old_self);
}

bool array_success_within_count(const Json& self, const Json*) {
  const Json* needed = member(member(self, "success"), "count");
  return needed == nullptr || needed->get<std::int64_t>() <= number(self, "count");
}

bool project_keeps_namespace(const Json& self, const Json* old_self) {
  return text_of(member(member(self, "namespace"), "name")) ==
         text_of(member(member(*old_self, "namespace"), "name"));
}

bool default_class_is_allowed(const Json& self, const Json*) {
  const Json* allowed = member(self, "allowedPriorityClasses");
  const Json* name = member(member(self, "defaults"), "priorityClassName");
  return name == nullptr || allowed == nullptr || std::ranges::find(*allowed, *name) != allowed->end();
}

// As Kubernetes has it of a label's value, which is not empty here.
bool is_label_value(std::string_view text) {
  const auto is_alnum = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !text.empty() && text.size() <= 63 && is_alnum(text.front()) && is_alnum(text.back()) &&
         std::ranges::all_of(text, [&](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool models_within_gpus(const Json& self, const Json*) {
  const Json* models = member(self, "models");
  if (models == nullptr) return true;
  const Json* gpus = member(self, "gpu");
  return std::ranges::all_of(models->items(), [&](const auto& item) {
    return gpus != nullptr && milli(item.value()) <= milli(*gpus);
  });
}

bool queue_is_not_its_own_parent(const Json& self, const Json*) {
  const Json* parent = member(member(self, "spec"), "parent");
  return parent == nullptr || text_of(parent) != text_of(member(member(self, "metadata"), "name"));
}

bool job_depends_on_others_only(const Json& self, const Json*) {
  const Json* others = member(member(self, "spec"), "dependsOn");
  if (others == nullptr) return true;
  const auto name = text_of(member(member(self, "metadata"), "name"));
  return std::ranges::none_of(*others, [&](const Json& other) { return text(other, "name") == name; });
}

using J = const Json&;
using P = const Json*;
constexpr RuleTwin kTwins[] = {
    // Any duration that must not be zero.
    {"self.matches('[1-9]')",
     [](J self, P) { return text_of(&self).find_first_of("123456789") != std::string_view::npos; }},

    // Queue, Project, NodePool.
    {kCronRule, is_cron},
    {"!has(self.spec.parent) || self.spec.parent != self.metadata.name", queue_is_not_its_own_parent},
    {"(has(self.__namespace__) ? self.__namespace__.name : '') == "
     "(has(oldSelf.__namespace__) ? oldSelf.__namespace__.name : '')",
     project_keeps_namespace},
    {"!has(self.network) || has(self.isolateNetwork) && self.isolateNetwork",
     [](J self, P) { return !has(self, "network") || flag(self, "isolateNetwork"); }},
    {"!has(self.defaultPool) || !has(self.allowedPools) || self.defaultPool in self.allowedPools",
     [](J self, P) {
       const Json* allowed = member(self, "allowedPools");
       const Json* pool = member(self, "defaultPool");
       return pool == nullptr || allowed == nullptr || std::ranges::find(*allowed, *pool) != allowed->end();
     }},
    {"self.all(name, !(name in ['gpu', 'cpu', 'memory', 'pods']))",
     [](J self, P) {
       return all_keys(
           self, [](std::string_view key) { return !is_one_of(key, {"gpu", "cpu", "memory", "pods"}); });
     }},
    {"self.all(name, name.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
     [](J self, P) { return all_keys(self, is_label_value); }},
    {"!has(self.models) || self.models.all(name, has(self.gpu) && "
     "quantity(string(self.models[name])).compareTo(quantity(string(self.gpu))) <= 0)",
     models_within_gpus},
    {"!has(self.defaults) || !has(self.defaults.priorityClassName) || !has(self.allowedPriorityClasses) || "
     "self.defaults.priorityClassName in self.allowedPriorityClasses",
     default_class_is_allowed},
    {"has(self.requiredAboveGPUs) || has(self.requiredAboveRuntime)",
     [](J self, P) { return has(self, "requiredAboveGPUs") || has(self, "requiredAboveRuntime"); }},
    {"(self.kind == 'ServiceAccount') == has(self.__namespace__)",
     [](J self, P) { return (text(self, "kind") == "ServiceAccount") == has(self, "namespace"); }},
    {"has(self.name) != has(self.ingressClassName)",
     [](J self, P) { return has(self, "name") != has(self, "ingressClassName"); }},
    {"has(self.name) == has(self.__namespace__)",
     [](J self, P) { return has(self, "name") == has(self, "namespace"); }},
    {"self.gpuResource == oldSelf.gpuResource",
     [](J self, P old) { return same(self, *old, "gpuResource"); }},
    {"!has(self.sharing) || !has(self.sharing.enforcement) || self.gpuResource.startsWith('nvidia.com/') && "
     "self.sharing.mode in ['Fraction', 'TimeSlicing']",
     [](J self, P) {
       const Json* s = member(self, "sharing");
       return s == nullptr || !has(*s, "enforcement") ||
              (text(self, "gpuResource").starts_with("nvidia.com/") &&
               is_one_of(text(*s, "mode"), {"Fraction", "TimeSlicing"}));
     }},
    {"self.operator in ['Exists', 'DoesNotExist'] || (has(self.values) && size(self.values) > 0)",
     [](J self, P) {
       return is_one_of(text(self, "operator"), {"Exists", "DoesNotExist"}) || size(self, "values") > 0;
     }},
    {"self.operator in ['In', 'NotIn'] || !has(self.values) || size(self.values) == 0",
     [](J self, P) {
       return is_one_of(text(self, "operator"), {"In", "NotIn"}) || size(self, "values") == 0;
     }},

    // TrainingJob.
    {"!has(self.spec.dependsOn) || self.spec.dependsOn.all(other, other.name != self.metadata.name)",
     job_depends_on_others_only},
    {"self.mode == oldSelf.mode", [](J self, P old) { return same(self, *old, "mode"); }},
    {"self.mode != 'Interactive' || !has(self.preemptible) || !self.preemptible",
     [](J self, P) { return text(self, "mode") != "Interactive" || !flag(self, "preemptible"); }},
    {"self.roles.map(role, has(role.maxReplicas) ? role.maxReplicas : has(role.replicas) ? role.replicas : "
     "1).sum() <= 10000",
     replicas_within_bound},
    {"!has(self.elastic) || !has(self.elastic.replicas) || "
     "self.roles.map(role, has(role.minReplicas) ? role.minReplicas : has(role.replicas) ? role.replicas : "
     "1).sum() <= self.elastic.replicas && self.elastic.replicas <= "
     "self.roles.map(role, has(role.maxReplicas) ? role.maxReplicas : has(role.replicas) ? role.replicas : "
     "1).sum()",
     wish_within_bounds},
    {"self.roles.all(role, !has(role.colocateWith) || role.colocateWith != role.name && "
     "self.roles.exists(other, other.name == role.colocateWith))",
     colocated_roles_exist},
    {"!has(self.topology) || !has(self.topology.groups) || size(self.topology.groups) == 0 || "
     "self.roles.map(role, has(role.minReplicas) ? role.minReplicas : has(role.replicas) ? role.replicas : "
     "1).sum() % self.topology.groups[0].size == 0",
     first_group_divides_gang},
    {"!has(self.groups) || size(self.groups) < 2 || self.groups[0].size % self.groups[1].size == 0 && "
     "(size(self.groups) < 3 || self.groups[1].size % self.groups[2].size == 0)",
     groups_divide_each_other},
    {"!has(self.replicas) || !has(self.minReplicas) && !has(self.maxReplicas)",
     [](J self, P) {
       return !has(self, "replicas") || (!has(self, "minReplicas") && !has(self, "maxReplicas"));
     }},
    {"has(self.minReplicas) == has(self.maxReplicas)",
     [](J self, P) { return has(self, "minReplicas") == has(self, "maxReplicas"); }},
    {"!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
     [](J self, P) {
       return !has(self, "minReplicas") || !has(self, "maxReplicas") ||
              number(self, "minReplicas") <= number(self, "maxReplicas");
     }},

    // GPUs of a pod.
    {"(has(self.count) && !has(self.mig) ? 1 : 0) + (has(self.fraction) ? 1 : 0) + (has(self.memory) ? 1 : "
     "0) + (has(self.mig) ? 1 : 0) == 1",
     gpus_stated_in_one_way},
    {"!has(self.devices) || has(self.fraction) || has(self.memory)",
     [](J self, P) { return !has(self, "devices") || has(self, "fraction") || has(self, "memory"); }},
    {"!has(self.memoryLimit) || has(self.memory) && "
     "quantity(string(self.memoryLimit)).compareTo(quantity(string(self.memory))) >= 0",
     memory_limit_above_memory},
    {"!has(self.onMemoryPressure) || has(self.memory)",
     [](J self, P) { return !has(self, "onMemoryPressure") || has(self, "memory"); }},
    {"!has(self.overcommit) || has(self.memory)",
     [](J self, P) { return !has(self, "overcommit") || has(self, "memory"); }},

    {"!has(self.completion.role) || self.roles.exists(role, role.name == self.completion.role)",
     completion_role_exists},
    {"self.framework != 'TensorFlow' || self.roles.all(role, role.name in "
     "['chief', 'master', 'worker', 'ps', 'evaluator'])",
     [](J self, P) {
       return text(self, "framework") != "TensorFlow" || all_roles(self, [](J role) {
                return is_one_of(text(role, "name"), {"chief", "master", "worker", "ps", "evaluator"});
              });
     }},
    {"!has(self.checkpoint) || self.roles.all(role, !has(role.template.spec.terminationGracePeriodSeconds))",
     grace_period_stated_once},
    {"!has(self.expose) || self.expose.all(one, self.expose.exists_one(other, other.port == one.port))",
     exposes_each_port_once},
    {"!has(self.idle) || !has(self.idle.activityPath) || has(self.expose) && size(self.expose) > 0",
     [](J self, P) {
       return member(member(self, "idle"), "activityPath") == nullptr || size(self, "expose") > 0;
     }},
    {"has(self.claimName) == has(self.mountPath)",
     [](J self, P) { return has(self, "claimName") == has(self, "mountPath"); }},

    // Arrays.
    {"!has(self.spec.array) || size(self.metadata.name) + size(string(self.spec.array.count - 1)) < 40",
     array_leaves_room_for_indexes},
    {"has(self.array) == has(oldSelf.array)",
     [](J self, P old) { return has(self, "array") == has(*old, "array"); }},
    {"!has(self.array) || !has(oldSelf.array) || self.roles == oldSelf.roles", array_keeps_roles},
    {"!has(self.array) || !has(oldSelf.array) || "
     "(has(self.elastic) && has(self.elastic.replicas) ? self.elastic.replicas : 0) == "
     "(has(oldSelf.elastic) && has(oldSelf.elastic.replicas) ? oldSelf.elastic.replicas : 0)",
     array_keeps_elastic_replicas},
    {"!has(self.array) || !has(self.expose) || size(self.expose) == 0",
     [](J self, P) { return !has(self, "array") || size(self, "expose") == 0; }},
    {"self.mode != 'Interactive' || !has(self.array)",
     [](J self, P) { return text(self, "mode") != "Interactive" || !has(self, "array"); }},
    {"self.count == oldSelf.count", [](J self, P old) { return same(self, *old, "count"); }},
    {"has(self.parameters) == has(oldSelf.parameters) && "
     "(!has(self.parameters) || self.parameters == oldSelf.parameters)",
     [](J self, P old) { return same(self, *old, "parameters"); }},
    {"!has(self.parameters) || size(self.parameters) == self.count",
     [](J self, P) {
       return !has(self, "parameters") ||
              static_cast<std::int64_t>(size(self, "parameters")) == number(self, "count");
     }},
    {"!has(self.parameters) || !has(self.parametersFrom)",
     [](J self, P) { return !has(self, "parameters") || !has(self, "parametersFrom"); }},
    {"has(self.parametersFrom) == has(oldSelf.parametersFrom) && (!has(self.parametersFrom) || "
     "self.parametersFrom == oldSelf.parametersFrom)",
     [](J self, P old) { return same(self, *old, "parametersFrom"); }},
    {"!has(self.parallelism) || self.parallelism <= self.count",
     [](J self, P) {
       return !has(self, "parallelism") || number(self, "parallelism") <= number(self, "count");
     }},
    {"self.failures != 'Stop' || !has(self.maxFailures)",
     [](J self, P) { return text(self, "failures") != "Stop" || !has(self, "maxFailures"); }},
    {"!has(self.success.count) || self.success.count <= self.count", array_success_within_count},
    {"has(self.count) == (self.policy == 'AtLeast')",
     [](J self, P) { return has(self, "count") == (text(self, "policy") == "AtLeast"); }},

    // InferenceService.
    {"has(self.roles) || !has(self.topology) || !has(self.topology.groups) || "
     "size(self.topology.groups) == 0 || "
     "(has(self.groupSize) ? self.groupSize : 1) % self.topology.groups[0].size == 0",
     [](J self, P) {
       const std::int64_t pods_of_one = has(self, "groupSize") ? number(self, "groupSize") : 1;
       return has(self, "roles") || first_group_divides(self, pods_of_one);
     }},
    {"!has(self.roles) || !has(self.topology) || !has(self.topology.groups) || "
     "size(self.topology.groups) == 0 || self.roles.map(role, (has(role.replicas) ? role.replicas : 1) * "
     "(has(role.groupSize) ? role.groupSize : 1)).sum() % self.topology.groups[0].size == 0",
     [](J self, P) { return !has(self, "roles") || first_group_divides(self, pods_of_set(self)); }},
    {"has(self.template) || has(self.roles)",
     [](J self, P) { return has(self, "template") || has(self, "roles"); }},
    {"!has(self.template) || !has(self.roles)",
     [](J self, P) { return !has(self, "template") || !has(self, "roles"); }},
    {"!has(self.gpus) || !has(self.roles)",
     [](J self, P) { return !has(self, "gpus") || !has(self, "roles"); }},
    {"!has(self.groupSize) || self.groupSize == 1 || !has(self.roles)",
     [](J self, P) {
       return !has(self, "groupSize") || number(self, "groupSize") == 1 || !has(self, "roles");
     }},
    {"has(self.roles) == has(oldSelf.roles)",
     [](J self, P old) { return has(self, "roles") == has(*old, "roles"); }},
    {"!has(self.roles) || self.roles.map(role, (has(role.replicas) ? role.replicas : 1) * "
     "(has(role.groupSize) ? role.groupSize : 1)).sum() <= 10000",
     [](J self, P) { return pods_of_set(self) <= kMaxPods; }},
    {"!has(self.roles) || self.roles.filter(role, has(role.traffic) && role.traffic).size() <= 1",
     one_role_at_most_has_traffic},
    {"!has(self.guaranteedReplicas) || has(self.preemptible) && self.preemptible",
     [](J self, P) { return !has(self, "guaranteedReplicas") || flag(self, "preemptible"); }},
    {"!has(self.scaleToZeroAfter) || has(self.minReplicas) && self.minReplicas == 0",
     [](J self, P) {
       return !has(self, "scaleToZeroAfter") ||
              (has(self, "minReplicas") && number(self, "minReplicas") == 0);
     }},
    {"has(self.target) || !has(self.metric)",
     [](J self, P) { return has(self, "target") || !has(self, "metric"); }},
    {"has(self.metric) || !has(self.target)",
     [](J self, P) { return has(self, "metric") || !has(self, "target"); }},
    {"has(self.metric) || has(self.metrics)",
     [](J self, P) { return has(self, "metric") || has(self, "metrics"); }},
    {"has(self.metric) != has(self.name)",
     [](J self, P) { return has(self, "metric") != has(self, "name"); }},
    {"!has(self.labels) || has(self.name)",
     [](J self, P) { return !has(self, "labels") || has(self, "name"); }},
    {"!has(self.schedules) || self.schedules.all(one, one.minReplicas <= self.maxReplicas)",
     [](J self, P) {
       const Json* all = member(self, "schedules");
       return all == nullptr || std::ranges::all_of(*all, [&](J one) {
                return number(one, "minReplicas") <= number(self, "maxReplicas");
              });
     }},
    {"(has(self.maxSurge) ? self.maxSurge : 1) + (has(self.maxUnavailable) ? self.maxUnavailable : 0) > 0",
     [](J self, P) {
       const std::int64_t surge = has(self, "maxSurge") ? number(self, "maxSurge") : 1;
       return surge + (has(self, "maxUnavailable") ? number(self, "maxUnavailable") : 0) > 0;
     }},
    {"has(self.percent) != has(self.steps)",
     [](J self, P) { return has(self, "percent") != has(self, "steps"); }},
    {"!has(self.promotedRevision) || !has(self.abortedRevision) || self.promotedRevision != "
     "self.abortedRevision",
     [](J self, P) {
       return !has(self, "promotedRevision") || !has(self, "abortedRevision") ||
              self.at("promotedRevision") != self.at("abortedRevision");
     }},

    // Pod templates.
    {"!has(self.nodeName)", [](J self, P) { return !has(self, "nodeName"); }},
    {"!has(self.hostname)", [](J self, P) { return !has(self, "hostname"); }},
    {"!has(self.subdomain)", [](J self, P) { return !has(self, "subdomain"); }},
    {"!has(self.schedulerName)", [](J self, P) { return !has(self, "schedulerName"); }},
    {"!has(self.priorityClassName)", [](J self, P) { return !has(self, "priorityClassName"); }},
    {"!self.name.startsWith('MUSTER_')",
     [](J self, P) { return !text(self, "name").starts_with("MUSTER_"); }},
    {"!self.name.startsWith('muster-')",
     [](J self, P) { return !text(self, "name").starts_with("muster-"); }},
    {"self.all(key, !key.startsWith('muster.dev/'))",
     [](J self, P) {
       return all_keys(self, [](std::string_view key) { return !key.starts_with("muster.dev/"); });
     }},
    {"self.all(name, !name.endsWith('/gpu') && !name.startsWith('nvidia.com/mig-'))",
     [](J self, P) {
       return all_keys(self, [](std::string_view key) {
         return !key.ends_with("/gpu") && !key.starts_with("nvidia.com/mig-");
       });
     }},
    {"!('cpu' in self) || quantity(string(self['cpu'])).compareTo(quantity('1M')) <= 0",
     [](J self, P) { return !has(self, "cpu") || milli(*member(self, "cpu")) <= 1'000'000'000; }},
    {"!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) || "
     "quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
     requests_within_limits},
};

}  // namespace

std::span<const RuleTwin> rule_twins() {
  return kTwins;
}

const RuleTwin* find_twin(std::string_view cel) {
  static const auto& by_text = *new std::unordered_map<std::string_view, const RuleTwin*>([] {
    std::unordered_map<std::string_view, const RuleTwin*> map;
    for (const RuleTwin& twin : kTwins) map.emplace(twin.cel, &twin);
    return map;
  }());
  const auto it = by_text.find(cel);
  return it == by_text.end() ? nullptr : it->second;
}

}  // namespace muster::crds
