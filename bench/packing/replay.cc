#include "packing/replay.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/synthetic.h"
#include "muster/placement/cluster.h"

namespace muster::bench {

using namespace placement;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::int64_t capacity(const std::vector<TraceNode>& nodes) {
  std::int64_t sum = 0;
  for (const TraceNode& n : nodes) sum += n.gpus * kMilliPerGpu;
  return sum;
}

NodeSpec spec_of(const TraceNode& n) {
  NodeSpec node;
  node.name = n.name;
  node.labels = {{"kubernetes.io/hostname", n.name}};
  // The trace limits no number of pods.
  node.allocatable = {{n.gpus * kMilliPerGpu}, {n.cpu_milli}, {n.memory_mib * kMiB}, 100'000};
  node.gpus = n.gpus;
  node.gpu_model = n.model;
  return node;
}

JobSpec spec_of(const TracePod& p, std::size_t index) {
  JobSpec job;
  job.id = "trace/" + std::to_string(index);
  job.project = "trace";
  job.submitted = kNow + Duration{static_cast<std::int64_t>(index)};
  job.preemptible = false;  // in the experiment nothing that runs is moved
  RoleSpec& role = job.roles.emplace_back();
  role.name = "pod";
  role.gpus = p.gpus;
  role.models = p.models;
  if (p.gpus == 1 && p.gpu_milli < kMilliPerGpu) {
    role.share.kind = GpuShare::Kind::kFraction;
    role.share.milli = {p.gpu_milli};
  }
  role.per_pod.cpu = {p.cpu_milli};
  role.per_pod.memory = {p.memory_mib * kMiB};
  role.per_pod.pods = 1;
  return job;
}

void prepare(Cluster& cluster, const std::vector<TraceNode>& nodes) {
  PoolSpec pool;
  pool.name = "default";
  cluster.upsert_pool(pool);
  for (const TraceNode& n : nodes) cluster.upsert_node(spec_of(n));
  QueueSpec queue;
  queue.name = "all";
  queue.in_default_pool.quota.gpu = MilliGpu{capacity(nodes)};
  cluster.upsert_queue(queue);
  queue.name = "trace";
  queue.parent = "all";
  queue.is_project = true;
  cluster.upsert_queue(queue);
}

}  // namespace

std::vector<TracePod> arrivals(const std::vector<TraceNode>& nodes, const std::vector<TracePod>& pods,
                               double load, std::uint64_t seed) {
  Random random(seed);
  std::vector<TracePod> list = pods;
  const double wanted = load * static_cast<double>(capacity(nodes));
  std::int64_t asked = 0;
  for (const TracePod& p : pods) asked += p.milli();
  if (asked <= 0) throw std::runtime_error("the trace asks for no GPU");
  while (static_cast<double>(asked) < wanted) {
    list.push_back(pods[random.below(pods.size())]);
    asked += list.back().milli();
  }
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.below(i)]);
  std::int64_t arrived = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    arrived += list[i].milli();
    if (static_cast<double>(arrived) < wanted) continue;
    list.resize(i + 1);
    break;
  }
  return list;
}

Outcome replay(const std::vector<TraceNode>& nodes, const std::vector<TracePod>& arriving) {
  Cluster cluster;
  prepare(cluster, nodes);
  const std::int64_t all = capacity(nodes);
  std::int64_t arrived = 0, allocated = 0;
  Outcome outcome;
  const auto percent = [&] { return 100 * static_cast<double>(allocated) / static_cast<double>(all); };
  bool full_load = false;
  for (std::size_t i = 0; i < arriving.size(); ++i) {
    const JobSpec job = spec_of(arriving[i], i);
    cluster.upsert_job(job);
    const Plan made = plan(cluster, job.submitted);
    const auto start = std::ranges::find(made.decisions, Decision::Kind::kStart, &Decision::kind);
    if (made.decisions.size() > 1 || (!made.decisions.empty() && start == made.decisions.end()))
      throw std::runtime_error("something else than a start was decided for " + job.id);
    if (start == made.decisions.end()) {
      cluster.remove_job(job.id);
      ++outcome.dropped;
    } else {
      cluster.set_assignment(job.id, start->assignment);
      allocated += arriving[i].milli();
    }
    arrived += arriving[i].milli();
    if (!full_load && arrived >= all) full_load = true, outcome.at_100 = percent();
  }
  outcome.at_end = percent();
  if (!cluster.conflicts().empty()) throw std::runtime_error("a GPU was given out twice");
  // Counted apart from what the model says.
  if (cluster.usage("trace", true, "default").allocated.gpu.value != allocated)
    throw std::runtime_error("the model counts other amounts than were started");
  return outcome;
}

}  // namespace muster::bench
