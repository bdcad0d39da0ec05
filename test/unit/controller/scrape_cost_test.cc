// A scrape of a large cluster: how many series there are, and what they cost. The time is printed and not
// judged.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>

#include "muster/client/testing/fake_transport.h"
#include "muster/client/testing/virtual_world.h"
#include "process/job_counts.h"
#include "process/metrics.h"
#include "process/sharing_metrics.h"

namespace muster::test {
namespace {

using controller::JobCounts;
using controller::Metrics;
using reconcilers::Object;
using reconcilers::ObjectStore;

constexpr int kNodes = 1000, kProjects = 200, kQueues = 20, kJobs = 10'000;

double cpu_milliseconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

// What the caches and placement have of a cluster; nothing runs.
struct LargeCluster {
  client::testing::VirtualWorld world;
  client::testing::FakeTransport transport{world.env()};
  client::ApiClient api{world.env(), transport, {}};
  reconcilers::Caches caches{api};
  reconcilers::PlacementModel placement{[] {}};
  int version = 0;

  template <class Kind>
  void put(ObjectStore<Kind>& store, Kind value) {
    Object<Kind> object;
    object.meta = {value.metadata.ns, value.metadata.name, "uid-" + value.metadata.name,
                   std::to_string(++version)};
    object.value = std::move(value);
    store.apply(std::move(object));
  }
  static crds::Amounts of_gpus(std::int64_t n) {
    crds::Amounts amounts;
    amounts.gpu = crds::MilliGpu{n * 1000};
    return amounts;
  }

  void fill() {
    for (int i = 0; i < 2; ++i) {
      crds::NodePool pool;
      pool.metadata.name = i == 0 ? "h200" : "a100";
      pool.spec.node_selector.match_labels = {{"pool", pool.metadata.name}};
      pool.spec.is_default = i == 0;
      placement.pool(pool);
      put(caches.node_pools.store(), pool);
    }
    for (int i = 0; i < kNodes; ++i) {
      client::Node node;
      node.meta.name = fmt::format("gpu-node-{:04}.cluster.example", i);
      node.labels = {{"pool", i % 4 == 0 ? "a100" : "h200"}};
      node.ready = true;
      node.milli_cpu = 64'000;
      node.memory_bytes = 1LL << 40;
      node.pods = 110;
      node.extended = {{"nvidia.com/gpu", 8}};
      placement.node(node);
    }
    for (int i = 0; i < kQueues; ++i) {
      crds::Queue queue;
      queue.metadata.name = fmt::format("department-{}", i);
      queue.spec.quota = of_gpus(300);
      placement.queue(queue, {});
      put(caches.queues.store(), queue);
    }
    for (int i = 0; i < kProjects; ++i) add_project(i);
    for (int i = 0; i < kJobs; ++i) add_job(i);
  }
  void add_project(int i) {
    crds::Project project;
    project.metadata.name = fmt::format("project-{:03}", i);
    project.spec.queue = fmt::format("department-{}", i % kQueues);
    project.spec.quota = of_gpus(30);
    project.spec.pools.push_back({"a100", of_gpus(8), {}, {}});
    placement.project(project, {});
    placement.charge_namespace(project.metadata.name, project.metadata.name);
    put(caches.projects.store(), project);
  }
  void add_job(int i) {
    crds::TrainingJob job;
    job.metadata.ns = fmt::format("project-{:03}", i % kProjects);
    job.metadata.name = fmt::format("finetune-{}", i);
    job.metadata.creation_timestamp = crds::Time{};
    auto& status = job.status;
    status.phase = static_cast<crds::Phase>(i % 8);
    if (i % 8 == 0) status.queue.reason = i % 16 == 0 ? "InsufficientCapacity" : "FairShareReached";
    for (const char* type : {"Accepted", "Admitted", "PodsReady", "Evicted", "Suspended", "Complete"})
      status.conditions.push_back({.type = type, .reason = "Reason", .message = ""});
    reconcilers::Step step;
    step.status = status;
    step.status.assignment.attempt = 1;
    step.status.assignment.admitted_at = crds::Time{std::chrono::seconds{i % 100'000}};
    step.status.run_seconds = i * 10;
    step.status.conditions.push_back(
        {.type = "Complete", .status = crds::ConditionStatus::kTrue, .reason = "Completed", .message = ""});
    step.notes.push_back({client::EventType::kWarning, i % 3 == 0 ? "Preempted" : "Reclaimed", "Evict", ""});
    step.lost.emplace_back().seconds = 10;
    step.lost.back().cause = "Reclaimed";
    counts.count(job.metadata.ns, job, step);
    put(caches.jobs.store(), std::move(job));
  }
  void sample(Metrics& metrics) {
    auto families = controller::sharing_metrics(caches, placement, crds::Time{std::chrono::hours{1}});
    counts.match(caches);
    counts.append_to(families);
    metrics.sampled(std::move(families));
  }

  JobCounts counts;
};

TEST(ScrapeCost, OfALargeClusterIsToldAndItsSeriesAreBounded) {
  LargeCluster cluster;
  cluster.fill();
  Metrics metrics;
  std::string text;
  double sampling = 1e9, writing = 1e9;  // CPU milliseconds, the best of several
  for (int i = 0; i < 20; ++i) {
    const double began = cpu_milliseconds();
    cluster.sample(metrics);
    const double sampled = cpu_milliseconds();
    text = metrics.text();
    sampling = std::min(sampling, sampled - began);
    writing = std::min(writing, cpu_milliseconds() - sampled);
  }
  std::size_t series = 0, of_nodes = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    series += text[at] != '#' ? 1 : 0;
    of_nodes += text.compare(at, 12, "muster_node_") == 0 ? 1 : 0;
  }
  fmt::print(
      "{} nodes, {} Projects, {} jobs: {} series, {} KiB; CPU: {:.1f} ms to sample, {:.1f} ms to write\n",
      kNodes, kProjects, kJobs, series, text.size() / 1024, sampling, writing);
  EXPECT_EQ(of_nodes, 3u * kNodes);
  EXPECT_LT(series, 3u * kNodes + 110u * kProjects + 20u * kQueues) << "no series is of a single job";
  EXPECT_EQ(text.find("finetune-"), std::string::npos);
}

}  // namespace
}  // namespace muster::test
