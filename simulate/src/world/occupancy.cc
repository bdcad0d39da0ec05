#include "world/occupancy.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster::simulate {
namespace {

void add(const World& world, const Gang& g, const pl::JobSpec& of, const pl::PodPlace& pod,
         std::map<std::string, NodeUse>& uses) {
  using Kind = pl::GpuShare::Kind;
  const pl::RoleSpec& role = of.roles[static_cast<std::size_t>(pod.role)];
  NodeUse& node = uses[pod.node];
  node.amounts.cpu += role.per_pod.cpu;
  node.amounts.memory += role.per_pod.memory;
  node.amounts.pods += 1;
  for (const auto& [name, amount] : role.named) node.named[name] += amount;
  const std::int64_t all = world.milli_gpu(role, pod.node);
  for (const std::int32_t gpu : pod.gpus) {
    GpuUse& use = node.gpus[gpu];
    use.milli += all / std::max<std::int64_t>(static_cast<std::int64_t>(pod.gpus.size()), 1);
    if (role.share.kind == Kind::kMemory) use.bytes += role.share.memory.value;
    if (role.share.kind != Kind::kMemory || !role.share.overcommit) use.overcommit = false;
    use.pods.push_back(pod_name(g, of, pod));
  }
}

void add(const World& world, const Gang& g, std::map<std::string, NodeUse>& uses) {
  for (const auto& pod : g.assignment.pods) add(world, g, *g.spec, pod, uses);
  for (const GangPod& p : g.pods) {
    if (p.is_beside) add(world, g, *p.of, p.place, uses);
  }
}

}  // namespace

std::int32_t index_in_service(const Gang& g, std::string_view role, std::int32_t index) {
  if (g.replica_of == nullptr) return index;
  const auto& roles = g.replica_of->replica.spec.roles;
  const auto found = std::ranges::find(roles, role, &crds::Role::name);
  return found == roles.end() ? index : g.number * crds::least_replicas(*found) + index;
}

std::string pod_name(const Gang& g, const pl::JobSpec& of, const pl::PodPlace& pod) {
  const std::string& role = of.roles[static_cast<std::size_t>(pod.role)].name;
  return fmt::format("{}-{}-{}", g.owner->key, role, index_in_service(g, role, pod.index));
}

std::map<std::string, NodeUse> occupancy(const World& world) {
  std::map<std::string, NodeUse> uses;
  for (const Workload* w : world.in_order()) {
    for (const auto* list : {&w->gangs, &w->retired}) {
      for (const auto& g : *list) add(world, *g, uses);
    }
  }
  return uses;
}

// Everything that makes a stated assignment impossible; what breaks a limit or a topology rule is history.
bool World::check_assignment(const Gang& g, const pl::Assignment& assignment, const Change& change) {
  const std::size_t before = errors.size();
  const auto fail = [&](std::size_t pod, const char* part, std::string message) {
    const std::string field = "status.assignment.pods[" + std::to_string(pod) + "]" + part;
    errors.push_back({change.key, field, std::move(message), change.source.location(field)});
  };
  auto uses = occupancy(*this);
  std::map<std::int32_t, std::int32_t> pods_of_role;
  std::set<std::pair<std::int32_t, std::int32_t>> seen;
  std::set<std::string> told;
  for (std::size_t i = 0; i < assignment.pods.size(); ++i) {
    const pl::PodPlace& pod = assignment.pods[i];
    if (pod.role < 0) {
      fail(i, ".role", "must be the name of one of the job's roles");
      continue;
    }
    const pl::RoleSpec& role = g.spec->roles[static_cast<std::size_t>(pod.role)];
    if (pod.index < 0 || pod.index >= role.most())
      fail(i, ".index", fmt::format("must be from 0 to {}", role.most() - 1));
    if (!seen.emplace(pod.role, pod.index).second) fail(i, "", "must not be stated twice");
    ++pods_of_role[pod.role];
    const auto node = nodes.find(pod.node);
    if (node == nodes.end()) {
      fail(i, ".node",
           fmt::format("must be the name of a node that is there at this instant, is \"{}\"", pod.node));
      continue;
    }
    const pl::NodeSpec spec = node_spec(pod.node);
    const bool cut_already =
        role.share.kind == pl::GpuShare::Kind::kMig && spec.mig.contains(role.share.profile);
    const auto wanted = static_cast<std::size_t>(role.gpus);
    if (role.share.kind == pl::GpuShare::Kind::kMig
            ? pod.gpus.size() > wanted || (pod.gpus.empty() && !cut_already && wanted > 0)
            : pod.gpus.size() != wanted) {
      fail(i, ".gpus", fmt::format("must name {} GPUs, as the role asks, names {}", wanted, pod.gpus.size()));
    }
    const auto taken = uses.find(pod.node);
    for (const std::int32_t gpu : pod.gpus) {
      if (gpu < 0 || gpu >= spec.gpus) {
        fail(i, ".gpus", fmt::format("must be GPUs of the node, which has {}, is {}", spec.gpus, gpu));
      }
    }
    const bool several = std::set(pod.gpus.begin(), pod.gpus.end()).size() != pod.gpus.size();
    if (several && role.share.kind != pl::GpuShare::Kind::kMig) fail(i, ".gpus", "must not name a GPU twice");
    add(*this, g, *g.spec, pod, uses);
    const NodeUse& use = taken == uses.end() ? uses.at(pod.node) : taken->second;
    for (const std::int32_t gpu : std::set(pod.gpus.begin(), pod.gpus.end())) {
      const GpuUse& one = use.gpus.at(gpu);
      const bool too_much = one.milli > pl::kMilliPerGpu && !(one.overcommit && spec.gpu_memory.value != 0);
      if (too_much && one.pods.size() > 1 && !several) {
        fail(i, ".gpus",
             fmt::format("must not take what others hold: GPU {} of node {} is held by {} already", gpu,
                         pod.node, one.pods.front()));
      }
    }
    const auto exceeded = [&](const std::string& what, std::int64_t used, std::int64_t there) {
      if (used > there && told.insert(pod.node + what).second)
        fail(i, ".node",
             fmt::format("must have room: the pods of node {} ask for more {} than it has", pod.node, what));
    };
    exceeded("CPU", use.amounts.cpu.value, spec.allocatable.cpu.value);
    exceeded("memory", use.amounts.memory.value, spec.allocatable.memory.value);
    exceeded("pod slots", use.amounts.pods, spec.allocatable.pods);
    for (const auto& [name, amount] : use.named) {
      const auto there = spec.named.find(name);
      exceeded(name, amount, there == spec.named.end() ? 0 : there->second);
    }
  }
  if (errors.size() != before) return false;
  for (std::size_t r = 0; r < g.spec->roles.size(); ++r) {
    const auto there = pods_of_role[static_cast<std::int32_t>(r)];
    if (there >= g.spec->roles[r].replicas) continue;
    errors.push_back({change.key, "status.assignment.pods",
                      fmt::format("must have at least {} pods of role {}, has {}", g.spec->roles[r].replicas,
                                  g.spec->roles[r].name, there),
                      change.source.location("status.assignment.pods")});
  }
  return errors.size() == before;
}

}  // namespace muster::simulate
