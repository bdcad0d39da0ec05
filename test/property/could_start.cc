#include "could_start.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "audit/recount.h"
#include "disruption/disruption.h"
#include "model/cluster_model.h"
#include "pool/request.h"

namespace muster::placement {
namespace {

struct Kind {
  std::int64_t (*of)(const Resources&);
  std::optional<std::int64_t> (*bound)(const Bounds&);
};
template <class A>
std::optional<std::int64_t> value_of(const std::optional<A>& a) {
  return a ? std::optional(a->value) : std::nullopt;
}
constexpr std::array<Kind, 3> kKinds = {{
    {[](const Resources& r) { return r.gpu.value; }, [](const Bounds& b) { return value_of(b.gpu); }},
    {[](const Resources& r) { return r.cpu.value; }, [](const Bounds& b) { return value_of(b.cpu); }},
    {[](const Resources& r) { return r.memory.value; }, [](const Bounds& b) { return value_of(b.memory); }},
}};

bool countable(const ClusterModel& s, const Request& r) {
  if (r.roles.size() != 1 || !r.groups.empty() || r.about_pods || !s.jobs().with_anti_affinity().empty() ||
      !r.invalid.empty())
    return false;
  const RoleSpec& role = r.roles[0];
  const bool kind = role.gpus == 0 || role.share.kind == GpuShare::Kind::kWhole ||
                    (role.share.kind == GpuShare::Kind::kFraction && role.gpus == 1);
  return kind && role.topology.required.empty() && !role.numa_aligned;
}

bool within_bounds(const ClusterModel& s, const Recount& counted, const Job& j, PoolId pool,
                   const Resources& asked) {
  const auto path = way_up(s.tree(), j.leaf);
  for (const QueueId at : path) {
    const Share& share = s.tree().share(at, pool);
    const Tally held = counted.of(at, pool);
    for (const Kind& kind : kKinds) {
      if (kind.of(asked) <= 0) continue;
      const std::int64_t used = std::max(kind.of(held.target()), kind.of(held.now()));
      if (const auto limit = kind.bound(share.limit); limit && used + kind.of(asked) > *limit) return false;
      if (j.spec.preemptible) continue;
      auto quota = kind.bound(share.quota);
      if (!quota && &kind == &kKinds[0]) quota = 0;
      if (quota && kind.of(held.non_preemptible) + kind.of(asked) > *quota) return false;
    }
    for (std::size_t i = 0; i < kMaxNamed; ++i) {
      const std::int64_t more = asked.named[i];
      if (more <= 0) continue;
      const auto &limit = share.limit.counted[i], &quota = share.quota.counted[i];
      if (limit && std::max(held.target().named[i], held.now().named[i]) + more > *limit) return false;
      if (!j.spec.preemptible && quota && held.non_preemptible.named[i] + more > *quota) return false;
    }
  }
  return !path.empty() &&
         std::none_of(path.begin(), path.end(), [&](QueueId at) { return s.tree().queue(at).spec.hold; });
}

std::int64_t room_on(const ClusterModel& s, const Recount& counted, NodeId id, const RoleSpec& role) {
  const Node& n = s.node(id);
  // What fits is no matter of counting there.
  if (role.gpus > 1 && n.spec.numa_policy != NumaPolicy::kAny) return 0;
  const Tally held = counted.on(id);
  const Resources free = n.spec.allocatable - held.target() - held.leaving;
  std::int64_t devices = 0;
  const bool fraction = role.gpus > 0 && role.share.kind == GpuShare::Kind::kFraction;
  const PoolSpec& pool = s.pool(n.pool).spec;
  const std::int64_t clients = pool.sharing.max_clients > 0             ? pool.sharing.max_clients
                               : pool.sharing.mode == SharingMode::kMps ? 48
                                                                        : 1000;
  for (std::int32_t gpu = 0; gpu < n.spec.gpus; ++gpu) {
    if (std::find(n.spec.unhealthy.begin(), n.spec.unhealthy.end(), gpu) != n.spec.unhealthy.end()) continue;
    const auto uses = counted.uses(id, gpu, View::kNow);
    if (uses.empty() && !fraction) ++devices;
    if (!fraction) continue;
    std::int64_t milli = 0;
    bool others = false;
    for (const GpuUse& u : uses) milli += u.milli, others = others || u.whole || u.by_memory || u.compute > 0;
    if (!others)
      devices += std::max<std::int64_t>(0, std::min((kMilliPerGpu - milli) / role.share.milli.value,
                                                    clients - static_cast<std::int64_t>(uses.size())));
  }
  // Of pods outside jobs it may not be known which GPUs they have.
  std::int64_t unnamed = n.unnamed(View::kNow) * std::int64_t{fraction ? 1000 : 1};
  std::int64_t k = free.pods;
  if (role.gpus > 0) k = std::min(k, (devices - unnamed) / role.gpus);
  if (role.per_pod.cpu.value > 0) k = std::min(k, free.cpu.value / role.per_pod.cpu.value);
  if (role.per_pod.memory.value > 0) k = std::min(k, free.memory.value / role.per_pod.memory.value);
  for (std::size_t i = 0; i < kMaxNamed; ++i) {
    if (role.per_pod.named[i] > 0) k = std::min(k, free.named[i] / role.per_pod.named[i]);
  }
  return std::max<std::int64_t>(0, k);
}

// Room for pods of the only role, in the best domain of the level that they must not leave.
std::int64_t room_in(const ClusterModel& s, const Recount& counted, const Job& j, PoolId pool) {
  const Request& request = s.request_of(j);
  const auto& levels = s.pool(pool).spec.topology;
  const auto level = std::find(levels.begin(), levels.end(), request.topology.required);
  if (!request.topology.required.empty() && level == levels.end()) return 0;
  std::map<std::string, std::int64_t> rooms;
  for (std::size_t i = 0; i < s.nodes().size(); ++i) {
    const Node& n = s.nodes().all()[i];
    if (!n.takes_part() || n.pool != pool || n.kept_for_reservation) continue;
    if (!would_do(n.spec, request.roles[0], request.avoid) ||
        !gives_such(n.spec, s.pool(pool).spec, request.roles[0]))
      continue;
    std::string domain;
    bool inside = true;
    if (!request.topology.required.empty()) {
      for (auto at = levels.begin(); at <= level; ++at) {
        const auto label = n.spec.labels.find(*at);
        const bool host = *at == "kubernetes.io/hostname";
        inside = inside && (host || label != n.spec.labels.end());
        if (inside) domain = host ? n.spec.name : domain + "/" + label->second;
      }
    }
    if (inside) rooms[domain] += room_on(s, counted, static_cast<NodeId>(i), request.roles[0]);
  }
  std::int64_t best = 0;
  for (const auto& [domain, room] : rooms) best = std::max(best, room);
  return best;
}

// More than enough is free beside all that anybody has reserved and does not use, itself included.
bool beside_reserved(const ClusterModel& s, const Recount& counted, PoolId pool, const Resources& asked) {
  Resources free, kept;
  for (std::size_t i = 0; i < s.nodes().size(); ++i) {
    const Node& n = s.nodes().all()[i];
    if (!n.takes_part() || n.pool != pool) continue;
    const auto id = static_cast<NodeId>(i);
    const Resources left = n.spec.allocatable - counted.on(id).target();
    free.gpu += MilliGpu{std::max<std::int64_t>(0, counted.idle_gpus(id)) * kMilliPerGpu};
    free.cpu += std::max(left.cpu, MilliCpu{});
    free.memory += std::max(left.memory, Bytes{});
    for (std::size_t k = 0; k < kMaxNamed; ++k) free.named[k] += std::max<std::int64_t>(0, left.named[k]);
  }
  for (std::size_t i = 0; i < s.tree().size(); ++i) {
    const auto at = static_cast<QueueId>(i);
    const Bounds& reserved = s.tree().share(at, pool).reserved;
    const Resources held = counted.of(at, pool).target();
    kept.gpu += std::max(reserved.gpu.value_or(MilliGpu{}) - held.gpu, MilliGpu{});
    kept.cpu += std::max(reserved.cpu.value_or(MilliCpu{}) - held.cpu, MilliCpu{});
    kept.memory += std::max(reserved.memory.value_or(Bytes{}) - held.memory, Bytes{});
    for (std::size_t k = 0; k < kMaxNamed; ++k)
      kept.named[k] += std::max<std::int64_t>(0, reserved.counted[k].value_or(0) - held.named[k]);
  }
  for (std::size_t k = 0; k < kMaxNamed; ++k) {
    if (asked.named[k] > 0 && kept.named[k] > 0 && kept.named[k] + asked.named[k] > free.named[k])
      return false;
  }
  return std::all_of(kKinds.begin(), kKinds.end(), [&](const Kind& kind) {
    return kind.of(asked) <= 0 || kind.of(kept) == 0 || kind.of(kept) + kind.of(asked) <= kind.of(free);
  });
}

bool room_for_pods(const ClusterModel& s, const Job& j, PoolId pool, std::int64_t pods) {
  const Resources asked = s.request_of(j).roles[0].per_pod * pods;
  const Recount counted(s);
  return within_bounds(s, counted, j, pool, asked) && beside_reserved(s, counted, pool, asked) &&
         room_in(s, counted, j, pool) >= pods;
}

}  // namespace

bool could_start(Cluster& cluster, const JobSpec& spec) {
  const ClusterModel& s = cluster.state();
  const Job& j = s.job(s.jobs().find(spec.id));
  if (!j.waits || j.leaf == kNoId || !countable(s, s.request_of(j))) return false;
  for (const std::string& name :
       spec.pools.empty() ? std::vector<std::string>{cluster.default_pool()} : spec.pools) {
    const PoolId pool = s.find_pool(name);
    if (pool != kNoId && s.pool(pool).known && room_for_pods(s, j, pool, s.request_of(j).roles[0].replicas))
      return true;
  }
  return false;
}

bool could_grow(Cluster& cluster, const JobSpec& spec, Time now) {
  const ClusterModel& s = cluster.state();
  const Job& j = s.job(s.jobs().find(spec.id));
  const Request& request = s.request_of(j);
  if (!j.runs() || !j.displaced.empty() || !countable(s, request) || !request.topology.required.empty())
    return false;
  if (j.progress.resized && *j.progress.resized + std::max(spec.grow_after, Duration{1}) > now) return false;
  const auto pods = static_cast<std::int32_t>(j.assignment->pods.size());
  if (pods < request.roles[0].replicas || pods >= request.roles[0].most()) return false;
  // Where its growth has a price, nobody can tell by counting since when the room has been there.
  if (!disruption_terms(s.tree(), s.tree().path(j.leaf)).free()) return false;
  const PoolId pool = s.find_pool(j.assignment->pool);
  return pool != kNoId && s.pool(pool).known && room_for_pods(s, j, pool, 1);
}

}  // namespace muster::placement
