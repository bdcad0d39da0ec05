// What Muster keeps in the cluster for a Project: the namespace's labels, and objects of its own inside it.
// Pure functions: from a Project to JSON, and from what is there to whether it is as it should be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/client/api.h"
#include "muster/client/object.h"
#include "muster/crds/project.h"

namespace muster::reconcilers {

// Of the namespace and of every object that Muster keeps in it: the Project's name.
inline constexpr std::string_view kProjectLabel = "muster.dev/project";
// Of the objects, not of the namespace. By it they are watched.
inline constexpr std::string_view kManagedByLabel = "app.kubernetes.io/managed-by";
inline constexpr std::string_view kManagedBy = "muster";
// The ServiceAccount that a job's pods get where their template names none: without rights, and its token is
// not mounted.
inline constexpr std::string_view kJobAccount = "muster-job";

struct Namespace {
  client::Meta meta;
  crds::StringMap labels;
  bool terminating = false;

  std::string project() const;  // the label's value; "": not labelled
};
client::Result<Namespace> decode_namespace(std::string_view json);

// An object that carries Muster's labels.
struct KeptObject {
  client::Meta meta;
  std::string project;    // kProjectLabel
  bool is_ours = false;   // Muster's field manager wrote to it; labels alone can be anybody's
  crds::RawJson content;  // as it is there, without managed fields and status
};
client::Result<KeptObject> decode_kept_object(std::string_view json);

// An object as it is to be: what it states must be so, what it leaves out is others' to add.
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

// All that `wanted` states is so in `there`. Objects may have more fields there, lists no more elements; an
// empty object in `wanted` means one that is empty.
bool is_as_wanted(const crds::Json& there, const crds::Json& wanted);

// The Project's namespace it is: by the label, or, where the label got lost, by what the Project's status
// remembers of it. The label of another Project always stands: that is how a namespace is handed over.
bool is_namespace_of(const crds::Project& project, const Namespace& ns);

}  // namespace muster::reconcilers
