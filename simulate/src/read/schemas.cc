#include "read/schemas.h"

#include <array>
#include <nlohmann/json.hpp>

#include "muster/placement/plan.h"

namespace muster::simulate {
namespace {

using crds::Json;

constexpr std::string_view kNode =
    R"({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
  "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
    "unschedulable": {"type": "boolean"},
    "taints": {"type": "array", "items": {"type": "object", "required": ["key", "effect"],
      "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "key": {"type": "string"}, "value": {"type": "string"},
        "effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]}}}}}},
  "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
    "allocatable": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
    "capacity": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
    "conditions": {"type": "array", "items": {"type": "object", "required": ["type", "status"],
      "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "type": {"type": "string"}, "status": {"type": "string", "enum": ["True", "False", "Unknown"]}}}}}}}})";

std::string pod() {
  const std::string amounts =
      R"({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}})";
  const std::string resources =
      R"({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
    "requests": )" +
      amounts + R"(, "limits": )" + amounts + "}}";
  const std::string containers = R"({"type": "array", "items": {"type": "object",
    "x-kubernetes-preserve-unknown-fields": true, "properties": {"resources": )" +
                                 resources + "}}}";
  return R"({"type": "object", "required": ["spec"],
  "x-kubernetes-preserve-unknown-fields": true, "properties": {
  "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
    "nodeName": {"type": "string"}, "resources": )" +
         resources + R"(,
    "containers": )" +
         containers + R"(, "initContainers": )" + containers + "}}}}";
}

constexpr std::string_view kPriorityClass = R"({"type": "object", "required": ["value"],
  "x-kubernetes-preserve-unknown-fields": true, "properties": {
  "value": {"type": "integer", "minimum": -2147483648, "maximum": 2147483647},
  "globalDefault": {"type": "boolean"}}})";

constexpr std::string_view kOpen = R"({"type": "object", "x-kubernetes-preserve-unknown-fields": true})";

constexpr std::string_view kResourceSlice = R"({"type": "object", "required": ["spec"],
  "x-kubernetes-preserve-unknown-fields": true, "properties": {
  "spec": {"type": "object", "required": ["driver"], "x-kubernetes-preserve-unknown-fields": true,
    "properties": {"driver": {"type": "string"}, "nodeName": {"type": "string"},
      "devices": {"type": "array", "maxItems": 1024, "items": {"type": "object", "required": ["name"],
        "x-kubernetes-preserve-unknown-fields": true, "properties": {"name": {"type": "string"},
          "attributes": {"type": "object", "additionalProperties": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true, "properties": {"string": {"type": "string"},
              "int": {"type": "integer"}, "bool": {"type": "boolean"}, "version": {"type": "string"}}}},
          "capacity": {"type": "object", "additionalProperties": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true, "required": ["value"],
            "properties": {"value": {"x-kubernetes-int-or-string": true}}}}}}}}}}})";

constexpr std::string_view kNodeTopology = R"({"type": "object", "required": ["zones"],
  "x-kubernetes-preserve-unknown-fields": true, "properties": {
  "zones": {"type": "array", "maxItems": 64, "items": {"type": "object", "required": ["name", "type"],
    "x-kubernetes-preserve-unknown-fields": true, "properties": {"name": {"type": "string"},
      "type": {"type": "string"},
      "resources": {"type": "array", "items": {"type": "object", "required": ["name"],
        "x-kubernetes-preserve-unknown-fields": true, "properties": {"name": {"type": "string"},
          "capacity": {"x-kubernetes-int-or-string": true},
          "allocatable": {"x-kubernetes-int-or-string": true}}}}}}}}})";

// Why a workload waits (of placement, and of what is refused before it), or how it ended; "": neither.
std::string reasons() {
  Json all = Json::array();
  for (int r = 0; r <= static_cast<int>(placement::Reason::kInvalidSpec); ++r)
    all.push_back(placement::to_string(static_cast<placement::Reason>(r)));
  for (const char* other :
       {"PolicyViolation", "DependencyNotComplete", "DependencyNotFound", "DependencyFailed",
        "DependencyCycle", "MaxRuntimeExceeded", "IdleTimeout", "RestartLimitExceeded", "Completed",
        "EnoughSucceeded", "IndexFailed", "MaxFailuresExceeded", "IndexesFailed"})
    all.push_back(other);
  return all.dump();
}

std::string expectation() {
  const std::string amounts =
      R"({"type": "object", "properties": {"gpu": {"x-kubernetes-int-or-string": true},
    "cpu": {"x-kubernetes-int-or-string": true}, "memory": {"x-kubernetes-int-or-string": true},
    "resources": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
    "models": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}}}})";
  const std::string count = R"({"type": "integer", "minimum": 0})";
  return R"({"type": "object", "required": ["at"], "properties": {
    "apiVersion": {"type": "string"}, "kind": {"type": "string"},
    "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    "at": {"type": "string"},
    "jobs": {"type": "object", "additionalProperties": {"type": "object", "properties": {
      "phase": {"type": "string", "enum": ["Queued", "Starting", "Resizing", "Running", "Checkpointing", "Suspended", "Succeeded", "Failed"]},
      "namespace": {"type": "string"}, "name": {"type": "string"}, "project": {"type": "string"},
      "reason": {"type": "string", "enum": )" +
         reasons() + R"(}, "message": {"type": "string"},
      "blocking": {"type": "array", "items": {"type": "object", "properties": {
        "resource": {"type": "string"}, "pool": {"type": "string"}, "need": {"x-kubernetes-int-or-string": true},
        "have": {"x-kubernetes-int-or-string": true}, "by": {"type": "array", "items": {"type": "string"}}}}},
      "gpus": {"x-kubernetes-int-or-string": true},
      "nodes": {"type": "array", "items": {"type": "string"}},
      "pods": {"type": "array", "items": {"type": "object", "properties": {
        "role": {"type": "string"}, "index": )" +
         count + R"(, "node": {"type": "string"},
        "gpus": {"type": "array", "items": )" +
         count + R"(}}}},
      "replicas": {"type": "object", "additionalProperties": )" +
         count + R"(},
      "array": {"type": "object", "properties": {
        "pending": )" +
         count + R"(, "waiting": )" + count + R"(, "running": )" + count + R"(, "succeeded": )" + count +
         R"(, "failed": )" + count + R"(, "stopped": )" + count + R"(,
        "succeededIndexes": {"type": "string"}, "failedIndexes": {"type": "string"},
        "runningIndexes": {"type": "string"}, "heldIndexes": {"type": "string"},
        "retryIndexes": {"type": "string"}, "retried": )" +
         count + R"(}},
      "estimatedStart": {"type": "string", "nullable": true},
      "estimatedStartFrom": {"type": "string", "nullable": true},
      "submitted": {"type": "string"},
      "firstStarted": {"type": "string", "nullable": true}, "finished": {"type": "string", "nullable": true},
      "position": )" +
         count + R"(, "attempt": )" + count + R"(, "readyReplicas": )" + count + R"(, "preemptions": )" +
         count + R"(, "moves": )" + count + R"(, "waitedSeconds": )" + count + R"(, "lostWorkSeconds": )" +
         count + R"(, "gpuSecondsUseful": )" + count +
         R"(, "gpuSecondsLost": {"type": "object", "additionalProperties": )" + count + R"(},
      "running": )" +
         count + R"(, "queued": )" + count + R"(, "succeeded": )" + count + R"(}}},
    "events": {"type": "object", "properties": {)" +
         [&] {
           std::string all;
           for (const char* type : {"Admitted", "Released", "Evicted", "Shrunk", "Grown", "Moved",
                                    "Restarted", "Finished", "Waiting"}) {
             all += (all.empty() ? "\"" : ", \"") + std::string(type) + "\": " + count;
           }
           return all;
         }() +
         R"(}},
    "queues": {"type": "object", "additionalProperties": {"type": "object", "properties": {
      "quota": )" +
         amounts + R"(, "fairShare": )" + amounts + R"(, "allocated": )" + amounts + R"(, "borrowed": )" +
         amounts + R"(, "pending": )" + amounts + R"(}}}}})";
}

constexpr std::string_view kCalendar = R"({"type": "object", "required": ["begin"], "properties": {
  "apiVersion": {"type": "string"}, "kind": {"type": "string"},
  "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
  "begin": {"type": "string"}}})";

struct Known {
  std::string_view group, kind;
  Json schema;
};

// "v1" is the core group; "scheduling.k8s.io/v1" is of scheduling.k8s.io.
std::string_view group_of(std::string_view api_version) {
  const std::size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

}  // namespace

const Json* schema_of(std::string_view api_version, std::string_view kind) {
  static const auto& known = *new std::array<Known, 8>{
      Known{"", "Node", Json::parse(kNode)},
      Known{"", "Pod", Json::parse(pod())},
      Known{"", "Namespace", Json::parse(kOpen)},
      Known{"scheduling.k8s.io", "PriorityClass", Json::parse(kPriorityClass)},
      Known{"resource.k8s.io", "ResourceSlice", Json::parse(kResourceSlice)},
      Known{"topology.node.k8s.io", "NodeResourceTopology", Json::parse(kNodeTopology)},
      Known{"simulate.muster.dev", "Calendar", Json::parse(kCalendar)},
      Known{"simulate.muster.dev", "Expectation", Json::parse(expectation())}};
  const std::string_view group = group_of(api_version);
  if (group.empty() && api_version != "v1") return nullptr;
  if (group == "simulate.muster.dev" && api_version != kExpectationVersion) return nullptr;
  for (const Known& k : known) {
    if (k.group == group && k.kind == kind) return &k.schema;
  }
  return nullptr;
}

std::string_view kinds_that_are_read() {
  return "Node, Pod and Namespace (v1), PriorityClass (scheduling.k8s.io/v1), ResourceSlice "
         "(resource.k8s.io/v1), NodeResourceTopology (topology.node.k8s.io), Queue, Project, NodePool, "
         "TrainingJob and InferenceService (muster.dev/v1alpha1), Expectation and Calendar "
         "(simulate.muster.dev/v1)";
}

}  // namespace muster::simulate
