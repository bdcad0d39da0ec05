#include "sharing/idle_room.h"

#include <algorithm>

namespace muster::bench {
namespace {

IdleCause cause_of(const std::string& reason) {
  if (reason == "LimitReached" || reason == "QuotaExceeded" || reason == "FairShareReached")
    return IdleCause::kLimits;
  if (reason == "Reserved") return IdleCause::kReserved;
  if (reason == "WaitingForVictims") return IdleCause::kPromised;
  return IdleCause::kUndecided;
}

}  // namespace

IdleRoom idle_room(const std::vector<std::int64_t>& nodes_by_free,
                   const std::map<Wish, std::int64_t>& waiting, std::int64_t growth) {
  IdleRoom room{};
  std::int64_t left = 0;
  for (std::size_t n = 0; n < nodes_by_free.size(); ++n)
    left += static_cast<std::int64_t>(n) * nodes_by_free[n];
  if (left == 0) return room;
  const std::int64_t free = left;
  IdleRoom wanted{};
  for (const auto& [wish, count] : waiting) {
    std::int64_t pods_that_fit = 0;
    for (std::size_t n = 0; n < nodes_by_free.size(); ++n)
      pods_that_fit += nodes_by_free[n] * (static_cast<std::int64_t>(n) / wish.gpus);
    const IdleCause cause = pods_that_fit >= wish.pods ? cause_of(wish.reason)
                            : wish.total() <= free     ? IdleCause::kFragments
                                                       : IdleCause::kGangs;
    wanted[static_cast<std::size_t>(cause)] += static_cast<double>(wish.total() * count);
  }
  wanted[static_cast<std::size_t>(IdleCause::kGrowth)] = static_cast<double>(growth);
  for (std::size_t i = 0; i < wanted.size() && left > 0; ++i) {
    const auto part = std::min(left, static_cast<std::int64_t>(wanted[i]));
    room[i] = static_cast<double>(part);
    left -= part;
  }
  return room;
}

}  // namespace muster::bench
