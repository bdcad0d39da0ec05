// RULES.md 4.5: affinity and anti-affinity between pods, and topology spread, as Kubernetes defines them for
// pod templates.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster_model.h"
#include "model/statement.h"
#include "place/place.h"

namespace muster::placement {

// All of it holds for a pod with these labels; nothing demanded: for none.
bool selects(const std::vector<Requirement>& selector, const Labels& labels);

// A pod of the role repels another of it on the same node.
bool repels_itself_on_host(const RoleSpec& role);

// Whom the pods of one query meet where. Pods count as they are in the query's view: what is leaving repels
// for as long as it is there, but attracts nobody; nominations count as kept. Where Kubernetes looks at all
// nodes, this looks at the usable ones of the pool. As there, domains are label values, not paths; a node
// without its host name label is known by its name. Weights of others for this pod (the symmetry of
// *preferred* terms) are left out.
class InterPodAffinity {
 public:
  // Nobody's terms concern the query: all of this can be left out. O(1) then.
  static bool needed(const ClusterModel& state, const Request& request);

  // O(jobs and pods of the cluster x terms); without terms of its own, O(pods of jobs with anti-affinity).
  InterPodAffinity(const ClusterModel& state, const Statement& statement, const PlaceQuery& query);

  bool allows(std::size_t role, NodeId node) const;
  // What preferred terms and constraints that may be broken say; smaller is better. One pod in the same
  // domain counts as its term's weight, and as 1 for a spread constraint.
  std::int64_t dislike(std::size_t role, NodeId node) const;
  bool prefers(std::size_t role) const;  // dislike() is not always 0
  // Every pod placed may change what is best for the next.
  bool one_by_one(std::size_t role) const { return prefers(role) || !roles_[role].spread.empty(); }
  // The label key of which all pods of the role must share one value, because nobody else is there for whom
  // its affinity asks; "": none. Of several the finest level of the pool.
  std::string shared_key(std::size_t role) const;
  // Where that key is no level of the pool: only nodes with its value number `value` will do for the role.
  // False: there are not so many.
  bool pin(std::size_t role, std::int32_t value);

  // A pod of the query's job is placed, or taken away again.
  void add(std::size_t role, NodeId node) { count_own(role, node, 1); }
  void remove(std::size_t role, NodeId node) { count_own(role, node, -1); }

 private:
  using Value = std::int32_t;  // of a label, numbered by key; -1: not there
  struct Key {
    std::string name;
    std::vector<Value> of;  // by node
    std::map<std::string, Value> values;
  };
  struct Count {
    std::size_t key = 0;
    std::map<Value, std::int64_t> pods;
    std::int64_t total = 0;
    std::vector<bool> own;  // by role of the job: its pods count
    void add(Value value, std::int64_t n);
    std::int64_t at(Value value) const;
  };
  struct Spread {
    const SpreadConstraint* rule = nullptr;
    Count count;
    std::vector<bool> nodes;                       // that count
    std::map<std::int64_t, std::int64_t> domains;  // pods -> how many domains have so many
    void add(Value value, std::int64_t n);
  };
  struct OfRole {
    std::vector<Count> affinity, anti;
    std::vector<std::pair<std::int64_t, Count>> preferred;
    std::vector<Spread> spread;
    std::vector<Count> repelled;  // by anti-affinity of others
    bool matches_own_affinity = false;
    std::size_t pinned_key = 0;
    Value pinned = -1;  // -1: it is not
  };
  // A pod that is there.
  struct Seen {
    std::string_view ns;
    const Labels* labels;
    NodeId node;
    Hold hold;
  };

  std::size_t key_of(const std::string& name);
  Value value(std::size_t key, NodeId node) const { return keys_[key].of[static_cast<std::size_t>(node)]; }
  Count count_of(const std::string& key, const std::vector<bool>& own);
  std::vector<bool> own_roles(const PodTerm& term, std::string_view owner) const;
  void add_terms(std::size_t role);
  void add_spread(std::size_t role, const SpreadConstraint& rule);
  template <class Each>
  void each_pod(const Statement& statement, Each&& each) const;  // all that are there
  void see(const Seen& pod);
  void see_anti_affine(const Statement& statement);
  void repel(const RoleSpec& other, std::string_view ns, NodeId node, std::int64_t n);
  void count_own(std::size_t role, NodeId node, std::int64_t n);

  const ClusterModel& s_;
  const PlaceQuery& q_;
  const Request& request_;
  std::string_view ns_;  // of the query's job
  std::vector<Key> keys_;
  std::vector<OfRole> roles_;
};

}  // namespace muster::placement
