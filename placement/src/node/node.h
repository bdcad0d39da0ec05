// One node: what it has, who has which of its GPUs, and what that leaves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/placement/node.h"
#include "node/devices.h"
#include "node/ids.h"

namespace muster::placement {

// Devices beyond this are not believed: an index comes from a status that anybody may have written.
inline constexpr std::int32_t kMaxGpusPerNode = 1024;

// What is held of something, in each of the ways.
struct Held {
  Resources used;       // by what runs and what is nominated
  Resources nominated;  // of these
  Resources leaving;    // beside these

  bool operator==(const Held&) const = default;
  void add(const Resources& amounts, Hold hold, int sign);
};
// What that leaves in a view; negative where more is held than there is.
Resources free_of(const Resources& has, const Held& held, View view);

// One node: what is left of it, and who has which GPU.
struct Node : Held {
  NodeSpec spec;
  bool known = false;   // false: only named by an assignment or a pod so far
  PoolId pool = kNoId;  // the one pool that selects it
  bool shared = false;  // selected by several: used by none
  ModelId model = kNoId;
  std::int32_t model_place = -1;  // where Resources::named counts GPUs of its model; -1: nowhere
  Resources used_by_others;
  std::vector<Gpu> gpus;
  std::vector<Held> zones;      // by NUMA node, where spec.zones says what these have
  std::vector<CutSlices> cut;   // one for each profile of spec.mig or that somebody has; grows only
  bool linked = false;          // links_differ()
  std::int32_t named_gpus = 0;  // healthy entries of `gpus` that somebody has who is not leaving
  std::int32_t unhealthy = 0;
  std::int32_t unnamed_gpus = 0;      // held by pods of which only the number is known, and that stay
  std::int32_t unnamed_leaving = 0;   // held by those of them that are leaving
  std::int32_t allocations = 0;       // pods that are charged here
  std::int32_t tree_allocations = 0;  // of these, pods outside assignments that count against a Project
  std::vector<DomainId> domains;      // of its pool, the whole pool first
  Resources counted;                  // what is counted as free in these domains
  MilliGpu spare;                     // … and in Pool::spare_gpu
  Resources counted_others;           // … and in Pool::used_by_others
  bool kept_for_reservation = false;  // by Pool::reservation
  std::uint64_t stamp = 0;  // of the last change of it or of what is held of it; never the same again

  bool takes_part() const { return known && pool != kNoId && !shared && spec.usable; }
  // GPUs held by pods of which only the number is known.
  std::int32_t unnamed(View view) const {
    return unnamed_gpus + (view == View::kTarget ? 0 : unnamed_leaving);
  }
  // GPUs that nobody has a part of, as if all that are leaving had gone.
  std::int32_t free_gpus() const { return spec.gpus - unhealthy - unnamed_gpus - named_gpus; }
  Resources free(View view = View::kTarget) const;  // never negative; gpu: whole ones, and only of kTarget
  bool healthy(std::int32_t gpu) const;
  void count_named();                                  // sets named_gpus; after the spec changed
  std::int32_t cut_index(const std::string& profile);  // into `cut`; made where there is none
};
// Of the node when it is empty: what is allocatable, with its healthy GPUs and the MIG slices that it lists.
Resources capacity_of(const Node& node);
struct Allocation;
// Whoever has GPUs of this node has so many of its model. To be called when amounts.gpu is known.
void charge_model(const Node& node, Allocation& allocation);

// One pod's allocation, as it was made; giving it back undoes exactly that.
struct Allocation {
  NodeId node = kNoId;
  Resources amounts;
  std::vector<std::int32_t> gpus;
  const Labels* labels = nullptr;  // of a pod outside jobs: one of OtherAllocations::label_sets_
  GpuUse use;                      // of each of them
  std::int32_t unnamed = 0;
  std::int32_t zone = -1;   // NUMA node, where all its GPUs are on one that tells what it has
  std::int32_t slices = 0;  // out of those that the node has cut already
  std::int32_t cut = -1;    // which: index into Node::cut
  JobId holder = kNoId;
  QueueId leaf = kNoId;
  PoolId pool = kNoId;
  bool non_preemptible = false;  // not preemptible
  Hold hold = Hold::kRunning;
  std::uint64_t added_in = 0;  // the plan that has added this pod to a job that ran: ClusterModel::plans
};

}  // namespace muster::placement
