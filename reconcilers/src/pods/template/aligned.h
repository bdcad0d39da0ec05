// What a pod must look like so that its kubelet gives it CPUs of its own on one NUMA node.
#pragma once

#include <optional>
#include <string>

#include "muster/crds/error.h"
#include "muster/placement/job.h"
#include "muster/reconcilers/common/json_reader.h"

namespace muster::reconcilers {

// Kubelets (CPU manager `static`) pin whole CPUs, and those of pods of the class Guaranteed only: each
// container states CPU and memory, and requests no less than its limits. And they know the NUMA nodes of GPUs
// that a pod asks for, not of those that holder pods hold for it. `spec` is the PodSpec of the template at
// `field`, beside which there is `gpus`. nullopt: it is so.
std::optional<crds::FieldError> not_alignable(const Json& spec, const placement::GpuShare& share,
                                              const std::string& field);

}  // namespace muster::reconcilers
