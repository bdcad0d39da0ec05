#include "place/place.h"

#include <algorithm>

#include "node/resource_vector.h"
#include "place/gang.h"
#include "pool/topology.h"
#include "shares/backfill.h"

namespace muster::placement {

Resources asked(const ClusterModel& s, const PlaceQuery& q) {
  const Request& request = s.request_of(s.job(q.job));
  if (q.pods.empty()) return s.asked(request, q.pool);
  Resources sum;
  for (const PodWish& w : q.pods) sum += s.per_pod(request.roles[static_cast<std::size_t>(w.role)], q.pool);
  return sum;
}

namespace {

constexpr std::int64_t kStepsOfASearch = 50;  // before it looks at any node

// What the pool has free at most, against what is asked: refutes most impossible gangs without a look at any
// node.
std::optional<std::size_t> refuted_role(const Domain& domain, const Request& request) {
  Resources sum;
  for (std::size_t i = 0; i < request.roles.size(); ++i) {
    const RoleSpec& r = request.roles[i];
    sum += r.per_pod * r.replicas;
    if (!fits_beside_gpus(sum, domain.free)) return i;
    if (!takes_whole_gpus(r)) continue;
    std::int64_t room = 0;
    for (const auto& [model, buckets] : domain.by_free) {
      for (auto it = buckets.lower_bound(r.gpus); it != buckets.end(); ++it)
        room += it->first / r.gpus * static_cast<std::int64_t>(it->second.size());
    }
    if (room < r.replicas) return i;
  }
  return std::nullopt;
}

// Also where all must be in one domain of a level: then no such domain may be refuted.
bool refuted(const ClusterModel& s, const PlaceQuery& q, std::size_t* role) {
  if (!q.pods.empty() || q.view == View::kForNominated) return false;
  const Request& request = s.request_of(s.job(q.job));
  const Pool& pool = s.pool(q.pool);
  const auto at = [&](DomainId d) {
    return refuted_role(pool.domains[static_cast<std::size_t>(d)], request);
  };
  const auto whole = at(q.within);
  if (whole) *role = *whole;
  if (whole) return true;
  const std::int32_t depth = depth_of(pool.spec, request.topology.required);
  if (depth == 0 || depth == kHostDepth) return false;
  if (depth == kNoLevel) return true;
  if (pool.domains[static_cast<std::size_t>(q.within)].depth >= depth) return false;
  const auto list = domains_at(pool, q.within, depth);
  s.work.spend(static_cast<std::int64_t>(list.size()));
  return std::all_of(list.begin(), list.end(), [&](DomainId d) { return at(d).has_value(); });
}

// What was placed from `first` on is charged so much more than the least that it could be.
MilliGpu beyond_least(const ClusterModel& s, const Statement& statement, std::size_t first,
                      const PlaceQuery& q) {
  MilliGpu sum;
  const Request& request = s.request_of(s.job(q.job));
  for (std::size_t i = first; i < statement.placed().size(); ++i) {
    const Statement::Placed& p = statement.placed()[i];
    sum += p.allocation.amounts.gpu -
           s.per_pod(request.roles[static_cast<std::size_t>(p.place.role)], q.pool).gpu;
  }
  return sum;
}

// Some limit or quota is exceeded, and would not be by so much less.
bool broken_by(const ClusterModel& s, const PlaceQuery& q, MilliGpu more) {
  const Job& j = s.job(q.job);
  const auto path = s.tree().path(j.leaf);
  return std::any_of(path.begin(), path.end(), [&](QueueId at) {
    const TreeSums& sums = s.tree().sums(at, q.pool);
    const Share& share = s.tree().share(at, q.pool);
    const auto by_this = [&](MilliGpu used, MilliGpu bound) { return used > bound && used - more <= bound; };
    return (share.limit.gpu && by_this(sums.allocated.gpu, *share.limit.gpu)) ||
           (!j.spec.preemptible && by_this(sums.non_preemptible.gpu, share.quota.gpu.value_or(MilliGpu{})));
  });
}

// A share of memory is charged by its part of the GPU, so what a gang is charged is known when it has its
// places: where limits or quotas do not allow for that, GPUs with more memory may do.
std::optional<std::vector<PodPlace>> place_by_memory(ClusterModel& s, Statement& statement,
                                                     const PlaceQuery& q, SearchLimits limits,
                                                     Refusal* refusal) {
  const std::size_t start = statement.mark(), first = statement.placed().size();
  auto found = Gang(s, statement, q, limits).run(refusal);
  while (found && broken_by(s, q, beyond_least(s, statement, first, q))) {
    Bytes smallest;  // of those that cost more than they would elsewhere
    for (const PodPlace& p : *found) {
      const RoleSpec& r = s.request_of(s.job(q.job)).roles[static_cast<std::size_t>(p.role)];
      const Bytes size = s.node(s.node_of(p.node)).spec.gpu_memory;
      if (r.share.kind == GpuShare::Kind::kMemory && (smallest.value == 0 || size < smallest))
        smallest = size;
    }
    statement.rollback(start);
    found.reset();
    const auto& sizes = s.pool(q.pool).gpu_memories;
    const auto larger = sizes.upper_bound(smallest.value);
    if (larger == sizes.end()) break;
    limits.min_gpu_memory.value = larger->first;
    found = Gang(s, statement, q, limits).run(refusal);
  }
  return found;
}

std::optional<std::vector<PodPlace>> run(ClusterModel& s, Statement& statement, const PlaceQuery& q,
                                         const SearchLimits& limits, Refusal* refusal) {
  if (s.request_of(s.job(q.job)).by_memory) return place_by_memory(s, statement, q, limits, refusal);
  return Gang(s, statement, q, limits).run(refusal);
}

// RULES.md 4.4: models of which the job would be charged more than a quota on its path has left, though it
// would take others.
std::optional<ModelPlaces> models_to_spare(const ClusterModel& s, const PlaceQuery& q) {
  const AccountedKinds& kinds = s.tree().accounted();
  const Resources wanted = asked(s, q);
  if (wanted.gpu.value <= 0) return std::nullopt;
  ModelPlaces spared{};
  bool any = false;
  for (const ResourceKind kind : kinds) {
    if (!kinds.is_model(kind) || amount_of(wanted, kind) > 0) continue;
    const auto path = s.tree().path(s.job(q.job).leaf);
    const bool beyond = std::any_of(path.begin(), path.end(), [&](QueueId at) {
      const auto quota = quota_of(s.tree().share(at, q.pool).quota, kind);
      return quota && amount_of(s.tree().sums(at, q.pool).allocated, kind) + wanted.gpu.value > *quota;
    });
    spared[named_index(kind)] = beyond;
    any = any || beyond;
  }
  return any ? std::optional(spared) : std::nullopt;
}

}  // namespace

bool refuted_by_totals(const ClusterModel& s, const PlaceQuery& q) {
  std::size_t role = 0;
  return refuted(s, q, &role);
}

std::optional<std::vector<PodPlace>> place(ClusterModel& s, Statement& statement, const PlaceQuery& q,
                                           Refusal* refusal) {
  Pool& pool = s.pool(q.pool);
  // Pods of a role that an edit has removed are held until their gang starts anew; they go nowhere else.
  const auto roles = static_cast<std::int32_t>(s.request_of(s.job(q.job)).roles.size());
  if (std::any_of(q.pods.begin(), q.pods.end(),
                  [&](const PodWish& w) { return w.role < 0 || w.role >= roles; }))
    return std::nullopt;
  SearchLimits limits;
  limits.without_reserved = !q.anywhere && pool.reservation && kept_off(s, q.job, q.pool, asked(s, q));
  std::size_t role = 0;
  if (refuted(s, q, &role)) {
    if (refusal != nullptr) refusal->role = role, refusal->placed = 0;
    return std::nullopt;
  }
  s.requests.fill_eligible(s.requests.at(s.job(q.job).request), s.nodes().all());
  pool.fragmentation.prepare(pool.domains[0].capacity);
  s.work.spend(kStepsOfASearch + s.request_of(s.job(q.job)).total.pods);
  if (const auto spared = models_to_spare(s, q)) {
    SearchLimits others = limits;
    others.spared_models = *spared;
    if (auto found = run(s, statement, q, others, nullptr)) return found;
  }
  return run(s, statement, q, limits, refusal);
}

}  // namespace muster::placement
