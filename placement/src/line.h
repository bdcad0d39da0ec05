// The queue of one pool while it is served: the heads of all leaves in the order of rule 2.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "order.h"
#include "state.h"

namespace muster::placement {

// While jobs start and nothing ends, ranks only grow worse: the first one is taken out, ranked anew, and is
// the first indeed if it is still before the next. Whoever makes something end calls rank_anew(). The lines
// in the pool must not change meanwhile (see State::stop_waiting); jobs that hold an assignment are passed
// over.
class Line {
 public:
  // Leaves of which nothing may start are left out.
  Line(State& state, PoolId pool);

  JobId head();  // kNoId: all served
  void pop();    // the head has been dealt with

  // Something ended or was given up: ranks may have become better, and jobs have come back. O(leaves).
  void rank_anew();

  PoolId pool() const { return pool_; }
  const std::vector<Resources>& fair() const { return fair_; }
  LeafId leaf() const { return leaves_[head_].leaf; }  // of the head
  const std::vector<LeafId>& path() const { return leaves_[head_].path; }
  const std::vector<LeafId>& barred() const { return barred_; }  // the leaves that were left out

 private:
  struct Leaf {
    LeafId leaf = kNoId;
    std::vector<LeafId> path;
    Seniority seniority;
    const std::set<WaitKey>* jobs = nullptr;
    std::set<WaitKey>::const_iterator next;
  };
  bool skip_started(Leaf& leaf) const;  // false: none is left
  LeafRank rank(const Leaf& leaf) const;

  State& state_;
  PoolId pool_;
  std::vector<Resources> fair_;
  std::vector<Leaf> leaves_;
  std::vector<LeafId> barred_;
  std::set<std::pair<LeafRank, std::size_t>> order_;
  std::size_t head_ = 0;
  bool has_head_ = false;
};

}  // namespace muster::placement
