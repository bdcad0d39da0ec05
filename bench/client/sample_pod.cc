#include "client/sample_pod.h"

#include <nlohmann/json.hpp>

namespace muster::bench {
namespace {

using nlohmann::json;

constexpr const char* kTime = "2026-01-02T03:04:05Z";

json managed_fields() {
  json keys = json::object();
  for (const char* key : {"f:containers", "f:dnsPolicy", "f:enableServiceLinks", "f:hostname", "f:nodeName",
                          "f:restartPolicy", "f:schedulerName", "f:securityContext", "f:subdomain",
                          "f:terminationGracePeriodSeconds", "f:volumes"}) {
    keys[key] = json::object();
  }
  for (const char* key : {"f:name", "f:image", "f:imagePullPolicy", "f:resources", "f:terminationMessagePath",
                          "f:terminationMessagePolicy", "f:volumeMounts"}) {
    keys["f:containers"]["k:{\"name\":\"main\"}"][key] = json::object();
  }
  for (const char* key :
       {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_NNODES", "PET_NODE_RANK"}) {
    keys["f:containers"]["k:{\"name\":\"main\"}"]["f:env"]["k:{\"name\":\"" + std::string(key) + "\"}"] = {
        {".", json::object()}, {"f:name", json::object()}, {"f:value", json::object()}};
  }
  json status = json::object();
  for (const char* type : {"Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers"}) {
    status["f:conditions"]["k:{\"type\":\"" + std::string(type) + "\"}"] = {
        {".", json::object()},
        {"f:lastTransitionTime", json::object()},
        {"f:status", json::object()},
        {"f:type", json::object()}};
  }
  return json::array({{{"manager", "muster"},
                       {"operation", "Update"},
                       {"apiVersion", "v1"},
                       {"time", kTime},
                       {"fieldsType", "FieldsV1"},
                       {"fieldsV1", {{"f:spec", keys}}}},
                      {{"manager", "kubelet"},
                       {"operation", "Update"},
                       {"apiVersion", "v1"},
                       {"time", kTime},
                       {"fieldsType", "FieldsV1"},
                       {"fieldsV1", {{"f:status", status}}},
                       {"subresource", "status"}}});
}

json container() {
  json env = json::array();
  for (const char* name :
       {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_NNODES", "PET_NODE_RANK"}) {
    env.push_back({{"name", name}, {"value", "worker-0.job.team.svc"}});
  }
  return {{"name", "main"},
          {"image", "registry.example/train:1"},
          {"env", env},
          {"imagePullPolicy", "IfNotPresent"},
          {"resources",
           {{"limits", {{"nvidia.com/gpu", "1"}}},
            {"requests", {{"cpu", "1"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}}}}},
          {"terminationMessagePath", "/dev/termination-log"},
          {"terminationMessagePolicy", "File"},
          {"volumeMounts",
           {{{"mountPath", "/etc/muster"}, {"name", "muster-hosts"}, {"readOnly", true}},
            {{"mountPath", "/var/run/secrets/kubernetes.io/serviceaccount"},
             {"name", "kube-api-access"},
             {"readOnly", true}}}}};
}

json spec(const std::string& node) {
  const json toleration = {{"effect", "NoExecute"},
                           {"key", "node.kubernetes.io/not-ready"},
                           {"operator", "Exists"},
                           {"tolerationSeconds", 300}};
  return {
      {"containers", {container()}},
      {"dnsPolicy", "ClusterFirst"},
      {"enableServiceLinks", true},
      {"hostname", "worker-0"},
      {"nodeName", node},
      {"preemptionPolicy", "PreemptLowerPriority"},
      {"priority", 0},
      {"restartPolicy", "Never"},
      {"schedulerName", "default-scheduler"},
      {"securityContext", json::object()},
      {"serviceAccountName", "default"},
      {"subdomain", "job"},
      {"terminationGracePeriodSeconds", 30},
      {"tolerations", {toleration, toleration}},
      {"volumes",
       {{{"name", "muster-hosts"}, {"configMap", {{"name", "job-hosts"}, {"defaultMode", 420}}}},
        {{"name", "kube-api-access"},
         {"projected",
          {{"defaultMode", 420},
           {"sources", {{{"serviceAccountToken", {{"expirationSeconds", 3607}, {"path", "token"}}}}}}}}}}}};
}

json status(bool running) {
  json out = {{"phase", running ? "Running" : "Pending"}, {"qosClass", "Burstable"}};
  if (!running) return out;
  for (const char* type : {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"}) {
    out["conditions"].push_back(
        {{"type", type}, {"status", "True"}, {"lastProbeTime", nullptr}, {"lastTransitionTime", kTime}});
  }
  out["containerStatuses"] = {{{"name", "main"},
                               {"image", "registry.example/train:1"},
                               {"imageID", ""},
                               {"containerID", "containerd://0123456789abcdef"},
                               {"ready", true},
                               {"restartCount", 0},
                               {"started", true},
                               {"state", {{"running", {{"startedAt", kTime}}}}}}};
  out["hostIP"] = "10.0.0.1";
  out["podIP"] = "10.1.0.1";
  out["startTime"] = kTime;
  return out;
}

}  // namespace

std::string sample_pod(int index, bool running, std::int64_t version) {
  const std::string job = "job-" + std::to_string(index / 40), place = std::to_string(index % 40);
  char uid[40];
  std::snprintf(uid, sizeof uid, "00000000-0000-4000-8000-%012d", index);
  const json labels = {{"muster.dev/job", job},
                       {"muster.dev/role", "worker"},
                       {"muster.dev/index", place},
                       {"muster.dev/attempt", "1"},
                       {"muster.dev/try", "0"}};
  const json owner = {
      {"apiVersion", "muster.dev/v1alpha1"},           {"kind", "TrainingJob"}, {"name", job},
      {"uid", "11111111-0000-4000-8000-000000000000"}, {"controller", true},    {"blockOwnerDeletion", true}};
  const json pod = {{"kind", "Pod"},
                    {"apiVersion", "v1"},
                    {"metadata",
                     {{"name", job + "-worker-" + place + "-1"},
                      {"namespace", "team"},
                      {"uid", uid},
                      {"resourceVersion", std::to_string(version)},
                      {"creationTimestamp", kTime},
                      {"labels", labels},
                      {"annotations", {{"muster.dev/gpus", "3"}}},
                      {"ownerReferences", {owner}},
                      {"managedFields", managed_fields()}}},
                    {"spec", spec("node-" + std::to_string(index % 500))},
                    {"status", status(running)}};
  return pod.dump();
}

}  // namespace muster::bench
