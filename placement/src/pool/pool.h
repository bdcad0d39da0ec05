// One pool: its nodes by domain, who waits for it and who holds places in it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/placement/pool.h"
#include "node/ids.h"
#include "pool/fragmentation.h"
#include "pool/ranking.h"
#include "pool/roster.h"

namespace muster::placement {

// Nodes by model and free GPUs, sorted in each bucket: buckets bound from above what fits, without a look at
// any node. A bucket may be empty.
using Buckets = std::map<std::int32_t, std::vector<NodeId>>;

// Part of a pool: all of it, or the nodes with the same labels down to one topology level. The level of
// single hosts has no domains: there the nodes themselves are what is looked at.
struct Domain {
  DomainId parent = kNoId;
  std::int32_t depth = 0;  // 0: the whole pool; else that many labels
  std::string value;       // of the last of these labels
  std::vector<DomainId> children;
  std::int32_t nodes = 0;
  Resources capacity, free;
  std::map<ModelId, Buckets> by_free;
};

// Who is served when within a leaf: priority, then submission, then name.
struct PendingKey {
  std::int64_t minus_priority = 0;
  Time submitted;
  std::string id;
  JobId job = kNoId;
  auto operator<=>(const PendingKey&) const = default;
};

// Jobs of one leaf that have equal prospects: when one of them is refused, so is each that comes after it.
struct PendingKind {
  RequestId request = kNoId;
  std::int64_t priority = 0;
  bool preemptible = true;
  std::int64_t ends_within = 0, saves_within = 0;  // max_runtime, checkpoint_interval in ms; -1: left out
  JobId alone = kNoId;                             // of a job with several pools: it is a kind of its own
  auto operator<=>(const PendingKind&) const = default;
};
// Those of one leaf, in order, and by kind; no set is empty.
struct PendingQueue {
  std::set<PendingKey> all;
  std::map<PendingKind, std::set<PendingKey>> kinds;
};

// At one level of the tree, or at several.
struct BoundsKept {
  bool quota = false, fair = false;  // to stay within it

  bool any() const { return quota || fair; }
  bool operator==(const BoundsKept&) const = default;
};

// Nodes that are kept for the first in order, which has waited long (reservation.h).
struct Reservation {
  JobId owner = kNoId;
  std::string name;           // of the owner: its id may be used again
  std::vector<NodeId> nodes;  // sorted
  std::optional<Time> start;  // when all of it will be free; nullopt: somebody there has no max_runtime
  Time made;
  std::vector<BoundsKept> kept_bounds;  // of its owner, at each level from its leaf up
};

struct Pool {
  PoolSpec spec;
  bool known = false;
  std::set<NodeId> nodes;                                // selected by this pool alone; usable or not
  std::set<std::string> shared;                          // names of nodes that another pool selects too
  std::vector<Domain> domains = std::vector<Domain>(1);  // [0]: the whole pool
  std::map<std::string, DomainId> domain_ids;            // by path of labels
  std::size_t most_domains = 64;                         // beyond, drop_empty_domains() does so
  std::map<std::int64_t, std::int32_t> gpu_memories;     // of its usable nodes with GPUs, counted
  std::int64_t priced_by = -1;                     // the largest of these at the last settle(); -1: none
  std::map<std::int32_t, std::int32_t> zone_gpus;  // of its usable nodes: the largest NUMA node's, counted
  mutable Rankings rankings;                       // what searches have found out; of no other meaning
  mutable Roster roster;                           // its usable nodes side by side: roster_of()
  Fragmentation fragmentation;  // by the requests of jobs that are counted here, see count()
  std::map<QueueId, PendingQueue> pending_queues;  // what may start here, by Project
  std::int64_t leaving = 0;                        // pods that are on their way out of its nodes
  std::size_t waiting = 0;                         // in these
  std::set<JobId> unjudged;        // of those whose first pool this is: without a pending reason
  std::optional<Time> judged_all;  // when all pending reasons were last looked at, where many wait
  // Where the work for that was too much for one plan: the plan that began with it. 0: it is done.
  std::uint64_t judging_since = 0;
  bool has_unserved = false;  // the last plan was cut off before everybody who waits here had a turn
  std::map<QueueId, std::set<JobId>> holding;  // who has places here, by Project
  // Of these, how many are preemptible, by Project and priority.
  std::map<std::pair<QueueId, std::int64_t>, std::int32_t> preemptible_jobs;
  // What preemptible elastic jobs have here beyond their minimums, by Project.
  std::map<QueueId, Resources> held_surplus;
  std::set<std::pair<Time, JobId>> ends;                   // of what runs here and says when: end_of()
  std::set<std::pair<Time, JobId>> learned_ends;           // learned_end_of(): both instants of each
  std::set<JobId> growable;                                // running elastic jobs that could be larger
  std::set<std::pair<std::int64_t, std::string>> holders;  // (minus milli-GPU, job)
  // plan() has nothing to do here while these two are equal and nothing is left over from the last plan …
  std::uint64_t version = 1, judged = 0;
  std::optional<Time> due;      // … before this
  std::uint64_t gains = 1;      // grows when something becomes free: what was refused may fit now
  std::vector<Resources> fair;  // fair_shares() by which the plan judges now; by QueueId
  struct {
    std::uint64_t version = 0;
    std::vector<Resources> shares;
  } fair_answered;  // the same between plans: what Cluster::fair_share() has computed at that version
  std::uint64_t members = 1;  // grows when a usable node comes, goes or is another
  std::optional<Reservation> reservation;
  // Of its usable nodes.
  MilliGpu used_gpu;   // parts of GPUs included
  MilliGpu spare_gpu;  // spare_gpu() of each
  Resources used_by_others;
};

}  // namespace muster::placement
