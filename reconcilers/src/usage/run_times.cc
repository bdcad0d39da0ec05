#include "muster/reconcilers/usage/run_times.h"

#include <algorithm>

#include "muster/placement/node.h"

namespace muster::reconcilers {
namespace {

// What so many per cent of them did not exceed (nearest rank). There is at least one.
crds::Duration percentile(const std::vector<std::int64_t>& ascending, std::size_t percent) {
  const std::size_t rank = (ascending.size() * percent + 99) / 100;
  return crds::Duration{ascending[std::max<std::size_t>(rank, 1) - 1]};
}

UsualRunTime usual(std::vector<std::int64_t> seconds) {
  std::ranges::sort(seconds);
  return {percentile(seconds, 50), percentile(seconds, 90)};
}

}  // namespace

std::string user_of(const crds::TrainingJob& job) {
  const auto label = job.metadata.labels.find(std::string(kUserLabel));
  return label == job.metadata.labels.end() ? std::string() : label->second;
}

crds::MilliGpu size_of(const crds::TrainingJob& job, const Translation& wish) {
  crds::MilliGpu size;
  for (std::size_t r = 0; r < job.spec.roles.size() && r < wish.needs.size(); ++r) {
    const auto& needs = wish.needs[r];
    const bool is_fraction = needs.share.kind == placement::GpuShare::Kind::kFraction;
    const crds::MilliGpu of_pod =
        crds::MilliGpu{is_fraction ? needs.share.milli.value : placement::kMilliPerGpu} * needs.gpus;
    size += of_pod * crds::least_replicas(job.spec.roles[r]);
  }
  return size;
}

void learn(std::vector<crds::RunTimes>& known, const std::string& user, crds::MilliGpu gpus,
           std::int64_t seconds) {
  const auto is_like = [&](const crds::RunTimes& runs) { return runs.user == user && runs.gpus == gpus; };
  auto like = std::ranges::find_if(known, is_like);
  if (like == known.end()) {
    if (known.size() >= crds::RunTimes::kMost) known.resize(crds::RunTimes::kMost - 1);
    like = known.insert(known.end(), crds::RunTimes{});
    like->user = user;
    like->gpus = gpus;
  }
  like->seconds.insert(like->seconds.begin(), std::max<std::int64_t>(seconds, 0));
  if (like->seconds.size() > crds::RunTimes::kMostRuns) like->seconds.resize(crds::RunTimes::kMostRuns);
  const auto [median, percentile_90] = usual(like->seconds);
  like->median = median;
  like->percentile_90 = percentile_90;
  std::rotate(known.begin(), like, like + 1);
}

std::optional<UsualRunTime> usual_run_time(const std::vector<crds::RunTimes>& known, const std::string& user,
                                           crds::MilliGpu gpus) {
  std::vector<std::int64_t> of_all;
  for (const auto& runs : known) {
    if (runs.gpus != gpus) continue;
    if (runs.user == user && runs.seconds.size() >= kFewestRuns) return usual(runs.seconds);
    of_all.insert(of_all.end(), runs.seconds.begin(), runs.seconds.end());
  }
  if (of_all.size() < kFewestRuns) return std::nullopt;
  return usual(std::move(of_all));
}

}  // namespace muster::reconcilers
