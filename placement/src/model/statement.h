// A decision as a list of reversible steps: what is tried and does not work out leaves no trace.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// Everything done through a Statement is undone, last step first, unless commit() is called. Moving a pod is
// release() and place(); resizing a gang is some of either. The state in between is the real one: the same
// code searches and counts in it. O(cost of a allocation) per step.
class Statement {
 public:
  struct Placed {
    JobId job = kNoId;
    PodPlace place;
    Allocation allocation;
  };
  struct Outcome {
    std::vector<Placed> placed;  // in order
    // Pods of its assignment, sorted; their allocations are empty.
    std::map<JobId, std::vector<std::size_t>> released;
  };

  explicit Statement(ClusterModel& state) : state_(state) {}
  ~Statement() { rollback(); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void place(JobId job, PodPlace place, PoolId pool, Hold hold);
  void place(JobId job, PodPlace place, NodeId on, PoolId pool, Hold hold);  // on: place.node
  // A pod of its assignment goes: what runs is leaving from now on, what does not run yet is simply gone.
  // Nothing if the pod holds nothing.
  void release(JobId job, std::size_t pod);
  void readmit(JobId job, std::size_t pod);  // a released one stays after all; its place must be free

  const std::vector<Placed>& placed() const { return placed_; }
  bool released(JobId job, std::size_t pod) const { return out_.contains({job, pod}); }
  Allocation allocation_before(JobId job, std::size_t pod) const;  // of a released one
  std::size_t mark() const { return steps_.size(); }
  void rollback(std::size_t to_mark = 0);
  // What is leaving has moved from the jobs' allocations to their `leaving`; their assignments are the
  // caller's.
  Outcome commit();

 private:
  enum class Kind : std::uint8_t { kPlace, kRelease, kReadmit };
  struct Step {
    Kind kind = Kind::kPlace;
    JobId job = kNoId;
    std::size_t pod = 0;
  };
  struct Out {
    Allocation allocation;
    Hold before = Hold::kRunning;
    bool leaving = false;  // else not charged at all
  };
  void take_out(JobId job, std::size_t pod);
  void take_in(JobId job, std::size_t pod);

  ClusterModel& state_;
  std::vector<Step> steps_;
  std::vector<Placed> placed_;
  std::map<std::pair<JobId, std::size_t>, Out> out_;
};

}  // namespace muster::placement
