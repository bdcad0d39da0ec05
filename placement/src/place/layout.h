// RULES.md 4.3: how a gang is made up. Which pods go to one node together, and which sets of pods have a
// topology rule?
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "place/nodes.h"
#include "place/place.h"

namespace muster::placement {

// Pods that go to one node.
struct Bundle {
  std::size_t shape = 0;
  std::vector<PodWish> pods;  // in the order of the shape's roles
};

// A topology rule, its levels as depths; 0: not said.
struct DepthRule {
  std::int32_t required = 0, preferred = 0;
  bool none() const { return required == 0 && preferred == 0; }
};

// One set of pods: the whole job, a role, or a group.
struct SetKey {
  std::size_t layer = 0;
  std::int64_t part = 0, number = 0;
  auto operator<=>(const SetKey&) const = default;
};

// Groups are counted over the minimum of all roles in order. Surplus replicas of an elastic role make groups
// of their own, behind its minimum.
class Layout {
 public:
  // The pods that the query wants, or the whole minimum. `shared`: by role, a level of which its pods must
  // share one domain beside what the rules say; "": none. O(pods).
  Layout(const ClusterModel& state, const PlaceQuery& query, const std::vector<std::string>& shared);

  std::string unknown_level;  // required, but the pool does not know it: nothing can be placed
  std::vector<Shape> shapes;
  std::vector<Bundle> bundles;

  // Only layers that say something: the job, the roles, the groups, coarse to fine.
  std::size_t layers() const { return layers_.size(); }
  SetKey set_of(std::size_t layer, const PodWish& pod) const;
  DepthRule rule_of(const SetKey& set) const;
  // Pods of each group of this layer; 0: it is not one of groups.
  std::int32_t group_size(std::size_t layer) const { return layers_[layer].size; }
  // The role whose node this one goes to; itself if to none.
  std::size_t leader(std::size_t role) const { return leaders_[role]; }

 private:
  enum class Of : std::uint8_t { kJob, kRoles, kGroups };
  struct Layer {
    Of of = Of::kJob;
    DepthRule rule;  // not of kRoles: see role_rules_
    std::int32_t size = 0;
  };
  DepthRule read(const PoolSpec& pool, const TopologyRule& rule);
  DepthRule smallest(const PoolSpec& pool) const;
  void add_layers(const PoolSpec& pool, const std::vector<std::string>& shared);
  void add_bundles(const ClusterModel& state, const PlaceQuery& query);

  const Request& request_;
  std::vector<std::size_t> leaders_;     // by role
  std::vector<std::int64_t> first_pod_;  // by role: its first place in the order of all pods
  std::vector<DepthRule> role_rules_;
  std::vector<Layer> layers_;
};

}  // namespace muster::placement
