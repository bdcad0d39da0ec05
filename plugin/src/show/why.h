// `kubectl muster why`: what binds, who is ahead, what would help, when it may start; and of what runs, what
// was taken from it.
#pragma once

#include <string>
#include <vector>

#include "cluster/workload.h"
#include "muster/crds/crds.h"
#include "muster/ui/what_helps.h"
#include "output/listing.h"

namespace muster::plugin {

// A job that is served before another one.
struct Ahead {
  std::string job;  // "nlp/llama"
  crds::MilliGpu gpus;
};
// Those of `jobs` that wait for the same pool and are served before it, in their order.
std::vector<Ahead> ahead_of(const crds::TrainingJob& job, const std::vector<crds::TrainingJob>& jobs);

// A paragraph for people, not wrapped; a second one where there is a past to tell. `ahead`: as far as they
// are known; the first of them are named.
std::string why(const crds::TrainingJob& job, crds::Time now, const std::vector<Ahead>& ahead = {});
std::string why(const crds::InferenceService& service, crds::Time now);
std::string why(const Workload& workload, crds::Time now, const std::vector<Ahead>& ahead = {});

// For programs: kind, namespace, name, text (the paragraphs), phase, and of what waits `waiting` (as
// status.queue), `helps` and `ahead` (all that are known).
Data why_data(const Workload& workload, crds::Time now, const std::vector<Ahead>& ahead = {});

using ui::what_helps;

}  // namespace muster::plugin
