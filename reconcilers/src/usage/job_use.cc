#include "muster/reconcilers/usage/job_use.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "muster/common/saturating.h"
#include "muster/reconcilers/lifecycle/gang.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace {

using common::saturating_add;

constexpr std::int64_t kMib = 1 << 20;

void hold(Held& held, Doing doing, std::int64_t milli_gpus, std::int64_t milli_cpus, std::int64_t bytes) {
  held.gpus(doing) = saturating_add(held.gpus(doing), std::max<std::int64_t>(milli_gpus, 0));
  held.milli_cpus = saturating_add(held.milli_cpus, std::max<std::int64_t>(milli_cpus, 0));
  held.memory_mib = saturating_add(held.memory_mib, std::max<std::int64_t>(bytes, 0) / kMib);
}

Doing doing_of(const crds::TrainingJobStatus& status) {
  if (!status.started_at) return Doing::kStarting;
  return crds::is_true(status.conditions, "Idle") ? Doing::kIdle : Doing::kRunning;
}

// What a job that has ended held then: its status names the pods that succeeded, and not their places.
Held held_until_end(const crds::TrainingJob& job, const crds::TrainingJobStatus& status,
                    const Translation& wish) {
  Held held;
  std::int64_t left = std::max(status.succeeded_replicas, crds::replicas_of(job.spec));
  for (std::size_t r = 0; r < job.spec.roles.size() && r < wish.needs.size(); ++r) {
    const auto& needs = wish.needs[r];
    const auto pods = std::min<std::int64_t>(left, crds::most_replicas(job.spec.roles[r]));
    left -= pods;
    const bool is_fraction = needs.share.kind == placement::GpuShare::Kind::kFraction;
    const std::int64_t part = is_fraction ? needs.share.milli.value : 1000;
    hold(held, Doing::kRunning, common::saturating_multiply(pods, needs.gpus * part),
         common::saturating_multiply(pods, needs.requests.cpu.value),
         common::saturating_multiply(pods, needs.requests.memory.value));
  }
  return held;
}

// GPUs that the assignment has, by node.
std::set<std::pair<std::string, std::int32_t>> gpus_of(const crds::Assignment& assignment) {
  std::set<std::pair<std::string, std::int32_t>> gpus;
  for (const auto& place : assignment.pods) {
    for (const auto gpu : place.gpus) gpus.emplace(place.node, gpu);
  }
  return gpus;
}

}  // namespace

JobUse use_of(const crds::TrainingJob& job, const crds::TrainingJobStatus& status, const Translation& wish,
              const std::vector<client::Ptr<client::Pod>>& pods, const PlaceCost& cost) {
  JobUse use;
  use.user = user_of(job);
  if (crds::is_true(status.conditions, "Complete")) {
    use.size = size_of(job, wish);
    use.run_seconds = status.run_seconds;
  }
  const auto* idle = crds::find_condition(status.conditions, "Idle");
  if (idle != nullptr && idle->status == crds::ConditionStatus::kTrue)
    use.idle_since = idle->last_transition_time;
  const auto& a = status.assignment;
  use.pool = a.attempt != 0 ? a.pool : status.nominated.pool;
  if (a.attempt == 1 && a.admitted_at && job.metadata.creation_timestamp) {
    use.first_start = a.admitted_at;
    use.waited_seconds = (*a.admitted_at - *job.metadata.creation_timestamp).count();
  }
  if (a.attempt != 0 && !is_finished(status)) {
    use.begin = a.admitted_at;
    if (use.begin && a.resized_at) use.begin = std::max(*use.begin, *a.resized_at);
    use.whole = status.started_at;
    const auto doing = doing_of(status);
    for (const auto& place : a.pods) {
      const auto role = std::ranges::find(job.spec.roles, place.role, &crds::Role::name);
      const auto r = static_cast<std::size_t>(role - job.spec.roles.begin());
      const auto requests = r < wish.needs.size() ? wish.needs[r].requests : PodRequests{};
      hold(use.held, doing, cost_of(place, cost).value, requests.cpu.value, requests.memory.value);
    }
    // A replica that moves serves there until it is ready here.
    for (const auto& place : a.replaces.pods)
      hold(use.held, Doing::kRunning, cost_of(place, cost).value, 0, 0);
  }
  if (is_finished(status) && status.started_at && status.finished_at) {
    use.whole = status.started_at;
    use.end = status.finished_at;
    use.until_end = held_until_end(job, status, wish);
  }
  // Most looks are at gangs that are as they should be.
  if (pods.size() <= a.pods.size() + a.replaces.pods.size()) return use;
  const auto taken = gpus_of(a);
  for (const auto* pod : match(a, pods).strays) {
    if (is_terminal(*pod) || pod->node_name.empty()) continue;
    const auto id = identity_of(*pod);
    if (!id) continue;
    const auto gpus = gpus_of(*pod);
    const bool is_taken =
        std::ranges::any_of(gpus, [&](std::int32_t gpu) { return taken.contains({pod->node_name, gpu}); });
    if (is_taken) continue;
    const crds::PodAssignment place{id->role, id->index, pod->node_name, gpus};
    hold(use.held, Doing::kSaving, cost_of(place, cost).value, pod->milli_cpu, pod->memory_bytes);
  }
  return use;
}

}  // namespace muster::reconcilers
