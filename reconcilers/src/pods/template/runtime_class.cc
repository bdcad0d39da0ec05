#include "muster/reconcilers/pods/runtime_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/common/saturating.h"
#include "muster/reconcilers/common/json_reader.h"

namespace muster::reconcilers {
namespace {

// What cannot be read is left out: the API server has judged it.
PodRequests read_overhead(const crds::Json* list) {
  PodRequests overhead;
  if (list == nullptr || !list->is_object()) return overhead;
  for (const auto& [name, value] : list->items()) {
    const std::string quantity = value.is_string() ? value.get<std::string>() : value.dump();
    const std::int64_t amount = crds::parse_quantity(quantity, name == "cpu" ? 1000 : 1).value_or(0);
    if (name == "cpu") {
      overhead.cpu.value = amount;
    } else if (name == "memory") {
      overhead.memory.value = amount;
    } else if (amount > 0) {
      overhead.named[name] = amount;
    }
  }
  return overhead;
}

std::vector<Toleration> read_tolerations(const crds::Json* list) {
  std::vector<Toleration> all;
  for (const crds::Json& item : items(list)) {
    all.push_back({.key = text(find(item, "key")),
                   .exists = text(find(item, "operator")) == "Exists",
                   .value = text(find(item, "value")),
                   .effect = text(find(item, "effect"))});
  }
  return all;
}

}  // namespace

const client::Resource kRuntimeClasses{"node.k8s.io", "v1", "runtimeclasses", false};

client::Result<RuntimeClass> decode_runtime_class(std::string_view json) {
  const auto object = read_object(json, "RuntimeClass");
  if (!object) return std::unexpected(object.error());
  RuntimeClass c;
  c.meta = meta_of(*object);
  c.overhead = read_overhead(find(&*object, "overhead", "podFixed"));
  c.tolerations = read_tolerations(find(&*object, "scheduling", "tolerations"));
  const crds::Json* selector = find(&*object, "scheduling", "nodeSelector");
  if (selector == nullptr || !selector->is_object()) return c;
  for (const auto& [key, value] : selector->items()) c.node_selector.emplace(key, text(&value));
  return c;
}

std::optional<std::string> apply(const RuntimeClass& of, PodNeeds& needs) {
  for (const auto& [key, value] : of.node_selector) {
    const auto [at, is_new] = needs.node_selector.emplace(key, value);
    if (!is_new && at->second != value) {
      return fmt::format("nodeSelector: {} must be {}, as RuntimeClass \"{}\" selects its nodes, is {}", key,
                         value, of.meta.name, at->second);
    }
  }
  needs.tolerations.insert(needs.tolerations.end(), of.tolerations.begin(), of.tolerations.end());
  PodRequests& asked = needs.requests;
  asked.cpu.value = common::saturating_add(asked.cpu.value, of.overhead.cpu.value);
  asked.memory.value = common::saturating_add(asked.memory.value, of.overhead.memory.value);
  for (const auto& [name, amount] : of.overhead.named) {
    std::int64_t& ours = asked.named[name];
    ours = common::saturating_add(ours, amount);
  }
  return std::nullopt;
}

}  // namespace muster::reconcilers
