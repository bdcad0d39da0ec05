// The experiment of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023): pods arrive one by one and
// never leave.
#pragma once

#include <cstdint>
#include <vector>

#include "packing/trace.h"

namespace muster::bench {

// The pods in the order of their arrival. The list is inflated with pods drawn from it again at random until
// its GPUs are `load` times those of the nodes, then shuffled (Fisher-Yates); where it asks for more from the
// start, it is cut off there after the shuffle. Numbers by SplitMix64 from the seed.
std::vector<TracePod> arrivals(const std::vector<TraceNode>& nodes, const std::vector<TracePod>& pods,
                               double load, std::uint64_t seed);

struct Outcome {
  double at_100 = 0,
         at_end = 0;  // milli-GPU allocated in per cent of capacity, when 100 % and all has arrived
  int dropped = 0;
};

// Each pod is submitted as a job of one pod that is not preemptible, in a Project that may have everything,
// to a pool that packs; what does not start in the plan that follows is removed again. Throws
// std::runtime_error where GPUs are given out twice.
Outcome replay(const std::vector<TraceNode>& nodes, const std::vector<TracePod>& arriving);

}  // namespace muster::bench
