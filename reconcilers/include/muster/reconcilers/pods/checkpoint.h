// What programs say about their checkpoints, and what a gang's pods say together. A report is a line of JSON,
// {"checkpoint":{"step":1200,"uri":"/ckpt/step-1200"}}, in a pod's termination log or, while it runs, in the
// annotation kCheckpointAnnotation. Others write it: what is malformed is as if it were not there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/client/pod.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

inline constexpr std::string_view kCheckpointAnnotation = "muster.dev/checkpoint";

// The last line that is a report; nullopt: there is none. A step is an integer from 0; a URI has at most
// 1024 bytes and no control characters. Text of more than 4096 bytes, which is what a kubelet keeps, is not
// read. O(bytes).
std::optional<crds::SavedStep> parse_report(std::string_view text);

// What the pods of one attempt have said together.
struct GangReport {
  std::int32_t attempt = 0;
  crds::SavedStep saved;  // the smallest step; without one: nobody has reported
  crds::Time at;          // when that was reported
  std::string pod;        // by whom: the first by role and index
  std::int32_t reporters = 0;
  // The longest time from SIGTERM to the end of a pod; 0: not known. A pod that was killed counts only if it
  // was ready when it was told: a program that still starts does not hear yet, and has nothing to save.
  std::int64_t save_seconds = 0;
  // Of the reporters those whose report came with their end, in time, when they were told to go.
  std::int32_t saved_when_told = 0;
};

// The reports of one job, as its pods come and go. A pod's last word may come with the very event that says
// that the pod is gone. So this remembers what the caches do not.
class CheckpointReports {
 public:
  // The newest state of a pod of the job. O(log pods) and the text.
  void note(const client::Pod& pod, crds::Time now);
  // By attempt, ascending. O(pods that have reported).
  std::vector<GangReport> gangs() const;
  // The pod has left its gang, which goes on without it: what it has said and will say does not count.
  void depart(const client::Pod& pod);
  // The same for every pod of the gang's attempt that stands for no place of the gang any more, also for
  // those that have gone unseen. O(places x log places).
  void keep_members(const std::string& job, const crds::Assignment& gang);
  void forget_before(std::int32_t attempt);

 private:
  struct PodReport {
    crds::SavedStep saved;
    crds::Time at;
    std::string pod;
    std::int64_t save_seconds = 0;
    bool saved_when_told = false;
  };
  std::map<std::int32_t, std::map<std::pair<std::string, std::int32_t>, PodReport>> attempts_;
  std::map<std::string, std::int32_t> departed_;  // uid -> attempt
  // uid -> attempt, of those that were ready when they were told to go.
  std::map<std::string, std::int32_t> told_ready_;
};

// Takes the report over if it is news. A report counts only when as many pods have reported as did before (or
// as the gang has, `gang_pods`, if that is fewer). Until then some may not have saved that step.
void take_over(crds::CheckpointStatus& known, const GangReport& report, std::int32_t gang_pods);

// All who report have saved when they were told to go, and none that did before is missing.
bool saved_when_told(const crds::CheckpointStatus& known, const GangReport& report, std::int32_t gang_pods);

// Kubernetes' own, of a pod that states none.
inline constexpr std::int64_t kDefaultGraceSeconds = 30;
// Seconds from SIGTERM to SIGKILL that pods of this job get.
std::int64_t grace_seconds(const crds::TrainingJobSpec& spec);

}  // namespace muster::reconcilers
