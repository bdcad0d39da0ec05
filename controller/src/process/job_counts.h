// What is counted of jobs by Project while this process leads: how long they wait and run, how good estimates
// of their starts are, and what disturbs them. It begins at nothing with each process. What work uses is not
// here but in the ledger (reconcilers/usage/ledger.h).
#pragma once

#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/crds/training_job.h"
#include "muster/reconcilers/caches/caches.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::controller {

class JobCounts {
 public:
  // A step of the job stands. `before`: the job as it was. `project`: which its work is charged to; "": none,
  // and then nothing is counted.
  void count(const std::string& project, const crds::TrainingJob& before, const reconcilers::Step& step);
  // Drops what was counted of Projects, and remembered of jobs, that are gone. A new Project begins with
  // zeros: who computes rates must have seen them to see the first job.
  void match(const reconcilers::Caches& caches);
  void append_to(std::vector<prometheus::MetricFamily>& families) const;

 private:
  struct OfProject {
    OfProject();

    prometheus::Histogram waits, estimate_errors;
    std::map<std::string_view, prometheus::Histogram> runs;                  // by result
    std::map<std::pair<std::string_view, std::string>, double> disruptions;  // by action and cause
    std::map<std::pair<std::string, bool>, double> lost_gpu_seconds;         // by cause, and whether owed
    // By cause. Each Project has a series from its beginning.
    std::map<std::string, double> lost_work{{"ProgramFault", 0}};
  };

  void count_start(OfProject& counts, const std::string& key, const crds::TrainingJob& before,
                   const crds::TrainingJobStatus& after);

  std::map<std::string, OfProject> projects_;
  // When jobs that wait are likely to start, as they were last told, by key. A job whose places are nominated
  // is told nothing any more, so its status does not have it to the end.
  std::map<std::string, crds::Time> estimates_;
};

}  // namespace muster::controller
