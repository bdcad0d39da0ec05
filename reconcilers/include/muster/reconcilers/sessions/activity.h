// When somebody last used a session, as its program says. Pure.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "muster/crds/time.h"
#include "muster/reconcilers/gpu_metrics/idle_rule.h"

namespace muster::reconcilers {

// The newest time under a key `last_activity` in JSON: of an object, as /api/status of a Jupyter server, or
// of the objects of a list, as its /api/kernels. The error is a sentence about the answer.
std::expected<crds::Time, std::string> last_activity_of(std::string_view body);

// Of a session whose GPUs are read and whose program is asked: idle for as long as both say so, and known
// only where both are.
Idleness both(Idleness gpus, Idleness use);

}  // namespace muster::reconcilers
