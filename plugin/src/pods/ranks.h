// The pods of a job or service, by rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/workload.h"

namespace muster::plugin {

struct RankedPod {
  std::int32_t rank = 0;
  std::string name;
  std::string container;  // the first
  bool has_started = false;
};

// Labels of all its pods.
std::string selector_of(const Workload& workload);

// `pods` are its pods, as they came. Only those of the latest attempt count. Their order is that of the
// roles in the spec, then of their indexes. Their ranks are those that Muster tells them (RANK): members that
// are not there leave gaps. Of a service, whose replicas are in the order of their names, they are numbered.
std::vector<RankedPod> ranked(const Workload& workload, const std::vector<crds::Json>& pods);

// What to say to whoever asks for a rank that none of them has. At least one pod.
std::string say_no_rank(const std::string& who, const std::vector<RankedPod>& pods, std::int32_t rank);

// Asks for them.
client::Result<std::vector<RankedPod>> pods_of(Reader& reader, const Workload& workload);

}  // namespace muster::plugin
