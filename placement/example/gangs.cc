// Two gangs of six GPUs on a node of eight: one starts, the other says why it waits, and starts when the
// first ends.
#include <cstdio>

#include "muster/placement/cluster.h"

namespace p = muster::placement;

namespace {

p::JobSpec gang(const char* id, std::int64_t submitted_ms) {
  p::RoleSpec workers;
  workers.name = "worker";
  workers.replicas = 3;
  workers.gpus = 2;
  workers.per_pod = {p::MilliGpu{2000}, p::MilliCpu{4000}, p::Bytes{std::int64_t{16} << 30}, 1};
  p::JobSpec job;
  job.id = id;
  job.project = "vision";
  job.submitted = p::Time{submitted_ms};
  job.roles = {workers};
  return job;
}

void show(p::Cluster& cluster, const p::Plan& plan) {
  for (const p::Decision& d : plan.decisions) {
    std::printf("start %s\n", d.job.c_str());
    for (const p::PodPlace& pod : d.assignment.pods) {
      std::printf("  pod %d on %s, GPUs", pod.index, pod.node.c_str());
      for (const int gpu : pod.gpus) std::printf(" %d", gpu);
      std::printf("\n");
    }
  }
  for (const std::string& id : plan.pending_reasons) {
    const p::PendingReason& v = *cluster.pending_reason(id);
    std::printf("%s waits, %s: %s\n", id.c_str(), std::string(to_string(v.reason)).c_str(),
                v.message.c_str());
  }
}

}  // namespace

int main() {
  p::Cluster cluster;
  p::PoolSpec pool;
  pool.name = "default";
  cluster.upsert_pool(pool);

  p::NodeSpec node;
  node.name = "n1";
  node.gpus = 8;
  node.gpu_model = "H100";
  node.allocatable = {p::MilliGpu{8000}, p::MilliCpu{64000}, p::Bytes{std::int64_t{512} << 30}, 110};
  cluster.upsert_node(node);

  p::QueueSpec research;
  research.name = "research";
  research.in_default_pool.quota.gpu = p::MilliGpu{8000};
  cluster.upsert_queue(research);
  p::QueueSpec vision;
  vision.name = "vision";
  vision.parent = "research";
  vision.is_project = true;
  cluster.upsert_queue(vision);

  cluster.upsert_job(gang("vision/first", 1));
  cluster.upsert_job(gang("vision/second", 2));
  show(cluster, plan(cluster, p::Time{10}));

  std::printf("vision/first ends\n");
  cluster.remove_job("vision/first");
  show(cluster, plan(cluster, p::Time{20}));
}
