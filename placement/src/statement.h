// A decision as a list of reversible steps: what is tried and does not work out leaves no trace.
#pragma once

#include <vector>

#include "state.h"

namespace muster::placement {

// Everything done through a Statement is undone, last step first, unless commit() is called. Moving a pod is
// remove() and place(); resizing a gang is some of either. The state in between is the real one: the same
// code searches and counts in it.
class Statement {
 public:
  explicit Statement(State& state) : state_(state) {}
  ~Statement() { rollback(); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void place(JobId job, const PodPlace& place, PoolId pool);
  void remove(JobId job, std::size_t pod);  // of its assignment; nothing if that pod holds nothing
  void evict(JobId job);                    // all of its pods

  std::size_t mark() const { return steps_.size(); }
  void rollback(std::size_t to_mark = 0);
  std::vector<Charge> commit();  // the charges of the placed pods, in order

 private:
  struct Step {
    Charge charge;
    JobId job = kNoId;
    std::size_t pod = 0;
    bool placed = true;  // else removed
  };
  State& state_;
  std::vector<Step> steps_;
};

}  // namespace muster::placement
