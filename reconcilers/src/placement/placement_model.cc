#include "muster/reconcilers/placement/placement_model.h"

#include <map>
#include <set>

#include "muster/common/quantity.h"
#include "muster/placement/cluster.h"
#include "muster/placement/node_usage.h"
#include "muster/reconcilers/placement/gpu_labels.h"
#include "muster/reconcilers/placement/node_topology.h"
#include "muster/reconcilers/placement/other_pods.h"
#include "muster/reconcilers/placement/placed_jobs.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/placement/scheduled_queues.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace pl = placement;

struct PlacementModel::Impl {
  explicit Impl(std::function<void()> on_change) : changed(std::move(on_change)) {}

  std::function<void()> changed;
  pl::Cluster cluster;
  ScheduledQueues scheduled;
  bool plan_was_cut_off = false;
  std::vector<PlacementModel::Thrown> thrown;
  OtherPods others{cluster, [this] { touch(); }};
  UsualRunTimes usual_run_times;
  PlacedJobs jobs{cluster,
                  others,
                  [this] { touch(); },
                  {.usual_run_times = [this](const std::string& project, const std::string& user,
                                             crds::MilliGpu gpus) -> std::optional<UsualRunTime> {
                    if (!usual_run_times) return std::nullopt;
                    return usual_run_times(project, user, gpus);
                  }}};
  std::map<std::string, GpuMeans> gpu_means;  // by pool
  GpuLabelsOfPools gpu_labels;
  std::map<std::string, client::Node> nodes;  // their GPU count depends on the pools' resource names
  std::map<std::string, int> listed;  // how many nodes list some of a resource beside CPU, memory and pods
  std::map<std::string, std::set<std::int32_t>> failing;  // GPUs, by node
  std::map<std::string, client::Ptr<NodeTopology>> topologies;
  std::optional<pl::Time> wake;  // when to plan again though nothing changes

  void touch() { changed(); }

  void note_listed(const client::Node& node, int by) {
    for (const auto& [resource, amount] : node.extended) {
      if (amount > 0) listed[resource] += by;
    }
    if (const auto model = model_of(node); !model.empty())
      listed[std::string(common::kModelPrefix) + model] += by;
  }

  pl::NodeSpec to_node(const client::Node& n) const {
    pl::NodeSpec spec = node_spec(n, others.gpu_resources());
    gpu_labels.read(spec);
    const auto topology = topologies.find(n.meta.name);
    add_topology(spec, topology == topologies.end() ? nullptr : topology->second.get(),
                 others.gpu_resources());
    if (const auto bad = failing.find(n.meta.name); bad != failing.end())
      spec.unhealthy.insert(spec.unhealthy.end(), bad->second.begin(), bad->second.end());
    return spec;
  }

  // After pools came, went or name another resource: what counts GPUs is what any of them names. `read_anew`:
  // what nodes say of their GPUs may mean something else now.
  void recount_gpus(bool read_anew) {
    std::set<std::string> resources;
    for (const auto& [pool, means] : gpu_means) resources.insert(means.resource);
    if (!others.count_as_gpus(std::move(resources)) && !read_anew) return;
    for (const auto& [name, n] : nodes) {
      if (!n.extended.empty()) cluster.upsert_node(to_node(n));
    }
  }

  // Without what its quota says nothing about.
  crds::AmountsByModel fair_share(const std::string& name, bool is_project, const std::string& pool) const {
    const pl::Resources fair = cluster.fair_share(name, is_project, pool);
    crds::AmountsByModel amounts = to_amounts(cluster, fair);
    if (fair.cpu.value >= pl::kPlenty) amounts.cpu.reset();
    if (fair.memory.value >= pl::kPlenty) amounts.memory.reset();
    return amounts;
  }

  TreeNumbers numbers(const std::string& name, bool is_project) const {
    TreeNumbers n;
    const std::string main = cluster.default_pool();
    const auto usage = cluster.usage(name, is_project, main);
    n.allocated = to_amounts(cluster, usage.allocated);
    n.borrowed = to_amounts(cluster, usage.borrowed);
    n.pending = to_amounts(cluster, usage.pending);
    n.fair_share = fair_share(name, is_project, main);
    for (const auto& pool : cluster.pool_names()) {
      if (pool == main) continue;
      const auto u = cluster.usage(name, is_project, pool);
      if (u == pl::Usage{}) continue;
      n.pools.push_back({pool, to_amounts(cluster, u.allocated), to_amounts(cluster, u.borrowed),
                         to_amounts(cluster, u.pending), fair_share(name, is_project, pool)});
    }
    const auto work = cluster.workloads(name, is_project);
    n.running = work.running;
    n.waiting = work.waiting;
    n.problem = cluster.queue_problem(name, is_project);
    return n;
  }
};

PlacementModel::PlacementModel(std::function<void()> changed)
    : impl_(std::make_unique<Impl>(std::move(changed))) {}
PlacementModel::~PlacementModel() = default;

void PlacementModel::ask_usual_run_times(UsualRunTimes ask) {
  impl_->usual_run_times = std::move(ask);
}

void PlacementModel::node(const client::Node& node) {
  client::Node& known = impl_->nodes[node.meta.name];
  impl_->note_listed(known, -1);
  known = node;
  impl_->note_listed(known, 1);
  impl_->cluster.upsert_node(impl_->to_node(node));
  impl_->touch();
}
void PlacementModel::topology(const std::string& node, client::Ptr<NodeTopology> topology) {
  if (topology == nullptr)
    impl_->topologies.erase(node);
  else
    impl_->topologies[node] = std::move(topology);
  const auto known = impl_->nodes.find(node);
  if (known == impl_->nodes.end()) return;
  impl_->cluster.upsert_node(impl_->to_node(known->second));
  impl_->touch();
}
void PlacementModel::failing_gpus(const std::string& node, std::set<std::int32_t> gpus) {
  if (gpus.empty())
    impl_->failing.erase(node);
  else
    impl_->failing[node] = std::move(gpus);
  const auto known = impl_->nodes.find(node);
  if (known == impl_->nodes.end()) return;
  impl_->cluster.upsert_node(impl_->to_node(known->second));
  impl_->touch();
}
void PlacementModel::node_gone(const client::Node& node) {
  if (const auto known = impl_->nodes.find(node.meta.name); known != impl_->nodes.end()) {
    impl_->note_listed(known->second, -1);
    impl_->nodes.erase(known);
  }
  impl_->cluster.remove_node(node.meta.name);
  impl_->touch();
}

void PlacementModel::pool(const crds::NodePool& pool) {
  pl::PoolSpec spec = pool_spec(pool);
  impl_->gpu_means[spec.name] = {pool.spec.gpu_resource, spec.sharing.mode == pl::SharingMode::kMps};
  // Nobody here cuts GPUs: slices are those that nodes list as resources, which count in any mode.
  if (spec.sharing.mode == pl::SharingMode::kMig) spec.sharing.mode = pl::SharingMode::kNone;
  impl_->cluster.upsert_pool(spec);
  impl_->recount_gpus(impl_->gpu_labels.set(pool));
  impl_->touch();
}
void PlacementModel::pool_gone(const crds::NodePool& pool) {
  impl_->gpu_means.erase(pool.metadata.name);
  impl_->cluster.remove_pool(pool.metadata.name);
  impl_->recount_gpus(impl_->gpu_labels.remove(pool.metadata.name));
  impl_->touch();
}

void PlacementModel::queue(const crds::Queue& queue, crds::Time now) {
  impl_->cluster.upsert_queue(impl_->scheduled.take(queue, now));
  impl_->touch();
}
void PlacementModel::queue_gone(const crds::Queue& queue) {
  impl_->scheduled.forget(queue.metadata.name, false);
  impl_->cluster.remove_queue(queue.metadata.name, false);
  impl_->touch();
}
void PlacementModel::project(const crds::Project& project, crds::Time now) {
  impl_->cluster.upsert_queue(impl_->scheduled.take(project, now));
  impl_->touch();
}
void PlacementModel::project_gone(const std::string& name) {
  impl_->scheduled.forget(name, true);
  impl_->cluster.remove_queue(name, true);
  impl_->touch();
}
void PlacementModel::past_use(const placement::PastUse& past) {
  impl_->cluster.set_past_use(past);
}
void PlacementModel::charge_namespace(const std::string& ns, const std::string& project) {
  impl_->jobs.charge_namespace(ns, project);
  impl_->touch();
}

void PlacementModel::foreign_pod(const client::Ptr<client::Pod>& pod) {
  // What Muster made stays charged to its project even when its job is gone.
  const bool ours = client::find_value(pod->labels, kJobLabel) != nullptr;
  const auto project = ours ? impl_->jobs.project_of(pod->meta.ns) : std::string();
  impl_->others.charge(pod, project, !project.empty());  // elsewhere anybody may say that it shares a GPU
}
void PlacementModel::job_pod(const client::Key& job, const crds::Assignment& assignment,
                             const client::Ptr<client::Pod>& pod, bool is_new) {
  impl_->jobs.job_pod(job, assignment, pod, is_new);
}
void PlacementModel::holder_pod(const client::Pod& pod) {
  impl_->others.charge_holder(pod);
}
void PlacementModel::pod_gone(const client::Pod& pod) {
  impl_->others.give_back(pod.meta.key());
}

void PlacementModel::update(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                            const Step& step, const std::vector<client::Ptr<client::Pod>>& pods) {
  impl_->jobs.update(key, job, wish, step, pods);
}

void PlacementModel::forget(const client::Key& key, const std::vector<client::Ptr<client::Pod>>& pods) {
  impl_->jobs.forget(key);
  for (const auto& pod : pods) foreign_pod(pod);
  impl_->touch();
}

bool PlacementModel::plan_was_cut_off() const {
  return impl_->plan_was_cut_off;
}

const std::vector<PlacementModel::Thrown>& PlacementModel::thrown() const {
  return impl_->thrown;
}

std::vector<client::Key> PlacementModel::plan(crds::Time now) {
  for (const auto& spec : impl_->scheduled.due(now)) impl_->cluster.upsert_queue(spec);
  const auto plan = pl::plan(impl_->cluster, to_time(now));
  impl_->plan_was_cut_off = plan.is_cut_off;
  impl_->thrown.clear();
  for (const auto& t : plan.thrown) impl_->thrown.push_back({t.job, t.what, t.waits});
  std::vector<client::Key> news;
  for (const auto& d : plan.decisions) {
    if (impl_->jobs.note(d) != nullptr) news.push_back(d.job);
  }
  news.insert(news.end(), plan.pending_reasons.begin(), plan.pending_reasons.end());
  impl_->wake = plan.wake;
  return news;
}
std::optional<crds::Time> PlacementModel::wake_at() const {
  auto at = impl_->scheduled.next();
  if (!impl_->wake) return at;
  const auto wake = std::chrono::ceil<std::chrono::seconds>(
      std::chrono::sys_time<std::chrono::milliseconds>{std::chrono::milliseconds{impl_->wake->ms}});
  return at ? std::min(*at, wake) : wake;
}

bool PlacementModel::charges(const client::Key& key, std::int32_t attempt) const {
  return impl_->jobs.charges(key, attempt);
}
std::optional<JobDecision> PlacementModel::decision(const client::Key& key) const {
  return impl_->jobs.decision(key);
}
void PlacementModel::withdraw(const client::Key& key) {
  impl_->jobs.withdraw(key);
}
void PlacementModel::decide(const client::Key& key, JobDecision decision) {
  impl_->jobs.decide(key, std::move(decision));
}
std::optional<crds::Nomination> PlacementModel::nomination(const client::Key& key) const {
  return impl_->jobs.nomination(key);
}
std::optional<crds::Waiting> PlacementModel::verdict(const client::Key& key) const {
  const auto* v = impl_->cluster.pending_reason(key);
  return v == nullptr ? std::nullopt : std::optional(to_waiting(*v));
}

GpuMeans PlacementModel::gpu_means(const std::string& pool) const {
  const auto found = impl_->gpu_means.find(pool);
  return found == impl_->gpu_means.end() ? GpuMeans{"nvidia.com/gpu"} : found->second;
}
crds::Bytes PlacementModel::gpu_memory_of(const std::string& node) const {
  const auto found = impl_->nodes.find(node);
  return found == impl_->nodes.end() ? crds::Bytes{}
                                     : crds::Bytes{impl_->to_node(found->second).gpu_memory.value};
}
crds::MilliGpu PlacementModel::charge_of(const crds::PodAssignment& place, const PodNeeds& needs) const {
  const auto node = impl_->nodes.find(place.node);
  pl::RoleSpec role;
  role.gpus = needs.gpus;
  role.share = needs.share;
  const auto charge =
      pl::charge_on(node == impl_->nodes.end() ? pl::NodeSpec{} : impl_->to_node(node->second), role);
  return crds::MilliGpu{charge.value};
}
std::string PlacementModel::pool_of_gpus(const std::string& resource) const {
  for (const auto& [pool, means] : impl_->gpu_means) {
    if (means.resource == resource) return pool;
  }
  return {};
}
std::string PlacementModel::why_unused(const std::string& resource) const {
  const auto nodes = impl_->listed.find(resource);
  if (nodes == impl_->listed.end() || nodes->second == 0) return "no node has any";
  return impl_->cluster.uncountable(resource);
}
TreeNumbers PlacementModel::numbers_of_queue(const std::string& name) const {
  return impl_->numbers(name, false);
}
TreeNumbers PlacementModel::numbers_of_project(const std::string& name) const {
  return impl_->numbers(name, true);
}
PoolNumbers PlacementModel::numbers_of_pool(const std::string& name) const {
  const auto u = impl_->cluster.pool_usage(name);
  return {u.nodes, to_amounts(impl_->cluster, u.capacity), to_amounts(impl_->cluster, u.free), u.shared_nodes,
          crds::MilliGpu{u.largest_gang.value}};
}
std::vector<NodeNumbers> PlacementModel::numbers_of_nodes() const {
  std::vector<NodeNumbers> list;
  for (auto& n : pl::node_usage(impl_->cluster)) {
    list.push_back({std::move(n.node), std::move(n.pool), n.usable, crds::MilliGpu{n.capacity.value},
                    crds::MilliGpu{n.allocated.value}});
  }
  return list;
}
std::string PlacementModel::project_of(const std::string& ns) const {
  return impl_->jobs.project_of(ns);
}

}  // namespace muster::reconcilers
