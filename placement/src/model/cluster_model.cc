// Names and the ids they stand for.
#include "model/cluster_model.h"

namespace muster::placement {

NodeId ClusterModel::node_of(const std::string& name) {
  if (const auto found = node_ids.find(name); found != node_ids.end()) return found->second;
  NodeId id;
  if (free_nodes_.empty()) {
    id = static_cast<NodeId>(nodes.size());
    nodes.emplace_back();
  } else {
    id = free_nodes_.back();
    free_nodes_.pop_back();
  }
  node(id).spec.name = name;
  node_ids.emplace(name, id);
  return id;
}

void ClusterModel::forget_node(NodeId id) {
  Node& n = node(id);
  if (n.known || n.allocations > 0) return;
  node_ids.erase(n.spec.name);
  n = Node{};
  free_nodes_.push_back(id);
}

PoolId ClusterModel::pool_of(const std::string& name) {
  const auto [it, fresh] = pool_ids.emplace(name, static_cast<PoolId>(pools.size()));
  if (fresh) pools.emplace_back().spec.name = name;
  return it->second;
}

QueueId ClusterModel::queue_of(const std::string& name, bool is_project) {
  const auto [it, fresh] = tree_ids.emplace(tree_key(name, is_project), static_cast<QueueId>(tree.size()));
  if (fresh) {
    tree.emplace_back().spec.name = name;
    tree.back().spec.is_project = is_project;
  }
  return it->second;
}

JobId ClusterModel::job_of(const std::string& id) {
  if (const auto found = job_ids.find(id); found != job_ids.end()) return found->second;
  JobId fresh;
  if (free_jobs_.empty()) {
    fresh = static_cast<JobId>(jobs.size());
    jobs.emplace_back();
  } else {
    fresh = free_jobs_.back();
    free_jobs_.pop_back();
  }
  job(fresh).spec.id = id;
  job_ids.emplace(id, fresh);
  return fresh;
}

void ClusterModel::forget_job(JobId id) {
  job_ids.erase(job(id).spec.id);
  job(id) = Job{};
  free_jobs_.push_back(id);
}

PoolId ClusterModel::find_pool(const std::string& name) const {
  const auto found = pool_ids.find(name);
  return found == pool_ids.end() || !pool(found->second).known ? kNoId : found->second;
}
QueueId ClusterModel::find_queue(const std::string& name, bool is_project) const {
  const auto found = tree_ids.find(tree_key(name, is_project));
  return found == tree_ids.end() ? kNoId : found->second;
}
JobId ClusterModel::find_job(const std::string& id) const {
  const auto found = job_ids.find(id);
  return found == job_ids.end() ? kNoId : found->second;
}

}  // namespace muster::placement
