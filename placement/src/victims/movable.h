// RULES.md 5.2: whom it would help to move.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "model/cluster_model.h"
#include "shares/eligibility.h"

namespace muster::placement {

// To be moved is to start again, and nothing starts with a part of its minimum. A gang may run with less than
// that while its roles were edited.
bool has_all_of_minimum(const Request& request, const std::vector<PodPlace>& pods);

// Whom a move could help is judged by whole GPUs, without a search. A job is movable if there is a free hole
// elsewhere for all its pods, or for one if it restarts: the others may come back to where they are. To move it helps if it stands on
// a node that it, and others like it, could make empty enough for a pod of the claimant. Other jobs need not
// be tried. O(jobs x their pods, and nodes that have room) for all jobs together.
class Movable {
 public:
  Movable(const ClusterModel& state, const Claimant& claimant);

  bool add(JobId id);    // false: it cannot move. To be called for all jobs before helps()
  bool helps(JobId id);  // for a job that can move

 private:
  struct Part {
    NodeId node;
    std::int32_t gpus;
    bool whole, off;
    auto operator<=>(const Part&) const = default;
  };

  void add_up();
  bool has_holes(const Job& job, bool off);
  // For how many pods of so many GPUs there is room now. `off`: not on the reserved nodes.
  std::int64_t holes(std::int32_t gpus, bool off);
  std::int64_t holes_on(NodeId id, std::int32_t gpus, bool off) const;

  const ClusterModel& s_;
  const Pool& pool_;
  PoolId id_;
  bool claimant_off_;                                              // it may not use the reserved nodes
  std::int32_t needs_ = std::numeric_limits<std::int32_t>::max();  // GPUs of its smallest pod; 0: not whole
  std::vector<Part> parts_;
  std::map<std::pair<std::int32_t, bool>, std::int64_t> holes_;  // holes(), as far as asked for
  std::vector<std::int32_t> could_be_free_;                      // by node
};

}  // namespace muster::placement
