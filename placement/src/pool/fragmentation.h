// RULES.md 4.4: how much of what is left of a node's GPUs is of no use for what the jobs of the pool
// typically ask for. This is the fragmentation gradient (Weng et al., "Beware of Fragmentation", USENIX ATC
// 2023).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "muster/placement/job.h"
#include "node/wide.h"

namespace muster::placement {

struct Node;

// What one pod asks for, as far as it matters for what it can use of a node.
struct TypicalRequest {
  std::int32_t gpus = 0;
  std::int32_t milli = 0;  // of each
  Bytes memory;            // of each, where that was asked: then `milli` depends on the node
  MilliCpu cpu;
  std::vector<std::string> models;  // any of these, sorted; empty: any
  auto operator<=>(const TypicalRequest&) const = default;
};

// The requests of a pool's jobs, counted, and what nodes have left for them. Weights are counts rounded down
// to powers of two: they, and all that is kept by them, change seldom.
class Fragmentation {
 public:
  struct Weighted {
    TypicalRequest request;
    std::int64_t weight = 0;
    bool operator==(const Weighted&) const = default;
  };

  // `pods` of the role come, or go (negative). Pods without GPUs and MIG slices have no say. O(log requests).
  void count(const RoleSpec& role, std::int64_t pods);

  // Before a search. Takes the counts as they are now; `capacity`: of the pool. O(1) unless a weight changed,
  // else O(distinct requests).
  void prepare(const Resources& capacity);

  // The most frequent requests, as of prepare(); not those of less than a thousandth of the pods.
  const std::vector<Weighted>& typical() const { return typical_; }
  enum class Matters : std::uint8_t {
    kNot,      // all ask for equally many whole GPUs of the same models: what fits tightest wastes least
    kByCount,  // they ask for whole GPUs: it depends on the model and on how many a node has left
    kByNode,   // they share GPUs, or ask for more CPU with a GPU than the pool has on average
  };
  Matters matters() const { return matters_; }
  // Grows when typical() changes, and with it all that increase() says.
  std::uint64_t version() const { return version_; }

  // Micro-GPU of what nobody has on the node that typical requests cannot use: the mean over them of what
  // each finds too small, of the wrong model or without CPU beside it; and what is left of GPUs beyond the
  // CPUs that go with it on average. In the view kTarget. O(typical requests x started GPUs).
  std::int64_t unusable(const Node& node) const;

  // By how much that grows when a pod of the role comes to the node (onto the fullest GPUs that take it).
  // Kept until the node or a weight changes: then O(1).
  std::int64_t increase(const Node& node, std::size_t node_id, const RoleSpec& role) const;

 private:
  struct Left;
  struct Kept {
    std::uint64_t stamp = 0;  // Node::stamp when it was computed; 0: never
    std::int64_t value = 0;
  };
  using Key = std::tuple<GpuShare::Kind, std::int64_t, std::int64_t, std::int32_t, std::int64_t>;

  std::int64_t unusable(const Node& node, const Left& left) const;

  std::map<TypicalRequest, std::int64_t> counts_;
  bool changed_ = false;  // a weight
  std::vector<Weighted> typical_;
  std::int64_t weight_ = 0;  // of all of them
  Wide gpu_ = 0, cpu_ = 0;   // what they ask for in all, weighted: milli-GPU and milli-CPU
  Matters matters_ = Matters::kNot;
  std::uint64_t version_ = 0;
  Resources capacity_;
  // What has been computed already; of no other meaning.
  mutable std::vector<Kept> now_;                   // unusable(), by node
  mutable std::map<Key, std::vector<Kept>> after_;  // increase(), by what the role asks for and node
};

}  // namespace muster::placement
