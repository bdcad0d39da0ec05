// RuntimeClasses: what a container runtime adds to the pods that name it. The API server writes it into each
// pod when that is made; placement has to know it before.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/api.h"
#include "muster/client/object.h"
#include "muster/reconcilers/pods/requests.h"

namespace muster::reconcilers {

extern const client::Resource kRuntimeClasses;

struct RuntimeClass {
  client::Meta meta;
  PodRequests overhead;           // of a pod, beside what its containers ask for
  crds::StringMap node_selector;  // of the nodes that have the runtime
  std::vector<Toleration> tolerations;
};
client::Result<RuntimeClass> decode_runtime_class(std::string_view json);

// Adds what the class gives to a pod, as Kubernetes' admission does. The answer says why it would refuse the
// pod instead; nullopt: it would not.
std::optional<std::string> apply(const RuntimeClass& of, PodNeeds& needs);

}  // namespace muster::reconcilers
