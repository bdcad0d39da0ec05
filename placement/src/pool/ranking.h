// Nodes in the order in which searches for one pod prefer them, kept from search to search: only what has
// changed in between is looked at again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "node/devices.h"
#include "node/ids.h"

namespace muster::placement {

// Smaller is better; of equal ones the smaller id.
struct Rank {
  std::int64_t beside = 0, first = 0, second = 0;
  NodeId node = kNoId;
  std::uint64_t stamp = 0;  // Node::stamp when it was computed

  bool before(const Rank& o) const {
    return std::tie(beside, first, second, node) < std::tie(o.beside, o.first, o.second, o.node);
  }
};

// The rankings of one pool. They hold for what depends on nothing but the node and the key.
class Rankings {
 public:
  struct Key {
    std::uint64_t request = 0;  // Request::serial
    std::size_t role = 0;
    View view = View::kNow;
    bool shun = false;       // no nodes with a taint PreferNoSchedule
    bool by_waste = false;   // else by free CPU
    std::int64_t least = 1;  // only nodes with room for so many
    auto operator<=>(const Key&) const = default;
  };

  // The node, or what is held of it, is not what it was; it may have left the pool.
  void changed(NodeId node) {
    if (!all_.empty()) changes_.push_back(node);
  }

  // The best of `nodes`; kNoId: none will do. `stamp` tells the node's state, `rank` what it is worth
  // (nullopt: it will not do), `version` whatever else ranks depend on. O(nodes) the first time, then
  // O(min(changes, nodes) + changed nodes x log nodes).
  template <class Stamp, class Ranked>
  NodeId best(const Key& key, std::uint64_t version, const std::set<NodeId>& nodes, Stamp&& stamp,
              Ranked&& rank) {
    find_solution(nodes.size());
    Ranking& r = all_[key];
    if (r.seen.empty() || r.version != version || r.heap.size() > 2 * nodes.size() + 64) {
      r = {version, changes_.size(), {}, {}};
      for (const NodeId id : nodes) look_at(r, id, stamp(id), rank);
    }
    if (changes_.size() - r.upto <= r.seen.size()) {
      for (; r.upto < changes_.size(); ++r.upto) look_at(r, changes_[r.upto], stamp(changes_[r.upto]), rank);
    } else {  // a search tries many things and takes them back: the same few nodes again and again
      for (std::size_t at = 0; at < r.seen.size(); ++at) {
        const auto id = static_cast<NodeId>(at);
        if (r.seen[at] != 0) look_at(r, id, stamp(id), rank);  // also those that have left the pool
      }
      for (const NodeId id : nodes) look_at(r, id, stamp(id), rank);
      r.upto = changes_.size();
    }
    while (!r.heap.empty() && r.heap.front().stamp != r.seen[static_cast<std::size_t>(r.heap.front().node)])
      pop(r.heap);
    return r.heap.empty() ? kNoId : r.heap.front().node;
  }

 private:
  struct Ranking {
    std::uint64_t version = 0;
    std::size_t upto = 0;             // changes_ that have been looked at
    std::vector<std::uint64_t> seen;  // by node: the stamp of what is known of it
    std::vector<Rank> heap;           // the best first; those with another stamp than that are of the past
  };

  template <class Ranked>
  void look_at(Ranking& r, NodeId id, std::uint64_t stamp, Ranked&& rank) {
    const auto at = static_cast<std::size_t>(id);
    if (r.seen.size() <= at) r.seen.resize(at + 1);
    if (r.seen[at] == stamp) return;
    r.seen[at] = stamp;
    std::optional<Rank> worth = rank(id);
    if (!worth) return;
    worth->node = id;
    worth->stamp = stamp;
    push(r.heap, *worth);
  }
  static void push(std::vector<Rank>& heap, const Rank& rank);
  static void pop(std::vector<Rank>& heap);
  // Forgets everything where it has become too much.
  void find_solution(std::size_t nodes);

  std::map<Key, Ranking> all_;
  std::vector<NodeId> changes_;  // since there are rankings, in order
};

}  // namespace muster::placement
