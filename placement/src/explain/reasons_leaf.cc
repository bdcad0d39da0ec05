#include <set>

#include "explain/reasons.h"

namespace muster::placement {
namespace {

constexpr std::size_t kMostNamed = 8;

// Where the chain above does not reach the top.
std::string broken_above(const State& s, LeafId leaf) {
  std::set<LeafId> seen;
  for (LeafId at = leaf; at != kNoId; at = s.leaf(at).parent) {
    if (!seen.insert(at).second) {
      std::vector<std::string> circle = {s.leaf(at).spec.name};
      for (LeafId next = s.leaf(at).parent; next != at; next = s.leaf(next).parent)
        circle.push_back(s.leaf(next).spec.name);
      circle.push_back(circle.front());
      return "Queues are each other's parents: " + join(circle, kMostNamed);
    }
    const TreeNode& t = s.leaf(at);
    if (!t.spec.parent.empty() && (t.parent == kNoId || !s.leaf(t.parent).known)) {
      return "there is no Queue " + t.spec.parent + ", which " + who(t.spec) + " names as its " +
             (t.spec.is_project ? "queue" : "parent");
    }
  }
  return who(s.leaf(leaf).spec) + " does not hang on a complete tree of Queues";
}

}  // namespace

std::optional<Verdict> verdict_of_leaf(const State& s, LeafId leaf, const std::vector<LeafId>& path) {
  Verdict v;
  if (leaf == kNoId || !s.leaf(leaf).known) {
    v.reason = Reason::kProjectNotFound;
    v.message = leaf == kNoId ? "no Project owns the namespace: make one whose spec.namespace.name it is"
                              : "there is no Project " + s.leaf(leaf).spec.name;
    return v;
  }
  if (path.empty()) {
    v.reason = Reason::kProjectNotFound;
    v.message = broken_above(s, leaf);
    return v;
  }
  for (const LeafId at : path) {
    if (!s.leaf(at).spec.hold) continue;
    v.reason = Reason::kQueueHeld;
    v.message =
        who(s.leaf(at).spec) + (s.leaf(at).spec.drain
                                    ? " starts nothing new, and lets go of what runs (spec.admission: Drain)"
                                    : " starts nothing new (spec.admission: Hold)");
    return v;
  }
  return std::nullopt;
}

}  // namespace muster::placement
