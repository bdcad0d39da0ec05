// The account of one NodePool: the GPU-seconds that its usable nodes had, and those that nobody held.
//
// Between two writes of the pool's status its `capacity` and `free` are as they stand there. So a process
// that goes on from `usage.until` counts with these, and nothing is lost with the one before it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "muster/crds/node_pool.h"

namespace muster::reconcilers {

class PoolAccount {
 public:
  // Goes on from what was written.
  explicit PoolAccount(const crds::NodePoolStatus& written);

  // What the pool has from now on. Instants never go back. O(days since the last call x log).
  void look(const crds::Amounts& capacity, const crds::Amounts& free, crds::Time now);
  // As it is to be written: until the last look. Of a pool without GPUs it stays as it is.
  crds::CapacityUsage status();

 private:
  struct Sum {
    std::int64_t had = 0, unallocated = 0;  // milli-GPU-seconds
    void add(std::int64_t capacity, std::int64_t free, std::int64_t seconds);
  };

  std::optional<crds::Time> counted_until_, written_until_;
  std::int64_t capacity_ = 0, free_ = 0;  // milli-GPU, since counted_until_
  bool has_changed_ = false;
  Sum total_;
  std::map<std::chrono::sys_days, Sum> days_;
};

}  // namespace muster::reconcilers
