#include <algorithm>

#include "muster/client/pod.h"
#include "objects/object_reader.h"

namespace muster::client {

using namespace reader;

namespace {

void read_metadata(Value& metadata, std::string_view annotation_prefix, Node& node) {
  each_field(metadata, [&](std::string_view key, Value& value) {
    if (read_meta_field(key, value, node.meta)) return;
    if (key == "labels") node.labels = read_pairs(value, [](std::string_view) { return true; });
    if (key == "annotations") {
      node.annotations =
          read_pairs(value, [&](std::string_view k) { return k.starts_with(annotation_prefix); });
    }
    if (key == "deletionTimestamp") node.deleting = true;
  });
}

Taint read_taint(Value& value) {
  Taint taint;
  each_field(value, [&](std::string_view key, Value& v) {
    if (key == "key") taint.key = text(v);
    if (key == "value") taint.value = text(v);
    if (key == "effect") taint.effect = text(v);
  });
  return taint;
}

void read_spec(Value& spec, Node& node) {
  each_field(spec, [&](std::string_view key, Value& value) {
    if (key == "unschedulable") node.unschedulable = value.get_bool();
    if (key == "taints") each_element(value, [&](Value& taint) { node.taints.push_back(read_taint(taint)); });
  });
}

void apply(const Condition& condition, Node& node) {
  if (condition.type != "Ready") return;
  node.ready = condition.status == "True";
  node.ready_changed_at = condition.since;
}

void read_address(Value& value, Node& node) {
  std::string type, address;
  each_field(value, [&](std::string_view key, Value& v) {
    if (key == "type") type = text(v);
    if (key == "address") address = text(v);
  });
  if (type == "InternalIP" && node.address.empty()) node.address = std::move(address);
}

void read_allocatable(Value& list, Node& node) {
  constexpr std::string_view kField = "status.allocatable";
  each_field(list, [&](std::string_view resource, Value& value) {
    if (resource == "cpu") node.milli_cpu = quantity(value, 1000, kField);
    if (resource == "memory") node.memory_bytes = quantity(value, 1, kField);
    if (resource == "pods") node.pods = quantity(value, 1, kField);
    if (!is_other_resource(resource)) return;
    const std::int64_t amount = quantity(value, 1, kField);
    // Every kubelet lists huge pages of each size, mostly none.
    if (amount > 0 || resource.contains('/')) node.extended.emplace_back(resource, amount);
  });
  std::sort(node.extended.begin(), node.extended.end());
}

}  // namespace

Result<Node> decode_node(std::string_view json, std::string_view annotation_prefix) {
  Node node;
  const auto read = read_object("node", json, node.meta, [&](simdjson::ondemand::object root) {
    each_field(root, [&](std::string_view key, Value& value) {
      if (key == "metadata") read_metadata(value, annotation_prefix, node);
      if (key == "spec") read_spec(value, node);
      if (key == "status") {
        each_field(value, [&](std::string_view part, Value& v) {
          if (part == "allocatable") read_allocatable(v, node);
          if (part == "addresses") each_element(v, [&](Value& address) { read_address(address, node); });
          if (part == "conditions")
            each_element(v, [&](Value& condition) { apply(read_condition(condition), node); });
        });
      }
    });
  });
  if (!read) return std::unexpected(read.error());
  return node;
}

}  // namespace muster::client
