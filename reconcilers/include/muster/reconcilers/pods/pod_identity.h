// Whose pod a pod is, read back from its labels and owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/client/pod.h"

namespace muster::reconcilers {

struct PodIdentity {
  std::string role;
  std::int32_t index = 0;
  std::int32_t attempt = 0;
  std::int32_t tries = 0;
};

// nullopt: not a pod that Muster made, or its labels were tampered with.
std::optional<PodIdentity> identity_of(const client::Pod& pod);

// The labels and annotations that caches must keep for it.
client::PodFields pod_fields();

}  // namespace muster::reconcilers
