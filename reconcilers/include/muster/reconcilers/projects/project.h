// The reconciler of Projects: keeps a Project's namespace and what belongs into it, and then its status.
// It makes what is missing, mends what was changed, removes what is not wanted any more, and leaves alone
// what it did not make: an object is Muster's when it carries Muster's label and Muster's field manager
// wrote to it.
#pragma once

#include <string>
#include <vector>

#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/projects/capacity.h"
#include "muster/reconcilers/projects/project_objects.h"

namespace muster::reconcilers {

class ProjectReconciler {
 public:
  ProjectReconciler(ReconcilerContext& context, CapacityReconciler& capacity)
      : context_(context), capacity_(capacity) {}

  // Level-based and idempotent; also for a Project that is gone, whose objects may still be there.
  client::Task<Outcome> reconcile(client::Key key);

 private:
  using Kept = client::Ptr<KeptObject>;
  using Project = client::Ptr<Object<crds::Project>>;

  client::Task<Outcome> finish(Project project);
  client::Task<NamespaceState> keep(const Project& project);
  client::Task<NamespaceState> keep_namespace(const crds::Project& project);
  client::Task<NamespaceState> keep_object(const WantedObject& wanted, std::string ns);
  // Of those that carry the Project's label; `wanted` empty: all.
  client::Task<bool> remove_unwanted(const client::Key& project, std::string ns,
                                     const std::vector<WantedObject>& wanted);

  ReconcilerContext& context_;
  CapacityReconciler& capacity_;
};

// Whose the namespace is, by its label and the Projects that claim it; "": nobody's. While it does not exist,
// the one that is to make it. Complexity: O(claims).
std::string owner_of_namespace(const Caches& caches, const std::string& ns);
// Which Project claims a namespace that it does not own, and what is to be done, as its NamespaceTaken says;
// "": somebody owns it, or nobody claims it. Complexity: O(claims).
std::string why_not_owned(const Caches& caches, const std::string& ns);

}  // namespace muster::reconcilers
