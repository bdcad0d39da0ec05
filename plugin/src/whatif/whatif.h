// `kubectl muster whatif`: what would become of a job if it were submitted now.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "whatif/copy.h"

namespace muster::plugin {

struct Forecast {
  std::string who;           // "nlp/llama"
  std::int32_t indexes = 0;  // of an array; 0: it is none
  bool starts = false;       // all of it, or some of its indexes or replicas
  // Of an array, which runs so many indexes at once, or of a service: how many start. Else 1 of 1.
  std::int32_t started = 0, wanted = 1;
  std::vector<std::string> places;  // "worker-0 on n1, GPUs 0,1"
  // Who has to make room: "nlp/old is evicted (Reclaimed)".
  std::vector<std::string> give_way;
  crds::Waiting waiting;             // what the rest waits for
  std::vector<std::string> unknown;  // as of the copy
};

// Plays one plan. `job` is a TrainingJob or InferenceService with its namespace. The error says what is wrong
// with it, or what cannot be copied.
std::expected<Forecast, std::string> forecast(ClusterCopy copy, crds::Json job, crds::Time now);

// A paragraph for people, and the same for programs.
std::string to_text(const Forecast& forecast, crds::Time now);
Data to_data(const Forecast& forecast);

// `file`: "-" is standard input. The exit status.
int run_whatif(const Options& options, const std::string& file);

}  // namespace muster::plugin
