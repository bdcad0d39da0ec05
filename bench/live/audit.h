// Judges, from the API server's own lists, whether the pods that run are what was asked for.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace muster::bench {

struct AuditPod {
  std::string name, job, attempt, node, phase;
  std::int64_t gpus = 0;          // sum of the containers' limits
  std::vector<std::string> held;  // devices, of the annotation muster.dev/gpus
};
// `pod`: the object as the API server gives it.
AuditPod audit_pod(const nlohmann::json& pod);

struct Expected {
  int pods = 0;
  int gang = 0;
  std::map<std::string, std::int64_t> node_gpus;  // allocatable, by node
};

// One sentence for each thing that is wrong, the first few of a kind; empty: exactly the pods expected, all
// Running, every gang whole and of one attempt, no node above its GPUs, every pod with as many devices as it
// asks for, and no device given twice.
std::vector<std::string> audit(const std::vector<AuditPod>& pods, const Expected& expected);

}  // namespace muster::bench
