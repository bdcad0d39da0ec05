// How amounts, times and names are written in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/placement/amounts.h"
#include "muster/placement/pool.h"
#include "muster/placement/queue.h"

namespace muster::placement {

// "3", "2500m", "512Mi" as people write amounts of the resource (gpu, cpu, memory, pods).
std::string show(std::string_view resource, std::int64_t amount);
// What is counted of the resource in this pool: "nvidia.com/gpu", "CPUs", "memory", "pod slots".
std::string unit_of(const PoolSpec& pool, std::string_view resource);
// "2026-01-02T03:04:05Z"; a part of a second counts as a whole one.
std::string show(Time at);
// "Project a", "Queue b".
std::string who(const QueueSpec& spec);
// "a, b, c"; of more than `most` the first ones and "…".
std::string join(const std::vector<std::string>& list, std::size_t most);

}  // namespace muster::placement
