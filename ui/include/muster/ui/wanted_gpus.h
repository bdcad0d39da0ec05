// What a job asks for.
#pragma once

#include "muster/crds/training_job.h"

namespace muster::ui {

// GPUs, at its least; 0 where that depends on the GPU (memory).
crds::MilliGpu wanted_gpus(const crds::TrainingJob& job);

}  // namespace muster::ui
