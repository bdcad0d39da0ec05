// Claims that wait for their first consumer are told its node: what kube-scheduler does for pods
// that it places.
#pragma once

#include <vector>

#include "muster/reconcilers/jobs/effective_job.h"
#include "muster/reconcilers/jobs/translate.h"

namespace muster::reconcilers {

// For the claims that the job's templates name, before its pods are made. A claim that several pods share
// goes where the first of them is. What fails is logged: the pods are made all the same.
client::Task<void> select_nodes(ReconcilerContext& context, JobPtr job, const Translation& wish,
                                const crds::Assignment& assignment);
// For claims of ephemeral volumes, which Kubernetes makes after their pod; each goes where its pod is.
client::Task<void> select_nodes_of_ephemeral(ReconcilerContext& context, JobPtr job,
                                             const std::vector<client::Ptr<client::Pod>>& pods);

}  // namespace muster::reconcilers
