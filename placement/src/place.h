// Rule 4, placement: a complete set of nodes and GPUs for a gang in one pool, or none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "state.h"

namespace muster::placement {

// Reversible: everything placed through a Statement is given back unless commit() is called.
class Statement {
 public:
  explicit Statement(State& state) : state_(state) {}
  ~Statement() { rollback(); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void place(JobId job, const RoleSpec& role, const PodPlace& place, LeafId leaf, PoolId pool, bool fixed);
  void rollback();
  std::vector<Charge> commit();  // the charges of the placed pods, in order

 private:
  State& state_;
  std::vector<Charge> charges_;
};

// What kept a gang out.
struct Shortage {
  std::size_t role = 0;  // the role for which nothing was found
  bool no_node_would_do = false;
  Resources need;        // of that role, all its pods
  Resources free;        // on the nodes that would do if they were empty
  std::int64_t fit = 0;  // pods of that role which would fit now
};

// Places all pods of the job in `pool`, in `statement`. nullopt and `shortage`: it does not fit; nothing is left placed.
// Packs: each role on as few nodes as possible, and of the nodes that would do the one that keeps least idle beside it.
// O(nodes that have room) for each node used.
std::optional<std::vector<PodPlace>> place_gang(State& state, Statement& statement, JobId job, PoolId pool, Shortage& shortage);

// One pod of the job; the same rules.
std::optional<PodPlace> place_pod(State& state, Statement& statement, JobId job, PoolId pool, std::int32_t role, std::int32_t index);

}  // namespace muster::placement
