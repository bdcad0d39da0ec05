// Shares of GPUs that HAMi-core enforces (NodePool.spec.sharing.enforcement): a library that every program of
// the container loads, and that refuses memory and delays kernels beyond what environment variables say.
//
// What the variables mean is in the README of github.com/Project-HAMi/HAMi-core ("Usage"). Where the library
// lies on a node, and how it comes into a container, is as HAMi's own device plugin has it:
// github.com/Project-HAMi/HAMi, Allocate() in pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go.
#pragma once

#include "muster/crds/node_pool.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

bool enforces_by_hami(const crds::NodePoolSpec& pool);

// The job, with templates that load HAMi-core in the roles that share GPUs: volumes, and in every container
// their mounts and the limits, whatever the template says there. `gpu_memory`: of one GPU of the node. 0: it
// is not known, and then no memory is limited of a fraction. Templates that are none stay as they are.
crds::TrainingJob under_hami(crds::TrainingJob job, crds::Bytes gpu_memory);

}  // namespace muster::reconcilers
