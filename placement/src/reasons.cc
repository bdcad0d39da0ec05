#include "reasons.h"

#include <algorithm>
#include <iterator>

namespace muster::placement {
namespace {

std::string join(const std::vector<std::string>& list, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < list.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + list[i];
  if (list.size() > most) text += ", …";
  return text;
}

std::string unit(const std::string& resource) {
  if (resource == "gpu") return "GPUs";
  if (resource == "cpu") return "CPUs";
  return resource == "pods" ? "pod slots" : "memory";
}

}  // namespace

std::string show(const char* resource, std::int64_t amount) {
  const std::string_view r = resource;
  if (r == "gpu" || r == "cpu") return amount % 1000 == 0 ? std::to_string(amount / 1000) : std::to_string(amount) + "m";
  if (r == "memory") {
    static constexpr const char* kSuffix[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
    int i = 0;
    while (i < 5 && amount != 0 && amount % 1024 == 0) amount /= 1024, ++i;
    return std::to_string(amount) + kSuffix[i];
  }
  return std::to_string(amount);
}

std::vector<std::string> largest_holders(const State& s, PoolId pool) {
  std::vector<std::pair<std::int64_t, std::string>> held;
  const std::string& name = s.pools[static_cast<std::size_t>(pool)].spec.name;
  for (const Job& j : s.jobs) {
    if (j.known && j.assignment && j.assignment->pool == name && j.total.gpu.value > 0) held.emplace_back(-j.total.gpu.value, j.spec.id);
  }
  const std::size_t most = std::min<std::size_t>(8, held.size());
  std::partial_sort(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(most), held.end());
  std::vector<std::string> list;
  for (std::size_t i = 0; i < most; ++i) list.push_back(held[i].second);
  if (list.size() < 8) {
    const bool others = std::any_of(s.others.begin(), s.others.end(), [&](const auto& o) { return o.second.pool == pool && o.second.amounts.gpu.value > 0; });
    if (others) list.emplace_back("other pods");
  }
  return list;
}

Verdict verdict_of(const State& s, const BrokenBound& b, PoolId pool) {
  const QueueSpec& spec = s.tree[static_cast<std::size_t>(b.at)].spec;
  const std::string who = (spec.is_project ? "Project " : "Queue ") + spec.name;
  const std::string& name = s.pools[static_cast<std::size_t>(pool)].spec.name;
  Verdict v;
  v.reason = b.quota ? Reason::kQuotaExceeded : Reason::kLimitReached;
  v.message = "needs " + show(b.resource, b.need) + " " + unit(b.resource) + " in pool " + name + "; " + who + " has " +
              show(b.resource, b.have) + " left of its " + (b.quota ? "quota" : "limit") + " of " + show(b.resource, b.bound) +
              (b.quota ? ", which what is not preemptible must fit" : "");
  v.blocking.push_back({b.resource, name, b.need, b.have, {who}});
  return v;
}

Verdict verdict_of(const State& s, const Job& job, const Shortage& x, PoolId pool, const std::vector<std::string>& holders) {
  const RoleSpec& r = job.spec.roles[x.role];
  const std::string& name = s.pools[static_cast<std::size_t>(pool)].spec.name;
  Verdict v;
  if (x.no_node_would_do) {
    v.reason = Reason::kNoMatchingNodes;
    v.message = "no usable node of pool " + name + " would do for a pod of role " + r.name + " even if it were empty (" +
                (r.gpus > 0 ? show("gpu", r.per_pod.gpu.value) + " GPUs" + (r.models.empty() ? "" : " of " + join(r.models, 3)) + ", " : "") +
                show("cpu", r.per_pod.cpu.value) + " CPUs, " + show("memory", r.per_pod.memory.value) + " memory, its node terms and tolerations)";
    return v;
  }
  struct Line {
    const char* resource;
    std::int64_t need, have;
  };
  const Line lines[] = {{"gpu", x.need.gpu.value, x.free.gpu.value},
                        {"cpu", x.need.cpu.value, x.free.cpu.value},
                        {"memory", x.need.memory.value, x.free.memory.value},
                        {"pods", x.need.pods, x.free.pods}};
  for (const Line& l : lines) {
    if (l.need <= l.have) continue;
    const std::int64_t have = std::max<std::int64_t>(0, l.have);
    v.reason = Reason::kInsufficientCapacity;
    v.message = "needs " + show(l.resource, l.need) + " " + unit(l.resource) + " in pool " + name + ", " + show(l.resource, have) +
                " are free" + (holders.empty() ? "" : "; held by " + join(holders, 3));
    v.blocking.push_back({l.resource, name, l.need, have, holders});
    return v;
  }
  v.reason = Reason::kFragmented;
  v.message = "enough is free in pool " + name + ", but not in one piece: " + std::to_string(x.fit) + " of " + std::to_string(r.replicas) +
              " pods of role " + r.name + " fit on single nodes" + (holders.empty() ? "" : "; held by " + join(holders, 3));
  v.blocking.push_back({"pods", name, r.replicas, x.fit, holders});
  return v;
}

}  // namespace muster::placement
