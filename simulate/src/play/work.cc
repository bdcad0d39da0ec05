#include "play/work.h"

#include <algorithm>

namespace muster::simulate {
namespace {

// Rounded up to whole seconds of the epoch.
placement::Time whole_seconds(placement::Time t) {
  return {(t.ms + 999) / 1000 * 1000};
}

}  // namespace

void Work::advance(placement::Time now) {
  if (now <= at_) return;
  const auto after = [&](placement::Time t) {
    const std::int64_t ms = (t - at_).ms;
    return Done{done_.pod_ms + ms * pods_, done_.milli_gpu_ms + ms * milli_gpu_};
  };
  if (pods_ != 0 && interval_) {
    const std::int64_t intervals = (now - began_).ms / interval_->ms;
    const placement::Time last = began_ + placement::Duration{intervals * interval_->ms};
    if (last > at_) saved_ = after(last);
  }
  done_ = after(now);
  at_ = now;
}

std::optional<placement::Time> Work::ends() const {
  if (!total_ || pods_ == 0) return std::nullopt;
  const std::int64_t left = std::max<std::int64_t>(total_->ms * most_ - done_.pod_ms, 0);
  return whole_seconds(at_ + placement::Duration{(left + pods_ - 1) / pods_});
}

}  // namespace muster::simulate
