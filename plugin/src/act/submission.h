// A TrainingJob for people who write no YAML.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/crds/crds.h"
#include "output/listing.h"

namespace muster::plugin {

// What is empty is left to the Project's defaults.
struct Submission {
  std::string name;  // empty: the API server makes one that begins as the image is called
  std::string image;
  std::vector<std::string> command;  // empty: the image's own
  std::int32_t gpus = 1;             // of each pod
  std::int32_t replicas = 1;
  bool interactive = false;
  std::string max_runtime, priority, pool, framework;
  std::string cpu, memory;  // of each pod
};

// One role `worker` with one container `main`.
Data job_of(const Submission& submission, const std::string& ns);

// "pytorch" of "ghcr.io/org/PyTorch:2.4": letters, digits and dashes, at most 20, and a letter first.
std::string name_of_image(const std::string& image);

}  // namespace muster::plugin
