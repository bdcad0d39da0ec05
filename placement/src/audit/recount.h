// What is held, summed anew from the allocation of every single pod: for the auditor, which trusts no index.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// A level beside this one lends to non-preemptible jobs that run for as long as this one may. How much of it
// was idle when the job started is not known any more.
bool may_be_lent_to(const QueueTree& tree, QueueId at, const JobSpec& job);

struct Tally {
  Resources running, nominated, leaving;
  Resources non_preemptible;  // of running and nominated: what is not preemptible
  bool anybody_leaves = false;

  Resources target() const { return running + nominated; }
  Resources now() const { return running + leaving; }
};

class Recount {
 public:
  explicit Recount(const ClusterModel& state);
  void add(const Allocation& allocation, int sign = 1);

  Tally of(QueueId at, PoolId pool) const;  // what is below it in the tree, too
  Tally on(NodeId node) const;
  // Who has what of a GPU: kTarget without what is leaving, kForNominated without what is nominated.
  std::vector<GpuUse> uses(NodeId node, std::int32_t gpu, View view) const;
  // GPUs of the node that nobody has a part of, as if all that are leaving had gone.
  std::int64_t idle_gpus(NodeId node) const;

 private:
  struct Devices {
    std::map<std::int32_t, std::vector<GpuUse>> uses;
    std::int64_t unnamed = 0;
  };
  const ClusterModel& s_;
  std::map<std::pair<QueueId, PoolId>, Tally> tree_;
  std::map<NodeId, Tally> nodes_;
  std::map<NodeId, Devices> devices_;
};

// From a tree node to the top, by the names that the specs give; empty: it does not reach the top.
std::vector<QueueId> way_up(const QueueTree& tree, QueueId from);

}  // namespace muster::placement
