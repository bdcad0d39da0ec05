#include "report/entries.h"

#include <algorithm>

#include "muster/common/quantity.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/schedules/effective_spec.h"

namespace muster::simulate {
namespace {

Entry pods_entry(const Pods& pods) {
  Entry list = Entry::array();
  for (const PodAt& p : pods)
    list.push_back({{"role", p.role}, {"index", p.index}, {"node", p.node}, {"gpus", p.gpus}});
  return list;
}

Entry time_entry(const std::optional<pl::Time>& t) {
  return t ? Entry(seconds_text(to_instant(*t))) : Entry();
}

Entry amounts_entry(const crds::AmountsByModel& a) {
  Entry entry = Entry::object();
  if (a.gpu) entry["gpu"] = crds::to_string(*a.gpu);
  if (a.cpu) entry["cpu"] = crds::to_string(*a.cpu);
  if (a.memory) entry["memory"] = crds::to_string(*a.memory);
  for (const auto& [name, amount] : a.resources)
    entry["resources"][name] = common::format_resource(name, amount);
  for (const auto& [model, amount] : a.models) entry["models"][model] = crds::to_string(amount);
  return entry;
}

// Other resources than GPUs have a fair share where the quota says that they are accounted.
void add_usage(const World& world, const std::string& name, bool is_project, const std::string& pool,
               const crds::Amounts& quota, Entry& entry) {
  const pl::Usage usage = world.cluster.usage(name, is_project, pool);
  const auto amounts = [&](const pl::Resources& r) { return reconcilers::to_amounts(world.cluster, r); };
  crds::AmountsByModel fair = amounts(world.cluster.fair_share(name, is_project, pool));
  if (!quota.cpu) fair.cpu.reset();
  if (!quota.memory) fair.memory.reset();
  entry["fairShare"] = amounts_entry(fair);
  entry["allocated"] = amounts_entry(amounts(usage.allocated));
  entry["borrowed"] = amounts_entry(amounts(usage.borrowed));
  entry["pending"] = amounts_entry(amounts(usage.pending));
}

template <class Kind>
Entry tree_entry(const World& world, const Kind& object, bool is_project) {
  const std::string& name = object.metadata.name;
  const std::string by_default = world.cluster.default_pool();
  const crds::AmountsByModel of_default = reconcilers::effective_spec(object.spec, world.wall()).spec.quota;
  Entry entry = {{"name", name}, {"quota", amounts_entry(of_default)}};
  add_usage(world, name, is_project, by_default, of_default, entry);
  Entry pools = Entry::array();
  for (const std::string& pool : world.cluster.pool_names()) {
    if (pool == by_default) continue;
    const auto stated = std::ranges::find(object.spec.pools, pool, &crds::PoolShare::name);
    const auto quota = stated == object.spec.pools.end() ? crds::AmountsByModel{} : stated->quota;
    Entry one = {{"name", pool}, {"quota", amounts_entry(quota)}};
    add_usage(world, name, is_project, pool, quota, one);
    pools.push_back(std::move(one));
  }
  if (!pools.empty()) entry["pools"] = std::move(pools);
  return entry;
}

// As in the status of a job.
Entry blocking_entry(const pl::PendingReason* verdict) {
  Entry list = Entry::array();
  if (verdict == nullptr) return list;
  for (const crds::Blocking& b : reconcilers::to_waiting(*verdict).blocking)
    list.push_back(
        {{"resource", b.resource}, {"pool", b.pool}, {"need", b.need}, {"have", b.have}, {"by", b.by}});
  return list;
}

Entry estimate_source(const pl::PendingReason* verdict) {
  if (verdict == nullptr) return {};
  const auto from = reconcilers::to_waiting(*verdict).estimated_start_from;
  return from ? Entry(std::string(crds::to_string(*from))) : Entry();
}

std::optional<pl::Time> earliest(const Workload& w, std::optional<pl::Time> Gang::* what) {
  std::optional<pl::Time> first;
  for (const auto* list : {&w.gangs, &w.retired}) {
    for (const auto& g : *list) {
      const auto& time = (*g).*what;
      if (time && (!first || *time < *first)) first = time;
    }
  }
  return first;
}

Entry losses_entry(const Losses& losses) {
  Entry entry = Entry::object();
  for (std::size_t i = 0; i < kLossNames.size(); ++i)
    entry[std::string(kLossNames[i])] = losses.milli_gpu_ms[i] / 1'000'000;
  return entry;
}

// As in the status of an array, and with all numbers.
Entry array_entry(const Workload& w) {
  const crds::ArrayStatus s = w.array.status.array.value_or(crds::ArrayStatus{});
  return {{"pending", s.pending},
          {"waiting", s.waiting},
          {"running", s.running},
          {"succeeded", s.succeeded},
          {"failed", s.failed},
          {"stopped", s.stopped},
          {"succeededIndexes", s.succeeded_indexes},
          {"failedIndexes", s.failed_indexes},
          {"runningIndexes", s.running_indexes},
          {"heldIndexes", s.held_indexes},
          {"retryIndexes", s.retry_indexes},
          {"retried", s.retried}};
}

}  // namespace

std::string seconds_text(Instant t) {
  return std::to_string(t.count()) + "s";
}

const pl::PendingReason* verdict_of(const World& world, const Workload& w) {
  const pl::PendingReason* first = nullptr;
  for (const auto& [index, job] : w.indexes) {
    const auto* verdict = verdict_of(world, *job);
    if (verdict != nullptr && (first == nullptr || verdict->position < first->position)) first = verdict;
  }
  if (first != nullptr) return first;
  for (const auto& g : w.gangs) {
    if (g->state != Gang::State::kWaiting || g->leaves_whole) continue;
    if (const auto* verdict = world.cluster.pending_reason(g->id)) return verdict;
  }
  return nullptr;
}

Entry workload_entry(const World& world, const Workload& w) {
  const pl::PendingReason* verdict = verdict_of(world, w);
  const auto project = world.project_of(w.ns);
  std::string reason = w.end_reason, message;
  if (verdict != nullptr) {
    reason = pl::to_string(verdict->reason);
    message = verdict->message;
  } else if (!w.invalid.empty()) {
    reason = "InvalidSpec";
    message = w.invalid;
  } else if (w.is_array() && !w.refused_as.empty()) {
    reason = w.refused_as;
    message = w.array.status.queue.message;
  } else if (const auto g =
                 std::ranges::find_if(w.gangs, [](const auto& one) { return !one->violation.empty(); });
             g != w.gangs.end()) {
    reason = "PolicyViolation";
    message = (*g)->violation;
  } else if (world.phase(w) == Phase::kQueued && !w.gangs.empty()) {
    const auto on = world.dependencies_of(*w.gangs.front());
    reason = on.reason;
    message = on.message;
  }
  Entry replicas = Entry::object();
  std::int32_t attempt = 0;
  pl::Time submitted = world.now;
  for (const auto& g : w.gangs) {
    for (const auto& role : g->spec->roles) {
      if (!replicas.contains(role.name)) replicas[role.name] = 0;
    }
    for (const auto& p : g->assignment.pods) {
      auto& count = replicas[g->spec->roles[static_cast<std::size_t>(p.role)].name];
      count = count.get<std::int32_t>() + 1;
    }
    attempt = std::max(attempt, g->attempt);
    submitted = std::min(submitted, g->submitted);
  }
  // The milliseconds of a submission are only its place among others of the same second.
  submitted.ms = (submitted.ms + 999) / 1000 * 1000;
  if (w.is_array()) submitted = std::min(submitted, pl::Time{(w.submitted.ms + 999) / 1000 * 1000});
  const auto admitted = w.is_array() ? w.array_began : earliest(w, &Gang::first_admitted);
  const pl::Time waited_until = admitted.value_or(w.finished.value_or(world.now));
  Entry entry = {
      {"namespace", w.ns},
      {"name", w.name},
      {"project", project},
      {"phase", kPhaseNames[static_cast<std::size_t>(world.phase(w))]},
      {"reason", reason},
      {"message", message},
      {"blocking", blocking_entry(verdict)},
      {"position", verdict == nullptr ? 0 : verdict->position},
      {"estimatedStart", verdict == nullptr ? Entry() : time_entry(verdict->estimated_start)},
      {"estimatedStartFrom", estimate_source(verdict)},
      {"submitted", seconds_text(to_instant(submitted))},
      {"firstStarted", time_entry(w.is_array() ? w.array_began : earliest(w, &Gang::first_started))},
      {"finished", time_entry(w.finished)},
      {"attempt", attempt},
      {"preemptions", w.preemptions},
      {"moves", w.moves},
      {"replicas", replicas},
      {"pods", pods_entry(*world.pods_of(w))},
      {"waitedSeconds", std::max<std::int64_t>((waited_until - submitted).ms / 1000, 0)},
      {"lostWorkSeconds", w.lost_ms / 1000},
      {"gpuSecondsUseful", world.useful_milli_ms_of(w) / 1'000'000},
      {"gpuSecondsLost", losses_entry(world.losses_of(w))}};
  if (w.is_service) entry["readyReplicas"] = w.status.ready_replicas;
  if (w.is_array()) entry["array"] = array_entry(w);
  return entry;
}

Entry queue_entry(const World& world, const crds::Queue& queue) {
  return tree_entry(world, queue, false);
}
Entry project_entry(const World& world, const crds::Project& project) {
  return tree_entry(world, project, true);
}

Entry node_entry(const World& world, const std::string& name, const NodeUse* use) {
  Entry gpus = Entry::array();
  const std::int32_t count = world.node_spec(name).gpus;
  for (std::int32_t i = 0; i < count; ++i) {
    const GpuUse* one = nullptr;
    if (use != nullptr) {
      if (const auto found = use->gpus.find(i); found != use->gpus.end()) one = &found->second;
    }
    gpus.push_back({{"index", i},
                    {"usedMilli", one == nullptr ? 0 : one->milli},
                    {"usedBytes", one == nullptr ? 0 : one->bytes},
                    {"pods", one == nullptr ? std::vector<std::string>{} : one->pods}});
  }
  return {{"name", name}, {"gpus", std::move(gpus)}};
}

Entry event_entry(const Event& e) {
  return {{"at", seconds_text(e.at)}, {"type", kEventNames[static_cast<std::size_t>(e.type)]},
          {"object", e.object},       {"reason", e.reason},
          {"for", e.beneficiary},     {"pods", pods_entry(*e.pods)}};
}

Entry metrics_entry(const World& world) {
  const auto waits = world.waits_ms();
  // Nearest rank.
  const auto percentile = [&](std::size_t p) -> std::int64_t {
    if (waits.empty()) return 0;
    return waits[(waits.size() * p + 99) / 100 - 1] / 1000;
  };
  return {{"gpuSecondsCapacity", world.metrics.capacity / 1000},
          {"gpuSecondsAllocated", world.metrics.allocated / 1000},
          {"gpuSecondsUseful", world.useful_milli_ms() / 1'000'000},
          {"gpuSecondsLost", losses_entry(world.losses())},
          {"waitP50Seconds", percentile(50)},
          {"waitP99Seconds", percentile(99)},
          {"preemptions", world.metrics.preemptions}};
}

}  // namespace muster::simulate
