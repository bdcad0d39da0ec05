// `kubectl muster disruptions`: what jobs had to give, for whom, and what it cost them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/crds/crds.h"
#include "muster/reconcilers/usage/disruption_history.h"
#include "output/listing.h"

namespace muster::plugin {

struct Taken {
  std::string ns;
  reconcilers::PastDisruption one;
  bool is_gone = false;  // the job
};

// The lines in the statuses of jobs, and those of `kept` that stand in none: of jobs that are gone, and older
// ones. Newest first.
std::vector<Taken> taken_from(const std::vector<crds::TrainingJob>& jobs, const std::vector<Taken>& kept);
// The Projects below the Queue, at whatever depth; nullopt: there is no such Queue. In the order of their
// names.
std::optional<std::vector<crds::Project>> projects_below(const std::string& queue,
                                                         const std::vector<crds::Queue>& queues,
                                                         const std::vector<crds::Project>& projects);

Listing disruptions(const std::vector<Taken>& taken, crds::Time now);

}  // namespace muster::plugin
