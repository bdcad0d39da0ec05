#include "core/synthetic.h"

#include <algorithm>
#include <utility>

namespace muster::bench {

using namespace placement;

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

PoolSpec pool_spec() {
  PoolSpec pool;
  pool.name = "default";
  pool.is_default = true;
  pool.topology = {kZone, kBlock, kRack, kHost};
  return pool;
}

NodeSpec node_spec(std::size_t index, std::int32_t gpus) {
  NodeSpec node;
  node.name = "node-" + std::to_string(index);
  node.labels = {{kZone, "zone-" + std::to_string(index / 2500)},
                 {kBlock, "block-" + std::to_string(index / 625)},
                 {kRack, "rack-" + std::to_string(index / 25)},
                 {kHost, node.name}};
  const std::int64_t n = gpus;
  node.allocatable = {{n * kMilliPerGpu}, {n * 16'000}, {n * 128 * kGiB}, 110};
  node.gpus = gpus;
  node.gpu_model = "H100";
  node.gpu_memory = {80 * kGiB};
  return node;
}

void add_nodes(Cluster& cluster, std::size_t count, std::int32_t gpus) {
  for (std::size_t i = 0; i < count; ++i) cluster.upsert_node(node_spec(i, gpus));
}

namespace {

QueueSpec queue_spec(const std::string& name, const std::string& parent, std::int64_t quota) {
  QueueSpec queue;
  queue.name = name;
  queue.parent = parent;
  queue.in_default_pool.quota.gpu = MilliGpu{quota * kMilliPerGpu};
  return queue;
}

}  // namespace

QueueSpec project_spec(std::size_t index, std::int64_t quota, std::int64_t weight) {
  QueueSpec project =
      queue_spec("project-" + std::to_string(index), "team-" + std::to_string(index / 10), quota);
  project.is_project = true;
  project.in_default_pool.weight = weight;
  return project;
}

void add_projects(Cluster& cluster, std::size_t count, std::int64_t quota) {
  for (std::size_t i = 0; i < count; i += 100) {
    const auto below = static_cast<std::int64_t>(std::min<std::size_t>(100, count - i));
    cluster.upsert_queue(queue_spec("department-" + std::to_string(i / 100), "", below * quota));
  }
  for (std::size_t i = 0; i < count; i += 10) {
    const auto below = static_cast<std::int64_t>(std::min<std::size_t>(10, count - i));
    cluster.upsert_queue(
        queue_spec("team-" + std::to_string(i / 10), "department-" + std::to_string(i / 100), below * quota));
  }
  for (std::size_t i = 0; i < count; ++i) cluster.upsert_queue(project_spec(i, quota));
}

JobSpec job_spec(const std::string& name, std::size_t project, std::int32_t pods, std::int64_t milli_gpu) {
  JobSpec job;
  job.id = "project-" + std::to_string(project) + "/" + name;
  job.project = "project-" + std::to_string(project);
  job.submitted = kNow;
  RoleSpec& role = job.roles.emplace_back();
  role.name = "worker";
  role.replicas = pods;
  role.gpus =
      milli_gpu == 0 ? 0 : static_cast<std::int32_t>(std::max<std::int64_t>(1, milli_gpu / kMilliPerGpu));
  if (milli_gpu > 0 && milli_gpu < kMilliPerGpu) {
    role.share.kind = GpuShare::Kind::kFraction;
    role.share.milli = {milli_gpu};
  }
  role.per_pod.cpu = {milli_gpu == 0 ? 1000 : milli_gpu * 4};
  role.per_pod.memory = {milli_gpu == 0 ? 2 * kGiB : milli_gpu * 32 * kGiB / kMilliPerGpu};
  role.per_pod.pods = 1;
  return job;
}

std::vector<JobSpec> workload(std::size_t pods, std::size_t projects) {
  struct Kind {
    std::size_t of_100000;
    std::int32_t pods;
    std::int64_t milli_gpu;
  };
  // GPUs of 100,000: 8,000 + 2,000 + 16,000 + 32,000 + 12,800 + 10,240.
  constexpr Kind kKinds[] = {{8000, 1, 1000},    {4000, 1, 500},   {16'000, 8, 1000},
                             {32'000, 32, 1000}, {1600, 16, 8000}, {1280, 128, 8000}};
  std::vector<Kind> gangs;
  std::size_t made = 0;
  for (const Kind& kind : kKinds) {
    for (std::size_t left = kind.of_100000 * pods / 100'000; left > 0;) {
      const auto size = std::min<std::size_t>(left, static_cast<std::size_t>(kind.pods));
      gangs.push_back({0, static_cast<std::int32_t>(size), kind.milli_gpu});
      left -= size;
      made += size;
    }
  }
  while (made < pods) {  // the rest without GPUs
    const std::size_t size = std::min<std::size_t>(40, pods - made);
    gangs.push_back({0, static_cast<std::int32_t>(size), 0});
    made += size;
  }
  Random random(1);
  for (std::size_t i = gangs.size(); i > 1; --i) std::swap(gangs[i - 1], gangs[random.below(i)]);
  std::vector<JobSpec> jobs;
  for (std::size_t i = 0; i < gangs.size(); ++i) {
    jobs.push_back(
        job_spec("job-" + std::to_string(i), random.below(projects), gangs[i].pods, gangs[i].milli_gpu));
    jobs.back().submitted = kNow - seconds(3600) + Duration{static_cast<std::int64_t>(i)};
  }
  return jobs;
}

std::int64_t starts(const Plan& plan) {
  return std::count_if(plan.decisions.begin(), plan.decisions.end(),
                       [](const Decision& d) { return d.kind == Decision::Kind::kStart; });
}
std::int64_t evictions(const Plan& plan) {
  return std::count_if(plan.decisions.begin(), plan.decisions.end(),
                       [](const Decision& d) { return d.kind == Decision::Kind::kEvict; });
}

void confirm(Cluster& cluster, const Plan& plan) {
  for (const Decision& d : plan.decisions) {
    if (d.kind == Decision::Kind::kStart) cluster.set_assignment(d.job, d.assignment);
  }
}

}  // namespace muster::bench
