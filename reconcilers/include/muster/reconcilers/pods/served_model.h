// The model of a service: where it is, and how its pods get at it. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "muster/crds/inference_service.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// Where model.cacheClaim is mounted; a claim that holds the model itself, read-only.
inline constexpr std::string_view kModelCachePath = "/var/cache/huggingface";
inline constexpr std::string_view kModelPath = "/mnt/models";

// What a server is told to load, as $(MODEL): the name on Hugging Face, a path, or the URI.
std::string model_argument(const std::string& uri);

// The template whose containers have MODEL, and with cacheClaim HF_HOME and HF_HUB_CACHE, and mount the
// claims that they need for it. Variables that they state themselves count.
crds::RawJson with_model(const crds::RawJson& pod_template, const crds::ServedModel& model);

struct LocatedModel {
  std::string uri;      // of anything but a job; "": there is none yet
  std::string problem;  // why there is none, or why the one of before still counts; "": nothing
};
// Of trainingjob:// the last checkpoint of the job once it has completed: in its checkpoint claim pvc://,
// else what its program has reported. Until then, and where the job is gone, what status.model says is kept.
// `find_job`: in the service's namespace; nullptr: it is not there.
LocatedModel locate_model(const crds::InferenceService& service,
                          const std::function<const crds::TrainingJob*(const std::string& name)>& find_job);

}  // namespace muster::reconcilers
