// Everything about one job, read when somebody looks at it: pods and events are too many to be watched for
// whoever might look.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/api.h"
#include "muster/client/pod.h"
#include "muster/crds/crds.h"

namespace muster::ui {

using WhatHelps = std::function<std::string_view(std::string_view reason)>;

// {"job":{…},"pods":[…],"events":[…]}. Where pods or events cannot be read, "podsProblem" or "eventsProblem"
// says why. An error only where the job itself cannot be read.
client::Task<client::Result<std::string>> job_details(client::ApiClient& api, client::ObjectRef job,
                                                      WhatHelps what_helps);

// {"disruptions":[…]}: what the jobs of the namespace had to give, newest first, also those that are gone
// (docs/decisions/0104). Read with the rights of `api`.
client::Task<client::Result<std::string>> disruptions_of(client::ApiClient& api, std::string ns);
// The lines of one of the ConfigMaps that have them. One that cannot be read is left out.
std::vector<crds::Json> disruptions_in(const crds::Json& config_map);

// The parts of it that are no I/O.
crds::Json job_json(const crds::TrainingJob& job, const WhatHelps& what_helps);
// The ranks that the pods of its assignment have, in the order of the assignment (docs/reference.md).
std::vector<std::int64_t> ranks(const crds::TrainingJob& job);
crds::Json pod_json(const client::Pod& pod);
// `event`: of the core group's v1.
crds::Json event_json(const crds::Json& event);

}  // namespace muster::ui
