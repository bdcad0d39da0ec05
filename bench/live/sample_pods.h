// The pods of all phases.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/client/api.h"
#include "muster/crds/training_job.h"
#include "muster/reconcilers/common/objects.h"

namespace muster::bench {

inline const client::Resource kTrainingJobs = reconcilers::resource_of<crds::TrainingJob>();

// A job of one role of such pods, with one GPU each. `annotations`: of its pods.
nlohmann::json sample_job(const std::string& name, const std::string& ns, int pods,
                          const nlohmann::json& annotations = {});

// The `n`th pod that the bare client makes: pod `index` as Muster makes it of the job, without an owner. What
// the API server is asked to keep is equal, and the difference between the phases is the work of deciding,
// recording and following pods. The nodes, of 8 GPUs each, are taken in turn.
std::string bare_pod(const crds::TrainingJob& job, int index, const std::vector<std::string>& nodes,
                     std::size_t n);

}  // namespace muster::bench
