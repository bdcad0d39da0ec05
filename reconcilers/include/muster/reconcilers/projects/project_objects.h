// What Muster keeps in the cluster for a Project: the namespace's labels, and objects of its own inside it.
// Pure functions: from a Project to JSON, and from what is there to whether it is as it should be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/client/api.h"
#include "muster/client/object.h"
#include "muster/crds/project.h"
#include "muster/reconcilers/caches/kept_objects.h"

namespace muster::reconcilers {

// An object as it is to be. What it states must be so; what it leaves out others may add.
struct WantedObject {
  const client::Resource* resource;
  std::string name;
  crds::RawJson object;
};

// The labels that the namespace is to have.
crds::StringMap namespace_labels(const crds::Project& project);
// The namespace, for the one who creates it.
crds::Json namespace_json(const crds::Project& project);
// ServiceAccount, NetworkPolicy and RoleBindings, in this order; each with a name of its own within its
// resource. `own_namespace` is Muster's, which an isolated network lets in.
std::vector<WantedObject> objects_of(const crds::Project& project, const std::string& own_namespace);

// Whether it is the Project's namespace: by its label or, if the label got lost, by what the Project's status
// remembers of it. The label of another Project always counts, because that is how a namespace is handed
// over.
bool is_namespace_of(const crds::Project& project, const Namespace& ns);

}  // namespace muster::reconcilers
