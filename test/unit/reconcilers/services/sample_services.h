// Services that the tests of services share.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "muster/crds/inference_service.h"
#include "sample_jobs.h"

namespace muster::reconcilers {

inline crds::InferenceService sample_service() {
  crds::InferenceService s;
  s.metadata.name = "chat";
  s.metadata.ns = "nlp";
  s.metadata.uid = "uid-s";
  s.metadata.generation = 3;
  s.spec.replicas = 3;
  s.spec.group_size = 2;
  s.spec.gpus = crds::Gpus{.count = 4};
  s.spec.pools = {"h100", "a100"};
  s.spec.pod_template.value = std::make_shared<const Json>(Json::parse(
      R"({"metadata": {"labels": {"app": "chat"}}, "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 90,
          "containers": [{"name": "main", "image": "serve:1"}]}})"));
  return s;
}

inline crds::InferenceService with_roles(crds::InferenceService service) {
  service.spec.group_size = 1;
  service.spec.gpus.reset();
  crds::ServiceRole prefill;
  prefill.name = "prefill";
  prefill.replicas = 3;
  prefill.gpus = crds::Gpus{.count = 1};
  prefill.pod_template = service.spec.pod_template;
  crds::ServiceRole decode = prefill;
  decode.name = "decode";
  decode.replicas = 2;
  decode.group_size = 2;
  decode.traffic = true;
  decode.topology.preferred = "muster.dev/rack";
  service.spec.roles = {prefill, decode};
  service.spec.pod_template = {};
  return service;
}

}  // namespace muster::reconcilers
