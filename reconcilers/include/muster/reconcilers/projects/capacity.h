// The status of Queue, Project and NodePool: whether the objects fit each other (parents, cycles, namespaces,
// default pools), and numbers. Nothing else is written here; who gets what is placement's, and a Project's
// namespace is project.h's.
#pragma once

#include <map>
#include <string>

#include "muster/reconcilers/caches/reconciler_context.h"

namespace muster::reconcilers {

// Whether a Project has its namespace, with all that belongs into it.
struct NamespaceState {
  std::string reason{};  // empty: it has
  std::string message{};
  bool retry = false;  // nothing will tell when it can be had
};

class CapacityReconciler {
 public:
  // Why an object is not accepted. No reason: it is.
  struct Refusal {
    std::string reason;
    std::string message;
  };

  explicit CapacityReconciler(ReconcilerContext& context) : context_(context) {}

  client::Task<Outcome> queue(client::Key key);
  client::Task<Outcome> project(client::Key key, NamespaceState state);
  client::Task<Outcome> node_pool(client::Key key);

 private:
  // Finds the object, fills its status, says in Accepted whether it can be used, and writes.
  template <class Kind>
  client::Task<Outcome> refresh(ObjectStore<Kind>& store, client::Key key);
  // Numbers and the conditions that only this kind has.
  Refusal fill(crds::Queue& queue) const;
  Refusal fill(crds::Project& project) const;
  Refusal fill(crds::NodePool& pool) const;
  template <class Kind>
  client::Task<Outcome> write(ObjectStore<Kind>& store, client::Ptr<Object<Kind>> object,
                              typename Kind::Status wanted);
  // What the work has used until now.
  void take_usage(const std::string& name, crds::QueueStatus& status);
  void take_usage(const std::string& name, crds::ProjectStatus& status);
  void take_usage(const std::string& name, crds::NodePoolStatus& status);
  // Work below it has given something back since then.
  bool has_ended(const crds::QueueStatus&, const std::string& name);
  bool has_ended(const crds::ProjectStatus&, const std::string& name);
  bool has_ended(const crds::NodePoolStatus&, const std::string&) { return false; }
  std::optional<client::Duration> usage_later(const std::string& id);

  ReconcilerContext& context_;
  std::map<std::string, NamespaceState> namespaces_;       // by Project, as its last reconcile found it
  std::map<std::string, client::TimePoint> written_;       // kind/name -> when its numbers were last written
  std::map<std::string, client::TimePoint> usage_looked_;  // kind/name -> when its usage was last looked at
};

// The pool that is meant where none is named, as placement has it; "": none. Complexity: O(pools).
std::string default_pool(const ObjectStore<crds::NodePool>& pools);

// The quotas that the Queues and Projects right below `queue` have now, added up by resource. A resource that
// no child states is absent. Complexity: O(children).
crds::AmountsByModel quota_of_children(const ObjectStore<crds::Queue>& queues,
                                       const ObjectStore<crds::Project>& projects, const std::string& queue,
                                       crds::Time now);

// The Project that is to make a namespace which does not exist: of all that claim it the oldest, then the
// first by name. Empty: nobody claims it. Complexity: O(claims).
std::string first_claimant(const ObjectStore<crds::Project>& projects, const std::string& ns);

}  // namespace muster::reconcilers
