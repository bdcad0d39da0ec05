// `kubectl muster nodes`: who has which GPU.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "muster/client/pod.h"
#include "muster/crds/crds.h"

namespace muster::plugin {

// A line for each node that has GPUs, in the order of their names, with a cell for each GPU: the letter of
// the job that has it, '*' where several jobs share it, '.' where no job has it. Below, the letters. Pods
// that are not Muster's are not seen. `gpu_resources`: the names under which nodes count GPUs. "": no node
// has any.
std::string nodes(const std::vector<client::Node>& nodes, const std::vector<crds::TrainingJob>& jobs,
                  const std::set<std::string>& gpu_resources);

}  // namespace muster::plugin
