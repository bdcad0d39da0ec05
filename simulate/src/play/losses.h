// GPU time that was allocated and did no work that was kept, by what it went to.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "muster/placement/amounts.h"

namespace muster::simulate {

enum class Loss : std::uint8_t {
  kWork,        // done, and not kept
  kStopping,    // held by pods that were told to go
  kStarting,    // in the first attempt, until the gang works
  kRestarting,  // the same in later ones
  kResizing,    // while a gang that runs takes in members, or goes on without some
};
inline constexpr std::array<std::string_view, 5> kLossNames = {"work", "stopping", "starting", "restarting",
                                                               "resizing"};

struct Losses {
  std::array<std::int64_t, kLossNames.size()> milli_gpu_ms{};

  std::int64_t& operator[](Loss loss) { return milli_gpu_ms[static_cast<std::size_t>(loss)]; }
  Losses& operator+=(const Losses& o) {
    for (std::size_t i = 0; i < milli_gpu_ms.size(); ++i) milli_gpu_ms[i] += o.milli_gpu_ms[i];
    return *this;
  }
};

// What a gang loses from one instant on.
class LossMeter {
 public:
  // What was lost since set().
  Losses read(placement::Time now) const {
    Losses sum = rates_;
    for (std::int64_t& part : sum.milli_gpu_ms) part *= (now - since_).ms;
    return sum;
  }
  // From now on; `rates`: thousandths of a GPU.
  void set(placement::Time now, const Losses& rates) { since_ = now, rates_ = rates; }

 private:
  placement::Time since_;
  Losses rates_;
};

}  // namespace muster::simulate
