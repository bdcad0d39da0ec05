// `kubectl muster nodes`: who has which GPU.
#pragma once

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
};
// The nodes that have GPUs, in the order of their names. Pods that are not Muster's are not seen.
// `gpu_resources`: the names under which nodes count GPUs.
std::vector<NodeUse> node_uses(const std::vector<client::Node>& nodes,
                               const std::vector<crds::TrainingJob>& jobs,
                               const std::set<std::string>& gpu_resources);

// A line for each node, with a cell for each GPU: the letter of the job that has it, '*' where several jobs
// share it, '.' where no job has it. Below, the letters, in the order of the names of the jobs; where there
// are more jobs than letters, the last have '?'. A job whose condition Idle is True is said to be idle.
Listing nodes(const std::vector<NodeUse>& uses);

}  // namespace muster::plugin
