// The sentences of the life of a job: what people read in conditions, the queue's message and events.
#pragma once

#include <string>
#include <string_view>

#include "muster/client/pod.h"
#include "muster/crds/text.h"
#include "muster/crds/training_job.h"
#include "muster/reconcilers/lifecycle/gang.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {

// The schema takes 4096 characters for a whole message.
inline constexpr std::size_t kMaxMessage = 4000;

using crds::cut;

// "attempt 2: 8 pods in pool a100, from step 1200 (/ckpt/step-1200)"
std::string say_admitted(const crds::Assignment& assignment);
// Seconds that pods are given, and that one took.
std::string say_grace_too_short(std::int64_t grace, std::int64_t took);
// Why a pod's program failed: its container, exit code and last words.
std::string say_failed(const client::Pod& pod);
// "node n refused pod p: OutOfcpu: …"
std::string say_refused(const client::Pod& pod);
// "4 pods have their places in pool a100 (…): <why it waits for them>"
std::string say_nominated(const crds::Nomination& nomination, const std::string& why);
// "worker-4 to worker-7, ps-2 with 9 GPUs": these of the assignment's pods, by indexes into them, ascending.
std::string say_members(const crds::Assignment& assignment, const std::vector<std::size_t>& which,
                        const PlaceCost& cost);
// "4 pods with 8 GPUs", "1 pod with 500m GPU"
std::string say_given_back(const crds::Assignment& assignment, const PlaceCost& cost);
// Who has not gone yet, and whether that is in order. `grace`: the seconds that they get. The sentence is the
// same before and after they are told to go. So a job that is evicted says it once, and not a second time
// with a date.
std::string say_lingering(const Lingering& left, std::int32_t attempt, std::int64_t grace, crds::Time now);
// "has until … to save" or "should have ended by …"; "" where it was not told to go.
std::string say_deadline(const Lingering& left, crds::Time now);
// "; the last to go is pod p on node n, which has until … to save": behind why a job waits for them.
std::string say_last_to_go(const Lingering& left, crds::Time now);
// That part of such a message; "" where it has none.
std::string_view last_to_go_in(std::string_view message);
// Why a pod of the gang is lost, one sentence for each way.
// A pod that was not made: its GPUs are not held for it.
std::string say_not_held(const crds::PodAssignment& place, const Holding& holding);
std::string say_gone(const crds::PodAssignment& place);
std::string say_deleted(const client::Pod& pod);
std::string say_ended_by_node(const client::Pod& pod);
// "2 of 8 pods were ready after startTimeout 10m; …" with the first cause that is known.
std::string say_start_timed_out(const Gang& gang, crds::Duration start_timeout);

}  // namespace muster::reconcilers
