// `kubectl muster nodes`: who has which GPU.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "muster/client/pod.h"
#include "muster/crds/crds.h"
#include "output/listing.h"

namespace muster::plugin {

struct NodeUse {
  std::string name;
  std::string state;  // Ready, NotReady, Cordoned
  std::string model;
  std::vector<std::vector<std::string>> gpus;  // the jobs that have each: "nlp/llama"
  std::set<std::string> idle = {};             // those of them that use none of their GPUs
  std::int64_t others = 0;                     // GPUs of pods that are not Muster's; which ones is not known
  std::set<std::int32_t> failing = {};         // by index; also where a job still has them
  bool is_known_whole = true;                  // false: who has the other GPUs may not be seen
};
// The nodes that have GPUs, in the order of their names. A GPU fails if its NodePool's status or the node's
// annotation muster.dev/gpu-unhealthy says so. The pools say under which names nodes count GPUs. `others`:
// pods that are not Muster's.
std::vector<NodeUse> node_uses(const std::vector<client::Node>& nodes,
                               const std::vector<crds::TrainingJob>& jobs,
                               const std::vector<crds::NodePool>& pools,
                               const std::vector<client::Pod>& others = {});

// The same of whoever sees these jobs and no nodes: of a node as many GPUs as the last one that they have
// tells.
std::vector<NodeUse> node_uses_of(const std::vector<crds::TrainingJob>& jobs);

// A line for each node, with a cell for each GPU: '!' where it fails, else the letter of the job that has it,
// '*' where several jobs share it, '+' for each that pods of others have (in the first places that are left),
// and '.' where it is free, or '_' where that is not known. Below, the letters, in the order of the names of
// the jobs; where there are more jobs than letters, the last have '?'. A job whose condition Idle is True is
// said to be idle.
Listing nodes(const std::vector<NodeUse>& uses);

}  // namespace muster::plugin
