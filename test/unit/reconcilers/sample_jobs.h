// Jobs and templates that the tests of pods share.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "muster/crds/training_job.h"

namespace muster::reconcilers {

using crds::Json;

// As people write them: two containers, an init container, environment, mounts, scheduling terms.
inline Json sample_template() {
  return Json::parse(R"json({
    "metadata": {"labels": {"app": "llama", "team": "nlp"}, "annotations": {"note": "kept \"as is\" @{muster:0:a}"}},
    "spec": {
      "initContainers": [{"name": "fetch", "image": "fetch:1", "resources": {"requests": {"cpu": "500m", "memory": "8Gi"}}}],
      "containers": [
        {"name": "main", "image": "train:1", "command": ["python", "train.py", "--rank=$(RANK)"],
         "env": [{"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "MASTER_PORT", "value": "1234"}],
         "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "32Gi"}},
         "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        {"name": "logs", "image": "logs:1", "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}}],
      "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}}],
      "nodeSelector": {"disk": "ssd"},
      "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
      "serviceAccountName": "trainer", "automountServiceAccountToken": false,
      "securityContext": {"runAsUser": 1000}
    }})json");
}

inline Json bare_template() {
  return Json::parse(R"({"spec": {"containers": [{"name": "main", "image": "train:1"}]}})");
}

inline crds::Role role(std::string name, std::int32_t replicas, std::optional<std::int32_t> gpus,
                       Json pod_template) {
  crds::Role r;
  r.name = std::move(name);
  r.replicas = replicas;
  if (gpus) r.gpus = crds::Gpus{.count = gpus, .models = {}};
  r.pod_template.value = std::make_shared<const Json>(std::move(pod_template));
  return r;
}

inline crds::TrainingJob sample_job(crds::Framework framework = crds::Framework::kGeneric) {
  crds::TrainingJob job;
  job.metadata.name = "llama";
  job.metadata.ns = "nlp";
  job.metadata.uid = "uid-1";
  job.metadata.labels = {{"argocd.argoproj.io/instance", "app"}};
  job.metadata.annotations = {{"argocd.argoproj.io/tracking-id", "app:x"}};
  job.spec.framework = framework;
  job.spec.roles.push_back(role("worker", 3, 2, sample_template()));
  job.status.assignment.attempt = 4;
  return job;
}

}  // namespace muster::reconcilers
