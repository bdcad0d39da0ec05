// All kinds of muster.dev/v1alpha1.
#pragma once

#include "muster/crds/codec.h"
#include "muster/crds/inference_service.h"
#include "muster/crds/node_pool.h"
#include "muster/crds/project.h"
#include "muster/crds/queue.h"
#include "muster/crds/training_job.h"
