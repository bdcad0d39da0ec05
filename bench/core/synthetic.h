// Made-up clusters and workloads of a given size, the same ones every time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/placement/cluster.h"

namespace muster::bench {

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine, which <random>'s distributions do
// not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // 0 <= result < bound; the bias of the remainder is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

inline constexpr std::int32_t kGpusPerNode = 8;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;
// Labels of the four topology levels, coarse to fine. 25 nodes a rack, 25 racks a block, 4 blocks a zone.
inline constexpr const char* kZone = "topology.kubernetes.io/zone";
inline constexpr const char* kBlock = "bench/block";
inline constexpr const char* kRack = "bench/rack";
inline constexpr const char* kHost = "kubernetes.io/hostname";

placement::PoolSpec pool_spec();
placement::NodeSpec node_spec(std::size_t index, std::int32_t gpus = kGpusPerNode);
void add_nodes(placement::Cluster& cluster, std::size_t count, std::int32_t gpus = kGpusPerNode);

// Projects named project-0, project-1, … ten to a Queue, and ten such Queues to a Queue above. Every Project
// has `quota` whole GPUs and weight 1; the Queues have what is below them.
void add_projects(placement::Cluster& cluster, std::size_t count, std::int64_t quota);
placement::QueueSpec project_spec(std::size_t index, std::int64_t quota, std::int64_t weight = 1);

// `pods` equal pods of so many milli-GPU each: whole GPUs, or less than 1000 for a part of one.
// Submitted at kNow.
placement::JobSpec job_spec(const std::string& name, std::size_t project, std::int32_t pods,
                            std::int64_t milli_gpu);

// What a busy cluster runs: of 100,000 pods 8000 alone with a GPU, 4000 with half of one, gangs of 8 and of
// 32 pods of a GPU, gangs of 16 and 128 whole nodes, and a third without GPUs; 81 % of the GPUs of `pods` / 8
// nodes. In a fixed shuffled order, over the projects at random.
std::vector<placement::JobSpec> workload(std::size_t pods, std::size_t projects);

// The time that all of it happens at.
inline constexpr placement::Time kNow{1'700'000'000'000};

// Decisions of the plan.
std::int64_t starts(const placement::Plan& plan);
std::int64_t evictions(const placement::Plan& plan);
// What the operator does with a plan: what starts is written down, and comes back.
void confirm(placement::Cluster& cluster, const placement::Plan& plan);

}  // namespace muster::bench
