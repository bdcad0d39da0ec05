// The auditor: I1 (nothing beyond capacity), I2 (no half gang), I3 (limits; non-preemptible within quota are kept at admission and may
// be broken by a later edit of the quota, so they are not a defect of the model), and the model's own indexes, from scratch.
#include <algorithm>

#include "muster/placement/cluster.h"
#include "state.h"

namespace muster::placement {
namespace {

struct Recount {
  Resources used;
  std::int32_t named = 0, unnamed = 0;
};

void add(std::map<NodeId, Recount>& all, const Charge& c) {
  if (c.node == kNone) return;
  Recount& r = all[c.node];
  r.used += c.amounts;
  r.named += static_cast<std::int32_t>(c.gpus.size());
  r.unnamed += c.unnamed;
}

}  // namespace

std::vector<std::string> Cluster::audit() const {
  const State& s = *state_;
  std::vector<std::string> bad;
  std::map<NodeId, Recount> counted;
  for (std::size_t i = 0; i < s.jobs.size(); ++i) {
    const Job& j = s.jobs[i];
    for (const Charge& c : j.charges) {
      add(counted, c);
      for (const auto gpu : c.gpus) {
        if (s.nodes[static_cast<std::size_t>(c.node)].gpu_holder[static_cast<std::size_t>(gpu)] != static_cast<JobId>(i)) {
          bad.push_back("I1: GPU " + std::to_string(gpu) + " of " + s.nodes[static_cast<std::size_t>(c.node)].spec.name + " is not in the ledger as " + j.spec.id + "'s");
        }
      }
    }
    if (!j.known) continue;
    if (j.assumed && j.assignment) {
      std::int64_t wanted = 0;
      for (const RoleSpec& r : j.spec.roles) wanted += r.replicas;
      if (static_cast<std::int64_t>(j.assignment->pods.size()) != wanted) bad.push_back("I2: " + j.spec.id + " was started with a part of its pods");
    }
    if (j.assignment.has_value() == s.waiting.contains(static_cast<JobId>(i))) {
      bad.push_back("index: " + j.spec.id + (j.assignment ? " holds and waits" : " neither holds nor waits"));
    }
  }
  for (const auto& [key, c] : s.others) add(counted, c);
  for (std::size_t i = 0; i < s.nodes.size(); ++i) {
    const Node& n = s.nodes[i];
    const Recount r = counted[static_cast<NodeId>(i)];
    if (r.used != n.used || r.named != n.named_gpus || r.unnamed != n.unnamed_gpus) bad.push_back("index: sums of node " + n.spec.name + " drifted");
    if (!takes_part(n)) continue;
    const auto& models = s.pools[static_cast<std::size_t>(n.pool)].models;
    const auto model = models.find(n.spec.gpu_model);
    const bool found = model != models.end() && model->second.by_free.contains(n.free_gpus()) &&
                       model->second.by_free.at(n.free_gpus()).contains(static_cast<NodeId>(i));
    if (!found) bad.push_back("index: node " + n.spec.name + " is in the wrong bucket");
  }
  return bad;
}

}  // namespace muster::placement
