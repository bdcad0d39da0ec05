// What an InferenceService keeps of its revisions, to go back to: a ControllerRevision of apps/v1 for each,
// which the service owns. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/api.h"
#include "muster/crds/inference_service.h"

namespace muster::reconcilers {

inline const client::Resource kControllerRevisions{"apps", "v1", "controllerrevisions"};

struct KeptRevision {
  std::string name;         // what revision_of() says of the spec it was made from
  std::int64_t number = 0;  // the one that came into force last has the highest
  crds::Time created{};
  crds::InferenceServiceSpec
      spec;                 // of its fields those that make a revision; the others have their defaults
  std::string object, uid;  // of the ControllerRevision
};

// The ControllerRevision that keeps what replicas of this revision are made from.
crds::Json revision_json(const crds::InferenceService& service, std::string_view revision,
                         std::int64_t number);
// Nothing where it is not one that `owner_uid` owns, or cannot be read.
std::optional<KeptRevision> read_revision(const crds::Json& object, const std::string& owner_uid);

const KeptRevision* find_revision(const std::vector<KeptRevision>& all, std::string_view name);
// The number that the next one to come into force gets.
std::int64_t next_number(const std::vector<KeptRevision>& all);
// The service as it would be if its spec were of this revision. What is no part of a revision (the size, the
// port, the way of rolling out) stays as it is.
crds::InferenceService with_revision(crds::InferenceService service, const KeptRevision& revision);
// Those that are kept no longer: of those not in use all but the newest `limit`.
std::vector<const KeptRevision*> surplus(const std::vector<KeptRevision>& all,
                                         const std::set<std::string>& in_use, std::int32_t limit);
// Of the containers of all its roles, in their order and each once; at most 8.
std::vector<std::string> images_of(const crds::InferenceServiceSpec& spec);

}  // namespace muster::reconcilers
