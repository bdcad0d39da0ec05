// RULES.md 4: a complete set of nodes and GPUs for a gang in one pool, or none.
#pragma once

#include <optional>
#include <vector>

#include "model/cluster_model.h"
#include "model/statement.h"

namespace muster::placement {

// What is to be placed, and where.
struct PlaceQuery {
  JobId job = kNoId;
  PoolId pool = kNoId;
  View view = View::kNow;
  Hold hold = Hold::kRunning;  // how the places are taken
  // Empty: the whole minimum of the gang. Else these pods, beside what the job holds already.
  std::vector<PodWish> pods;
  // Only nodes of this domain of the pool.
  DomainId within = kWholePool;
  // Also nodes that are reserved for somebody else (reservation.h).
  bool anywhere = false;
};

// Places all of it in `statement`. nullopt: it does not fit, nothing is left placed, and `refusal` (where
// given) says why. Pack: each role on as few nodes as possible, of equal ones on that which keeps least idle
// beside it. Spread: pod by pod on the emptiest node. Pods without GPUs avoid nodes with GPUs. A gang of one
// role without topology is placed whenever it can be; with several roles that compete for the same nodes it
// is a heuristic, tried in two orders of the roles. O(distinct numbers of free GPUs x models) for each node
// used, when CPU and memory are not what is short and no affinity is preferred; else O(nodes with enough free
// GPUs).
std::optional<std::vector<PodPlace>> place(ClusterModel& state, Statement& statement, const PlaceQuery& query,
                                           Refusal* refusal = nullptr);

// What the pods of the query are charged together. They must be of roles that the request has.
Resources asked(const ClusterModel& state, const PlaceQuery& query);

// The totals of the pool say that it cannot be; false: they do not say. O(distinct numbers of free GPUs x
// models).
bool refuted_by_totals(const ClusterModel& state, const PlaceQuery& query);

}  // namespace muster::placement
