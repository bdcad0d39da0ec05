// Keeps the disturbances of jobs that are gone, in ConfigMaps of the jobs' namespace
// (usage/disruption_history.h). So whoever may read the jobs there may read what became of those before.
//
// What survives a crash: the lines in the status of a job are written with the disturbance itself, and the
// next process takes up from there what is not in the ConfigMaps. Lost is what was neither written here yet
// nor has a job any more.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/usage/disruption_history.h"

namespace muster::reconcilers {

class DisruptionKeeper {
 public:
  explicit DisruptionKeeper(ReconcilerContext& context) : context_(context) {}

  // To be called when the disturbances in the job's status may be others. It remembers them until keep().
  void note(const crds::TrainingJob& job);
  // Reads what was written of namespaces that have told something, and writes what is new: of each namespace
  // usually one file. What is refused is tried again by the next call. Not to be called again before it has
  // ended.
  client::Task<void> keep();

 private:
  struct OfNamespace {
    bool is_loaded = false;
    DisruptionHistory history;
    std::vector<PastDisruption> told;  // not in the history yet
    client::TimePoint used{}, not_before{};
  };
  // False: to be tried again.
  client::Task<bool> load(std::string ns, DisruptionHistory& history);
  client::Task<void> keep_one(std::string ns, OfNamespace& of);
  // False: to be tried again.
  client::Task<bool> write(std::string ns, DisruptionHistory& history, std::size_t file);

  ReconcilerContext& context_;
  std::map<std::string, OfNamespace> namespaces_;  // of which something was told lately
};

}  // namespace muster::reconcilers
