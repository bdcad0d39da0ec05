// RULES.md 4.2 and 4.3: a gang as a whole. Each set of pods that belong together goes into the smallest
// domain that holds it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "place/affinity.h"
#include "place/layout.h"
#include "place/nodes.h"
#include "place/place.h"

namespace muster::placement {

// Places what a query wants. Sets are nested: all pods, those of a role with a rule of its own, the layers of
// groups; inside the innermost the pods go node by node. A set of which pods stand somewhere already (held by
// the job, or placed before) goes where these are.
class Gang {
 public:
  // Request::eligible must be filled.
  Gang(ClusterModel& state, Statement& statement, const PlaceQuery& query, const SearchLimits& limits);

  // On failure nothing is left placed.
  std::optional<std::vector<PodPlace>> run(Refusal* refusal);

 private:
  using Bundles = std::vector<std::size_t>;  // indexes into Layout::bundles
  struct Area {
    DomainId domain = kWholePool;
    NodeId host = kNoId;  // this node of it alone
    bool near = false;    // some rule wants the pods near each other
  };
  // What a set of bundles asks for.
  struct Demand {
    Resources sum;
    std::map<std::size_t, std::int64_t> of_shape;
  };
  struct Mark {
    std::size_t steps = 0, places = 0;
  };

  bool fit_whole(const Bundles& bundles);
  // Few pods of several shapes that stand in each other's way: bundle by bundle, with steps back. `steps`
  // bounds how many are tried.
  bool backtrack(const Bundles& order, std::size_t next, int& steps);
  // --- sets and their domains; each false: nothing of it is left placed
  bool fit(const Bundles& bundles, std::size_t layer, const Area& area);
  bool fit_set(const Bundles& bundles, const SetKey& set, const Area& area);
  bool fit_beside(const std::vector<NodeId>& others, const Bundles& bundles, const SetKey& set,
                  const Area& area);
  bool fit_in_domains(const Bundles& bundles, const SetKey& set, const Area& area, std::int32_t depth);
  bool fit_on_host(const Bundles& bundles, const SetKey& set, const Area& area);
  bool attempt(const Bundles& bundles, std::size_t layer, const Area& area);
  bool leaf(const Bundles& bundles, const Area& area);

  // --- pods of one shape; they place as many as they can from `next` on, and say where they stopped
  std::size_t fill(const Bundles& bundles, std::size_t next, const Area& area);
  std::size_t fill_domain(const Bundles& bundles, std::size_t next, const Area& area);
  std::size_t fill_few(const Bundles& bundles, std::size_t next, const NodeSearch& search);
  std::size_t fill_node(const Bundles& bundles, std::size_t next, NodeId node, std::int64_t most);
  // `to_come`: so many bundles of its shape, this one included, are to find room on the node.
  bool put(const Bundle& bundle, NodeId node, std::int64_t to_come);
  bool put_beside_held();  // pods whose partner on the same node stands already

  // --- bounds
  Demand demand_of(const Bundles& bundles) const;
  bool could_hold(DomainId domain, const Demand& demand, std::size_t layer) const;
  bool has_room(DomainId domain, const Demand& demand, std::size_t layer) const;
  std::int64_t room(DomainId domain, const Shape& shape, std::size_t layer) const;
  std::int64_t fewest_nodes_in(DomainId domain, const Demand& demand) const;
  bool whole_groups(const Demand& demand) const;

  std::vector<std::vector<std::size_t>> orders(const Demand& demand) const;
  bool rules_hold() const;
  void stands(const PodWish& pod, NodeId node);
  Mark mark() const { return {st_.mark(), places_.size()}; }
  void rollback(const Mark& to);

  ClusterModel& s_;
  Statement& st_;
  const PlaceQuery& q_;
  SearchLimits limits_;
  Request& request_;
  const Pool& pool_;
  std::unique_ptr<InterPodAffinity> neighbours_;  // nullptr: no pod has a say
  Layout layout_;
  std::map<SetKey, std::vector<NodeId>> stands_;                 // where pods of a set are
  std::map<std::pair<std::size_t, std::int32_t>, NodeId> held_;  // by leading role and index
  std::vector<bool> put_already_;                                // by bundle
  std::vector<PodPlace> places_;
  std::vector<NodeId> nodes_;  // of places_
  NodeId last_ = kNoId;        // where a pod of the job is
  // Of the failure that came farthest.
  std::size_t failed_role_ = 0;
  std::int64_t most_placed_ = -1;
};

}  // namespace muster::placement
