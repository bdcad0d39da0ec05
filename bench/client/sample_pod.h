// A pod as a watch shows it: what Muster wrote, what the API server added and what the node reported.
#pragma once

#include <string>

namespace muster::bench {

// Some 5 KB, managedFields included. Each index gives another name, uid, node, job and version.
std::string sample_pod(int index, bool running, std::int64_t version);

}  // namespace muster::bench
