#include <set>

#include "explain/reasons.h"

namespace muster::placement {
namespace {

constexpr std::size_t kMaxNamed = 8;

// Where the chain above does not reach the top.
std::string broken_above(const QueueTree& tree, QueueId leaf) {
  std::set<QueueId> seen;
  for (QueueId at = leaf; at != kNoId; at = tree.queue(at).parent) {
    if (!seen.insert(at).second) {
      std::vector<std::string> circle = {tree.queue(at).spec.name};
      for (QueueId next = tree.queue(at).parent; next != at; next = tree.queue(next).parent)
        circle.push_back(tree.queue(next).spec.name);
      circle.push_back(circle.front());
      return "Queues are each other's parents: " + join(circle, kMaxNamed);
    }
    const TreeNode& t = tree.queue(at);
    if (!t.spec.parent.empty() && (t.parent == kNoId || !tree.queue(t.parent).known)) {
      return "there is no Queue " + t.spec.parent + ", which " + who(t.spec) + " names as its " +
             (t.spec.is_project ? "queue" : "parent");
    }
  }
  return who(tree.queue(leaf).spec) + " does not hang on a complete tree of Queues";
}

}  // namespace

std::optional<PendingReason> reason_of_leaf(const QueueTree& tree, QueueId leaf,
                                            const std::vector<QueueId>& path) {
  PendingReason v;
  if (leaf == kNoId || !tree.queue(leaf).known) {
    v.reason = Reason::kProjectNotFound;
    v.message = leaf == kNoId ? "no Project owns the namespace: make one whose spec.namespace.name it is"
                              : "there is no Project " + tree.queue(leaf).spec.name;
    return v;
  }
  if (path.empty()) {
    v.reason = Reason::kProjectNotFound;
    v.message = broken_above(tree, leaf);
    return v;
  }
  for (const QueueId at : path) {
    if (!tree.queue(at).spec.hold) continue;
    v.reason = Reason::kQueueHeld;
    v.message =
        who(tree.queue(at).spec) + (tree.queue(at).spec.drain
                                        ? " starts nothing new, and lets go of what runs (admission: Drain)"
                                        : " starts nothing new (admission: Hold)");
    return v;
  }
  return std::nullopt;
}

std::optional<PendingReason> reason_of_drain(const ClusterModel& s, const Job& j, PoolId pool,
                                             const std::vector<QueueId>& path) {
  const QueueId at = s.tree().drains_before_end(path, s.time, j.spec.max_runtime);
  if (at == kNoId) return std::nullopt;
  const QueueSpec& queue = s.tree().queue(at).spec;
  PendingReason v;
  v.reason = Reason::kReserved;
  v.message = "may run until after " + show(queue.coming_drain->at) + " by its maxRuntime, and " +
              who(queue) + " lets go of what runs from then until " + show(queue.coming_drain->until) +
              " by its schedules; it starts after that";
  const Resources asked = s.asked(s.request_of(j), pool);
  const ResourceKind what = asked.gpu.value > 0 ? ResourceKind::kGpu : ResourceKind::kCpu;
  v.blocking.push_back({name_of(what), s.pool(pool).spec.name, amount_of(asked, what), 0, {who(queue)}});
  return v;
}

}  // namespace muster::placement
