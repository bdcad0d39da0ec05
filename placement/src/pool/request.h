// RULES.md 4.1: what jobs ask of the nodes. Jobs that ask the same share one request, which is judged once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "muster/placement/job.h"
#include "muster/placement/plan.h"
#include "node/ids.h"
#include "node/resource_vector.h"
#include "pool/node_table.h"

namespace muster::placement {

// Why a request found no place in a pool, and when.
struct Refusal {
  std::uint64_t gains = 0;         // Pool::gains then: while it stands, nothing that could help has happened
  std::uint64_t version = 0;       // Pool::version that `pending reason` describes
  Time described;                  // when it was made
  std::uint64_t described_in = 0;  // and the plan that made it
  std::uint64_t serial = 0;        // changes with the pending reason
  std::size_t role = 0;            // for a pod of which there was no room
  std::int64_t placed = 0;         // pods that had found a place before it
  bool never = false;              // as the pool is, it would not fit even if all of it were empty
  std::uint64_t members = 0;       // Pool::members for which `never` holds
  PendingReason pending_reason;
};

// Which usable nodes of a pool would do for a pod of a role if they were empty.
struct Suited {
  std::uint64_t members = 0;  // Pool::members for which this holds; 0: not known
  bool none = false, all = false;
};

struct Request {
  std::int32_t users = 0;
  std::uint64_t serial = 0;  // never that of another
  std::string key;
  std::vector<RoleSpec> roles;
  std::vector<std::string> avoid;
  TopologyRule topology;
  std::vector<GroupRule> groups;
  Resources total;         // of the minimum; memory shares are not in it: ClusterModel::asked
  bool by_memory = false;  // some role asks for GPU memory
  bool elastic = false;
  bool about_pods = false;          // some role has terms about pods, or is to be spread among them
  bool with_anti_affinity = false;  // required anti-affinity is among them
  std::string invalid;              // why it can never be placed; "": it may
  // Why it gets no new places, though it is valid: it asks for a resource for which there is no place to
  // count in. What runs all the same (a process before this one had places) holds the rest of what it asks
  // for.
  std::string uncounted;
  const std::string& refusal() const { return invalid.empty() ? uncounted : invalid; }
  // By role and NodeId: the node would do if it were empty. Filled when first asked for, then kept up to
  // date.
  std::vector<std::vector<bool>> eligible;
  std::map<PoolId, std::vector<Suited>> suited;  // by role; of no other meaning than what `eligible` says
  std::map<PoolId, Refusal> refused;
  std::map<PoolId, Refusal> refused_beside;  // of jobs that are kept off reserved nodes
  // Of those that wait in this leaf queue, with this priority, in this pool, kept off reserved nodes or not:
  // since when a disturbance that is not owed to them would make room, and does not pay yet (RULES.md 5.11).
  std::map<std::tuple<QueueId, std::int64_t, PoolId, bool>, Time> costs_too_much_since;
};

// The pod that the role asks for, with all that placement computes of it filled in.
RoleSpec complete(RoleSpec role, const ResourceNames& names);

inline bool takes_whole_gpus(const RoleSpec& role) {
  return role.gpus > 0 && role.share.kind == GpuShare::Kind::kWhole;
}

// The node would do for a pod of the role if it were empty: size, model, labels, affinity, taints.
// Kubernetes' semantics.
bool would_do(const NodeSpec& node, const RoleSpec& role, const std::vector<std::string>& avoid);
// Parts of that question: GPUs, their model, and taints; labels and the name.
bool kind_would_do(const NodeSpec& node, const RoleSpec& role);
bool labels_would_do(const NodeSpec& node, const RoleSpec& role, const std::vector<std::string>& avoid);
bool named_would_do(const NodeSpec& node, const RoleSpec& role);  // and resources known by name

class Requests {
 public:
  // To be released once.
  RequestId acquire(const JobSpec& spec, const ResourceNames& names);
  void release(RequestId id);
  Request& at(RequestId id) { return all_[static_cast<std::size_t>(id)]; }
  const Request& at(RequestId id) const { return all_[static_cast<std::size_t>(id)]; }
  // Keeps `eligible` true for a node that is new or changed. O(requests in use).
  void node_changed(NodeId id, const NodeSpec& spec);
  void node_gone(NodeId id) { table_.drop(id); }
  bool any_about_pods() const { return about_pods_ > 0; }
  template <class Nodes>  // a vector of things with .spec
  void fill_eligible(Request& request, const Nodes& nodes) const {
    if (!request.eligible.empty()) return;
    for (const RoleSpec& role : request.roles) {
      std::vector<bool>& list = request.eligible.emplace_back(table_.would_do(role, nodes.size()));
      const bool named = !role.named.empty();
      if (!named && role.node_selector.empty() && role.required.empty() && request.avoid.empty()) continue;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (list[i] && named) list[i] = named_would_do(nodes[i].spec, role);
        if (list[i]) list[i] = labels_would_do(nodes[i].spec, role, request.avoid);
      }
    }
  }

 private:
  NodeTable table_;
  std::vector<Request> all_;
  std::vector<RequestId> free_;
  std::map<std::string, RequestId> by_key_;
  std::uint64_t last_serial_ = 0;
  std::int32_t about_pods_ = 0;  // requests in use that have such terms
};

}  // namespace muster::placement
