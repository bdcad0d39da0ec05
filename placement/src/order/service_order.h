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

// While jobs start and nothing ends, ranks only grow worse: the first one is taken out, ranked anew, and is
// the first indeed if it is still before the next. Whoever makes something end calls rank_anew(). The pending
// queues of the pool may gain jobs meanwhile, but not lose any (see ClusterModel::stop_waiting); jobs that
// hold an assignment are passed over.
class ServiceOrder {
 public:
  // Leaves of which nothing may start are left out, and kinds that are infeasible; but of each leaf the first
  // of these has its turn where nobody has reserved yet: it may be the one who does.
  ServiceOrder(ClusterModel& state, PoolId pool);

  JobId head();  // kNoId: all served
  bool head_is_infeasible() const;
  // The head has been dealt with. `refused`: whoever asks the same in its leaf need not be looked at.
  void pop(bool refused);

  // Something ended or was given up: ranks may have become better. O(leaves).
  void rank_anew();

  // The first `most` of all that wait now, in the order in which they would be served. Leaves that started
  // to wait after this ServiceOrder was made are left out. O(leaves + most x log leaves).
  std::vector<JobId> in_order(std::size_t most) const;

  PoolId pool() const { return pool_; }
  const std::vector<Resources>& fair() const { return fair_; }
  const std::vector<QueueId>& path() const { return leaves_[head_].path; }  // of the head's leaf
  const std::vector<QueueId>& barred() const { return barred_; }            // the leaves that were left out

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
