// The life of a TrainingJob as a pure function: what is known about one job at one instant goes in, what is
// to be done comes out. No I/O, no clock, no memory: a new process that sees the same objects does the same.
//
//   Queued --start--> Starting --all ready--> Running --completion--> Succeeded
//     ^                  |  ^                    |  \--restart limit, maxRuntime, idle--> Failed
//     |                  |  +--program fault-----+
//     +---- withdraw ----+--------- pod lost ----+
//
// An elastic gang that runs changes its size: InPlace by members that join and leave, else by a new attempt.
//
// The rule that makes a crash harmless: `status` is written first (the commit point, guarded by
// resourceVersion); pods are created and removed only after that write went through, and every step can
// be repeated.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/client/events.h"
#include "muster/client/informer.h"
#include "muster/client/pod.h"
#include "muster/crds/training_job.h"
#include "muster/reconcilers/gpu_metrics/idle_rule.h"
#include "muster/reconcilers/lifecycle/dependencies.h"
#include "muster/reconcilers/pods/checkpoint.h"

namespace muster::reconcilers {

// Where one pod goes; what placement decided.
struct Place {
  std::string role;
  std::int32_t index = 0;
  std::string node;
  std::vector<std::int32_t> gpus;
};

// What placement decided about this job and the API server does not know yet.
struct JobDecision {
  enum class Kind : std::uint8_t {
    kStart,    // the whole gang: `pool`, `places`
    kReplace,  // the displaced pods of a gang: `places`. A gang that ran begins a new attempt
    kEvict,    // give everything back and queue again: `reason`, `message`
    kMove,     // the same, and the places where it is to go on are kept for it: `pool`, `places`
    kBackOff,  // the same, and not before a growing delay
    kGrow,     // an elastic gang gets more pods: `places` is the whole gang after it
    kShrink,   // an elastic gang loses pods: `places` is what stays; `reason`, `message`
  };
  Kind kind = Kind::kStart;
  // Of the spec that was placed. After an edit kStart, kReplace and kGrow are dropped, and kMove keeps no
  // places.
  std::int64_t generation = 0;
  std::int32_t attempt = 0;  // of kGrow and kShrink, which are dropped in another attempt
  std::string pool;
  std::vector<Place> places;
  std::string reason;
  std::string message;
  // What it costs the job, in GPU-seconds (of a job without GPUs CPU-seconds), and whether that is owed to
  // somebody.
  std::int64_t cost_seconds = 0;
  bool owed = true;
  // kMove of a replica: its pods serve until those at `places` are ready.
  bool surges = false;
};

// What is known about the ground under a pod.
struct NodeHealth {
  std::string lost;                       // why pods there are to be placed anew; "": they are not
  bool ready = true;                      // its Ready condition
  std::optional<crds::Time> again{};      // it will be lost then if nothing changes
  std::vector<std::int32_t> bad_gpus{};   // somebody says so
  std::set<std::int32_t> failing_gpus{};  // they have double-bit errors
};

// What is known about who holds the GPUs of one place. Holder pods hold the GPUs that it shares. A whole GPU
// may still be held for pods that shared it before.
struct Holding {
  bool ready = true;      // nothing keeps its pod from being made
  std::string refused{};  // it will not be: why, in one word; the place is as good as refused by its node
  std::string message{};  // of what keeps it, or of `refused`
  std::string lost{};     // why a pod that is there has its GPUs no more; "": it has them
  std::optional<crds::Time> again{};  // look again then, if nothing happens
};

// What became of the way from outside that the Project's gateway is to give to spec.expose.
struct Publication {
  std::vector<std::string> urls{};  // of each port, in the spec's order; empty: none leads there
  std::string reason{};             // of condition Published; "": no gateway is asked for
  std::string problem{};            // what stands in the way
};

// What became of the Service of spec.expose.
struct Exposure {
  std::string reason{};   // in one word; "": it is as the spec has it
  std::string problem{};  // what stands in the way
  std::optional<Publication> published{};  // absent: not known, and what was said stands
};

struct Observed {
  const crds::TrainingJob& job;
  const std::vector<client::Ptr<client::Pod>>& pods;  // all that this very job (by uid) owns
  crds::Time now;
  std::optional<std::string> invalid{};  // why the spec can never run as it is
  std::string invalid_reason = "InvalidSpec";
  // Why it cannot be placed for now though it is valid: a claim that is missing or not bound, the account of
  // its namespace that is missing, or a pod of a job that had this name before.
  std::optional<std::string> blocked{};
  std::string blocked_reason = "NoMatchingNodes";
  const JobDecision* decision = nullptr;         // nullptr: none
  const crds::Nomination* nomination = nullptr;  // places that placement keeps for it; nullptr: none
  const crds::Waiting* verdict = nullptr;        // why placement lets it wait; nullptr: not judged yet
  std::vector<GangReport> reports{};             // what its pods have said about checkpoints, by attempt
  std::function<bool(const std::string& node)> node_usable{};   // there, Ready, not cordoned; empty: all are
  std::function<NodeHealth(const std::string& node)> health{};  // empty: all are well
  // Nothing runs there any more: its object is deleted, or somebody says so by the taint
  // node.kubernetes.io/out-of-service; empty: none is.
  std::function<bool(const std::string& node)> node_lost{};
  Idleness idleness{};  // of this attempt
  // `pod`: the one at that place; nullptr: none. Empty: nobody holds GPUs for others.
  std::function<Holding(const crds::PodAssignment& place, const client::Pod* pod)> holding{};
  // What a place costs; empty: its GPUs, whole.
  std::function<crds::MilliGpu(const crds::PodAssignment& place)> charge{};
  // What a place has of CPUs, of a job that asks for no GPU. Empty: it asks for some.
  std::function<crds::MilliCpu(const crds::PodAssignment& place)> cpus{};
  // What a place has of resources known by name; empty: nothing.
  std::function<crds::NamedAmounts(const crds::PodAssignment& place)> named{};
  // A replica of an InferenceService: whichever way its program ends, it is started again, without a limit
  // and with a growing delay.
  bool serves = false;
  DependencyVerdict dependencies{};    // the other jobs that it waits for
  std::optional<Exposure> exposure{};  // absent: nobody has looked, and what was said stands
};

struct PodRemoval {
  std::string name;
  std::string uid;
  std::string node;
  std::optional<std::int64_t> grace_seconds{};  // absent: the pod's own; 0: by force, its node is lost
};

struct Note {
  client::EventType type;
  std::string reason;
  std::string action;
  std::string text;
};

// What this step has added to status.disruption.
struct Loss {
  std::int64_t seconds = 0;
  std::int64_t work_seconds = 0;  // of it: work that was done, and has to be done again
  bool is_owed = true;
  bool is_of_gpus = true;  // else of CPUs
  std::string cause;       // the reason of the decision or of the fault; Resized: it has grown
};

struct Step {
  crds::TrainingJobStatus status;   // as it is to be; equal to the job's: nothing to write
  std::vector<std::size_t> create;  // indexes into status.assignment.pods, once the status is committed
  std::vector<PodRemoval> remove;   // once the status is committed
  bool wants_place = false;         // stands in the queue of placement
  bool serves_on = false;           // it was to go elsewhere, or for good, and serves on where it was
  bool settles = false;  // a decision to grow or shrink was acted on, or will not be: the assignment is right
  std::vector<std::size_t> displaced;  // indexes into status.assignment.pods: all that need another node
  bool publish = false;                // its Service is to be there: the pods find each other by name
  bool remove_job = false;             // ttlAfterFinished has passed
  std::optional<crds::Time> wake_at;   // look again then, whatever happens
  std::vector<Note> notes;             // events, once the status is committed
  std::vector<Loss> lost;              // for counters, once the status is committed
};

// Complexity: O(pods log pods).
Step advance(const Observed& seen);

}  // namespace muster::reconcilers
