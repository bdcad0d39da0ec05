// A copy of a cluster for `muster simulate` (docs/simulate.md), made of what its user may see.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "cluster/reader.h"

namespace muster::plugin {

struct ClusterCopy {
  std::vector<crds::Json> objects;   // as simulate reads them
  std::vector<std::string> unknown;  // sentences: what is not in the copy
};

// How each object stands in a copy that begins `now`. null: it is left out.
//
// A job has its age, and how long it has been running. One that has ended is left out. A replica of a service
// is a job of its own, so that it stays where it is. What is left of its maxRuntime is what it may still run.
crds::Json copy_of_job(crds::Json job, crds::Time now);
// Of pods only those of others that are on a node, with what they ask for.
crds::Json copy_of_pod(const crds::Json& pod);
// A Node, NodePool, Queue, Project or PriorityClass, without what a simulation does not read.
crds::Json copy_of_other(crds::Json object, const std::string& api_version, const std::string& kind);

// The error says what may not be read and is needed. Where jobs and pods of all namespaces may not be read,
// those of `ns` are.
std::expected<ClusterCopy, std::string> copy_cluster(Reader& reader, const std::string& ns);

}  // namespace muster::plugin
