// RULES.md 2.1 to 2.3: the order in which one pool is served. The first waiting jobs of all leaf queues stand
// in it.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "model/cluster_model.h"
#include "order/infeasible.h"
#include "order/order.h"

namespace muster::placement {

// While jobs start and nothing ends, ranks only become worse. So only the first leaf queue is ranked anew. If
// it is still before the next, it is the first indeed; else it goes back. A caller that makes something end
// calls rank_anew(). Meanwhile the pending queues of the pool may gain jobs, but may not lose any (see
// ClusterModel::stop_waiting). Jobs that hold an assignment are passed over.
class ServiceOrder {
 public:
  // Leaves out leaf queues in which nothing may start, and kinds of jobs that would be drained before they
  // end, or are infeasible. Of the last there is one exception: where the pool has no reservation yet, the
  // first infeasible job of each leaf queue has its turn, because it may be the one that gets one.
  ServiceOrder(ClusterModel& state, PoolId pool);

  JobId head();  // kNoId: all served
  bool head_is_infeasible() const;
  // The head has been dealt with. `refused`: jobs of its leaf queue that ask the same need not be looked at.
  void pop(bool refused);

  // Something ended or was given up, so ranks may have become better. O(leaf queues).
  void rank_anew();

  // The first `most` of all jobs that wait now, in the order in which they would be served. Leaf queues that
  // have begun to wait since this ServiceOrder was made are left out. O(leaf queues + most x log leaf
  // queues).
  std::vector<JobId> in_order(std::size_t most) const;

  PoolId pool() const { return pool_; }
  const std::vector<Resources>& fair() const { return fair_; }
  const std::vector<QueueId>& path() const { return leaves_[head_].path; }  // of the head's leaf queue
  const std::vector<QueueId>& barred() const { return barred_; }  // the leaf queues that were left out

 private:
  struct Kind {
    const std::set<PendingKey>* jobs = nullptr;
    std::set<PendingKey>::const_iterator next;
    bool infeasible = false;
  };
  struct Earlier {
    bool operator()(const std::pair<const PendingKey*, std::size_t>& a,
                    const std::pair<const PendingKey*, std::size_t>& b) const {
      return *a.first < *b.first;
    }
  };
  struct Leaf {
    QueueId leaf = kNoId;
    std::vector<QueueId> path;
    Seniority seniority;
    std::vector<Kind> kinds;
    std::set<std::pair<const PendingKey*, std::size_t>, Earlier> heads;  // of its kinds
  };
  void fill(Leaf& leaf, Infeasible& infeasible) const;
  void push(Leaf& leaf, std::size_t kind) const;  // its next one that waits, if any
  bool skip_started(Leaf& leaf) const;            // false: none is left
  LeafRank rank(const Leaf& leaf, JobId first) const;

  ClusterModel* state_;
  PoolId pool_;
  std::vector<Resources> fair_;
  std::vector<Leaf> leaves_;
  std::vector<QueueId> barred_;
  std::set<std::pair<LeafRank, std::size_t>> order_;
  std::size_t head_ = 0;
  bool has_head_ = false;
};

}  // namespace muster::placement
