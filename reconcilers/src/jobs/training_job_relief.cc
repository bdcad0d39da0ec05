// GPUs that are shared and whose memory fills up: who goes elsewhere, as memory_pressure.h has it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/jobs/training_job.h"
#include "muster/reconcilers/jobs/translate.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/sharing/gpu_holders.h"

namespace muster::reconcilers {
namespace {

// Who has a part of a GPU.
struct OnGpu {
  JobPtr job;
  bool says_priority = false;
  std::vector<Place> places;  // of the job, on this GPU
};
using Shared = std::map<NodeGpu, std::vector<OnGpu>>;

bool says_priority(const crds::TrainingJobSpec& spec, const std::string& role) {
  const auto found = std::ranges::find(spec.roles, role, &crds::Role::name);
  return found != spec.roles.end() && found->gpus &&
         found->gpus->on_memory_pressure == crds::MemoryPressure::kPriority;
}

void add_parts(const JobPtr& job, Shared& shared) {
  const auto& spec = job->value.spec;
  for (const auto& place : job->value.status.assignment.pods) {
    if (!shares_gpus(spec, place)) continue;
    for (const auto gpu : place.gpus) {
      auto& parts = shared[{place.node, gpu}];
      if (parts.empty() || parts.back().job != job) parts.push_back({.job = job, .places = {}});
      OnGpu& part = parts.back();
      part.says_priority = part.says_priority || says_priority(spec, place.role);
      part.places.push_back({place.role, place.index, place.node, place.gpus});
    }
  }
}

bool has_gone_lately(const crds::TrainingJobStatus& status, crds::Time now) {
  return std::ranges::any_of(status.disruptions, [&](const crds::Disruption& line) {
    return line.reason == kMemoryPressure && line.at + kJobRest > now;
  });
}

// Somebody leaves it already, and gives its memory back.
bool is_left(const ReconcilerContext& context, const std::string& gpu) {
  const auto pods = context.caches.pods.store().by_index(kBySharedGpu, gpu);
  return std::ranges::any_of(pods, [](const auto& pod) { return pod->deleting; });
}

// In the order of the parts.
std::vector<Sharer> sharers_of(const ReconcilerContext& context, const std::vector<OnGpu>& parts) {
  std::vector<Sharer> all;
  for (const OnGpu& part : parts) {
    const auto& status = part.job->value.status;
    const bool is_decided = context.placement.decision(part.job->meta.key()).has_value();
    const auto wish = translate_job(*effective(part.job, context.caches), context.caches);
    all.push_back({.job = part.job->meta.key(),
                   .says_priority = part.says_priority,
                   .priority = wish.priority,
                   .is_idle = crds::is_true(status.conditions, "Idle"),
                   .rests = is_decided || has_gone_lately(status, context.now()),
                   .admitted = status.assignment.admitted_at});
  }
  return all;
}

JobDecision eviction_from(const NodeGpu& gpu, const OnGpu& part, const Sharer& sharer, std::int32_t percent,
                          std::size_t sharers) {
  JobDecision evict;
  evict.kind = JobDecision::Kind::kEvict;
  evict.generation = part.job->value.metadata.generation;
  evict.places = part.places;
  evict.reason = kMemoryPressure;
  evict.message = fmt::format(
      "the memory of GPU {} of node {} is {} % full, and {} jobs share it; of those that state "
      "onMemoryPressure: Priority this one {}",
      gpu.index, gpu.node, percent, sharers,
      sharer.is_idle ? "is idle" : fmt::format("has the lowest priority, {}", sharer.priority));
  return evict;
}

}  // namespace

std::vector<client::Key> TrainingJobReconciler::relieve(const std::string& pool) {
  const auto in = context_.caches.node_pools.store().find(pool);
  if (context_.gpu_monitor == nullptr || context_.gpu_holders == nullptr || !in ||
      !in->value.spec.gpu_metrics)
    return {};
  const std::int32_t bound = in->value.spec.gpu_metrics->memory_pressure_at;
  Shared shared;
  for (const auto& [key, job] : context_.caches.jobs.store().all()) {
    const auto& a = job->value.status.assignment;
    if (a.attempt != 0 && a.pool == pool && has_shares(job->value.spec)) add_parts(job, shared);
  }
  const auto now = context_.env.clock.now();
  FullGpus& known = full_gpus_[pool];
  std::vector<client::Key> going;
  std::set<std::string> looked_at;
  for (const auto& [gpu, parts] : shared) {
    if (std::ranges::none_of(parts, &OnGpu::says_priority)) continue;
    const std::string gpu_key = key_of(gpu);
    looked_at.insert(gpu_key);
    const auto used =
        context_.gpu_monitor->memory_used(pool, {gpu.node, context_.gpu_holders->pod_key(gpu), {gpu.index}});
    if (!known.note(gpu_key, now, used, bound) || is_left(context_, gpu_key)) continue;
    const auto sharers = sharers_of(context_, parts);
    const Sharer* sharer = who_goes(sharers);
    if (sharer == nullptr) continue;
    const OnGpu& part = parts[static_cast<std::size_t>(sharer - sharers.data())];
    log_info("a shared GPU is full", {{"gpu", gpu_key}, {"goes", sharer->job}});
    context_.placement.decide(sharer->job, eviction_from(gpu, part, *sharer, *used, parts.size()));
    known.has_left(gpu_key, now);
    going.push_back(sharer->job);
  }
  known.keep_only(looked_at, now);
  return going;
}

}  // namespace muster::reconcilers
