// How busy the GPUs of NodePools are and which of them fail, read from their nodes in the background: no
// reconcile waits for a node, and where no pool names an endpoint nothing is done. What is decided with it
// is idle_rule.h's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/client/object.h"
#include "muster/client/task_group.h"
#include "muster/client/transport.h"
#include "muster/crds/node_pool.h"
#include "muster/reconcilers/common/endpoint_reader.h"
#include "muster/reconcilers/gpu_metrics/idle_rule.h"

namespace muster::reconcilers {

struct GpuMonitorOptions {
  client::Duration timeout = std::chrono::seconds{3};  // of one node
  std::size_t in_all = 64;                             // nodes read at once
};

struct GpuEndpoint {
  std::string node;
  std::string url;  // "": it has no address
};

// What a job wants to know.
struct GangWatch {
  std::string pool;
  std::string attempt;  // another one begins without a past
  std::vector<PodGpus> gpus;
  std::int32_t below = 0;  // percent
  // What it has to be told of: half of it idle, and all. nullopt: kLongIdle.
  std::optional<client::Duration> timeout{};
};

// The last round of a pool.
struct PoolReading {
  std::size_t nodes = 0, read = 0;  // asked; answered
  std::string problem{};            // of the first by name that did not
  std::vector<crds::FailingGpus> failing{};
};

class GpuMonitor {
 public:
  // Called from the event loop; never after stop().
  struct Callbacks {
    std::function<void(const client::Key& job)> job;    // watch() has another answer that matters
    std::function<void(const std::string& node)> node;  // failing_gpus() has another answer
    std::function<void(const std::string& pool)> pool;  // it was read
  };
  // `nodes` takes whole URLs, and outlives all readings: see readings().
  GpuMonitor(client::Environment env, client::Transport& nodes, Callbacks callbacks,
             GpuMonitorOptions options = {});
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  // Begins to read the pool's nodes where it is time to, one round at a time; returns when to look again.
  // `nodes` is asked for only then.
  client::Duration look(const std::string& pool, const crds::GpuMetrics& where,
                        const std::function<std::vector<GpuEndpoint>()>& nodes);
  // What an earlier process had read of a pool that this one has not read yet: good until its nodes answer.
  void restore(const std::string& pool, const std::vector<crds::FailingGpus>& failing);
  // Nothing is known of its nodes any more.
  void forget_pool(const std::string& pool);
  std::optional<PoolReading> last_reading(const std::string& pool) const;  // nullopt: none yet

  // Follows the job from now on. O(GPUs) where they are others than before.
  Idleness watch(const client::Key& job, GangWatch what);
  bool watches(const client::Key& job) const;
  // look() was called for the pool.
  bool reads(const std::string& pool) const;
  void forget(const client::Key& job);
  // The GPUs with double-bit errors, as they were last read. What a node has said stands until it answers
  // again.
  std::set<std::int32_t> failing_gpus(const std::string& node) const;
  // What these GPUs draw together, as the last round of the pool has read it; nullopt: not of all of them.
  std::optional<std::int64_t> milliwatts(const std::string& pool, const std::vector<PodGpus>& gpus) const;

  // How much of the memory of the first of these GPUs is used, in per cent, as the last round of the pool has
  // read it; nullopt: it was not read.
  std::optional<std::int32_t> memory_used(const std::string& pool, const PodGpus& gpus) const;

  // Begins no reading any more. Those under way end by their timeout, or when readings() are cancelled; join
  // them before what they use is destroyed.
  void stop();
  client::TaskGroup& readings();
  const EndpointCounts& counts() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // also held by readings under way
};

}  // namespace muster::reconcilers
