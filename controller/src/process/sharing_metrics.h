// Who has what of the cluster, who waits for it and why, as it is at one scrape: by Project, Queue, NodePool
// and node. No series is of a single job or service.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "muster/crds/time.h"
#include "muster/reconcilers/caches/caches.h"
#include "muster/reconcilers/placement/placement_model.h"
#include "muster/reconcilers/usage/ledger.h"

namespace muster::controller {

// For the process that leads: another one's placement knows nothing. O(jobs + nodes log nodes + Projects and
// Queues x pools).
std::vector<prometheus::MetricFamily> sharing_metrics(const reconcilers::Caches& caches,
                                                      const reconcilers::PlacementModel& placement,
                                                      crds::Time now);

// What the work of Projects has used since this process began to lead, as the ledger counts it.
void append_usage(reconcilers::Ledger& ledger, crds::Time now,
                  std::vector<prometheus::MetricFamily>& families);

}  // namespace muster::controller
