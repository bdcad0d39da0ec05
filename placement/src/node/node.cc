#include "node/node.h"

#include <algorithm>

namespace muster::placement {

Resources capacity_of(const Node& n) {
  Resources r = n.spec.allocatable;
  r.gpu = MilliGpu{(n.spec.gpus - n.unhealthy) * kMilliPerGpu};
  for (const auto& [name, count] : n.spec.mig) {
    if (const auto profile = mig_profile(name)) r.gpu.value += count * mig_milli(*profile);
  }
  if (n.model_place >= 0) r.named[static_cast<std::size_t>(n.model_place)] = r.gpu.value;
  return r;
}

void charge_model(const Node& n, Allocation& c) {
  if (n.model_place >= 0) c.amounts.named[static_cast<std::size_t>(n.model_place)] = c.amounts.gpu.value;
}

void Held::add(const Resources& amounts, Hold hold, int sign) {
  const Resources change = amounts * sign;
  if (hold == Hold::kLeaving) {
    leaving += change;
  } else {
    used += change;
    if (hold == Hold::kNominated) nominated += change;
  }
}

Resources free_of(const Resources& has, const Held& held, View view) {
  Resources r = has - held.used;
  if (view == View::kForNominated) r += held.nominated;
  if (view != View::kTarget) r -= held.leaving;
  return r;
}

bool Node::healthy(std::int32_t gpu) const {
  return !std::binary_search(spec.unhealthy.begin(), spec.unhealthy.end(), gpu);
}

void Node::count_named() {
  named_gpus = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (healthy(static_cast<std::int32_t>(i)) && !gpus[i].idle(View::kTarget)) ++named_gpus;
  }
}

Resources Node::free(View view) const {
  Resources r = free_of(spec.allocatable, *this, view);
  r.gpu = MilliGpu{std::max(0, free_gpus()) * kMilliPerGpu};
  r.cpu = std::max(r.cpu, MilliCpu{});
  r.memory = std::max(r.memory, Bytes{});
  r.pods = std::max<std::int64_t>(r.pods, 0);
  if (model_place >= 0) {  // parts of GPUs as well; memory that is promised twice hides no GPU that is free
    std::int64_t& of_model = r.named[static_cast<std::size_t>(model_place)];
    of_model = std::max(free_of(capacity_of(*this), *this, view).gpu.value, r.gpu.value);
  }
  for (std::int64_t& amount : r.named) amount = std::max<std::int64_t>(amount, 0);
  return r;
}

}  // namespace muster::placement
