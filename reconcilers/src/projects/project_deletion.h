// spec.namespace.deletionPolicy: Delete. The Project has a finalizer. When it is deleted, its work saves as
// in any eviction; then the work goes, then what Muster made, then the finalizer. Every step asks only what
// is there, so a process that comes later goes on where the one before has ended. decisions/0099 says why.
#pragma once

#include <string_view>

#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/projects/capacity.h"

namespace muster::reconcilers {

inline constexpr std::string_view kDeleteFinalizer = "muster.dev/save-and-delete";
// Of a namespace that Muster has made. Only such a one is ever deleted.
inline constexpr std::string_view kMadeForAnnotation = "muster.dev/made-for";  // the Project's name

bool has_delete_finalizer(const crds::Project& project);

// Makes the finalizer agree with the policy. False: not written, again later.
client::Task<bool> keep_finalizer(ReconcilerContext& context, client::Ptr<Object<crds::Project>> project);
// Takes it off. False: not written, again later.
client::Task<bool> drop_finalizer(ReconcilerContext& context, client::Ptr<Object<crds::Project>> project);

// Of a Project that is being deleted: lets its work end and removes it. No reason: nothing of it is left.
client::Task<NamespaceState> remove_work(ReconcilerContext& context, const crds::Project& project);
// Removes the namespace if Muster has made it and nobody's claims are in it. No reason: it is done with it.
client::Task<NamespaceState> remove_namespace(ReconcilerContext& context, const crds::Project& project);

}  // namespace muster::reconcilers
