// The simulated cluster: what a cluster has beside the operator.
//
//   world/  what there is: objects that users apply (apply.cc), nodes (nodes.cc), wishes of jobs (wish.cc),
//           who holds how much (charges.cc) and where (occupancy.cc)
//   play/   what happens: time (simulation.cc), pods and the programs in them (pods.cc, work.cc), how these
//           use their GPUs (idleness.cc, losses.cc), jobs (gang_life.cc), services (services.cc) and arrays
//           (arrays.cc)
//
// What becomes of a job or a service is decided by the code that decides it on a cluster: gang_life.cc shows
// a job and its pods to advance() and does what comes out, services.cc does so with plan_replicas() and
// judge(), arrays.cc with plan_array(), and PlacedJobs tells placement.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "muster/placement/cluster.h"
#include "muster/reconcilers/arrays/array_status.h"
#include "muster/reconcilers/gpu_metrics/idle_rule.h"
#include "muster/reconcilers/placement/gpu_labels.h"
#include "muster/reconcilers/placement/other_pods.h"
#include "muster/reconcilers/placement/placed_jobs.h"
#include "muster/reconcilers/placement/scheduled_queues.h"
#include "muster/reconcilers/services/autoscale_rule.h"
#include "muster/reconcilers/services/service_plan.h"
#include "muster/reconcilers/services/service_status.h"
#include "muster/simulate/input.h"
#include "muster/simulate/simulation.h"
#include "play/losses.h"
#include "play/work.h"
#include "world/event.h"

namespace muster::simulate {

namespace pl = placement;

// Instant 0 as placement's time: a Monday, 0:00 UTC.
inline constexpr pl::Time kBegin{1'704'067'200'000};
constexpr pl::Time to_time(Instant t) {
  return kBegin + pl::seconds(t.count());
}
constexpr Instant to_instant(pl::Time t) {
  return Instant{(t - kBegin).ms / 1000};
}
// The same as monotonic time.
constexpr client::TimePoint to_point(pl::Time t) {
  return client::TimePoint{std::chrono::milliseconds{t.ms}};
}
// Instants as statuses have them: whole seconds.
constexpr crds::Time to_stamp(pl::Time t) {
  return crds::Time{std::chrono::seconds{t.ms / 1000}};
}

struct Workload;

// What is charged of each GPU of a node; -1: of MIG slices, wherever they are.
using ChargedGpus = std::map<std::int32_t, std::int64_t>;
struct Charge {
  ChargedGpus* of_node;
  std::int32_t gpu;
  std::int64_t milli;
};

// One pod as its kubelet has it.
struct GangPod {
  client::Ptr<client::Pod> pod;
  std::shared_ptr<const pl::JobSpec> of;  // what its gang asked for when it was made
  pl::PodPlace place;                     // its role is one of `of`
  std::int64_t milli_gpu = 0;
  std::optional<pl::Time> gone_at{};   // it was told to go
  std::optional<pl::Time> ready_at{};  // it starts until then; absent: it is ready
  bool is_beside = false;              // no place of the assignment is its, or pays for it

  bool leaves() const { return gone_at.has_value(); }
};

// How a gang uses its GPUs, as it is read of one attempt.
struct IdleWatch {
  std::int32_t attempt = 0;         // 0: nothing is read
  std::int32_t below = 0;           // percent: what is used less is idle
  const Change* told_by = nullptr;  // the statement that says how its GPUs are used
  reconcilers::IdleClock clock{};
  reconcilers::Use last = reconcilers::Use::kUnknown;
  std::optional<pl::Time> read_at{};  // the last time
  std::optional<pl::Time> due{};      // it is read again
  std::uint32_t version = 0;          // of what is in the agenda
};

// What is placed as one: a TrainingJob, or one replica of an InferenceService.
struct Gang {
  enum class State : std::uint8_t {
    kOut,      // neither placed nor to be placed: suspended, invalid, ended
    kWaiting,  // for a place
    kRunning,
    kBroken,  // lost pods to a node, and has not got other places yet
  };
  Workload* owner = nullptr;
  std::int32_t number = 0;                    // of the replicas of a service
  std::string id;                             // in the cluster
  const ServiceObject* replica_of = nullptr;  // of a service: the statement that it was made from
  std::string class_name{};                   // its priority class, where that statement names none
  // As an API server has it, with what it takes from its Project.
  crds::TrainingJob job;
  reconcilers::Translation wish;
  std::string invalid;     // why it can never run; empty: it can
  std::string violation;   // of its Project's policy: why it is not to start; empty: it may
  std::string refused_as;  // as last told: InvalidSpec, PolicyViolation, Dependency…; empty: none of them
  std::vector<GangPod> pods;

  // What follows from these, as of the last look at it.
  std::shared_ptr<const pl::JobSpec> spec = std::make_shared<pl::JobSpec>();
  State state = State::kOut;
  pl::Assignment assignment;
  std::vector<Charge> charged;  // for both it and the pods beside it, as it was when they came

  std::shared_ptr<const Pods> moving_to;  // not null: it is to start again there
  bool is_retired = false;                // its object is deleted, and its pods may be there yet
  bool leaves_whole = false;              // its last pods are leaving, not only surplus
  std::string ended_as;                   // it has ended, and that was not told yet: the reason
  IdleWatch idle_watch;
  std::optional<reconcilers::GangReport> last_words;  // of the last attempt whose program saved when asked
  Work work;
  std::int32_t works_in = 0;             // the attempt
  std::int64_t milli_gpu_ms_before = 0;  // of it: done before it came, already running
  std::optional<pl::Time> stands_until;  // it is resized in place, and does not get on until then
  LossMeter loss_meter;
  pl::Time submitted;
  pl::Time asked;  // it waits since then; a replica may be younger than its service
  std::optional<pl::Time> first_admitted, first_started;
  std::int32_t attempt = 0;
  pl::Reason waits_for = pl::Reason::kNone;          // as last told
  std::optional<pl::Time> look_at;                   // it is to be looked at again
  std::uint32_t ends_version = 0, look_version = 0;  // of what is in the agenda
};

// How a service's size follows its load.
struct Scaling {
  const Change* told_by = nullptr;  // the statement that says what load there is; nullptr: nothing is read
  std::vector<reconcilers::MetricSource> sources{};
  reconcilers::ScalingHistory history{};
  std::optional<reconcilers::ScalingVerdict> verdict{};
  std::int32_t serving = 0;               // replicas that are ready
  std::int64_t load = 0;                  // as last read
  pl::Time changed_at{};                  // load, size, or replicas that are ready
  std::optional<pl::Time> read_at{};      // the last time
  std::optional<pl::Time> due{};          // it is read again
  std::optional<pl::Time> by_schedule{};  // due, and only because its minimum may be another then
  std::uint32_t version = 0;              // of what is in the agenda
};

enum class Phase : std::uint8_t {
  kQueued,
  kStarting,
  kResizing,
  kRunning,
  kCheckpointing,
  kSuspended,
  kSucceeded,
  kFailed
};
inline constexpr std::array<std::string_view, 8> kPhaseNames = {
    "Queued", "Starting", "Resizing", "Running", "Checkpointing", "Suspended", "Succeeded", "Failed"};

struct Workload {
  std::string ns, name, key;       // key: "namespace/name"
  const Change* source = nullptr;  // its newest statement
  bool is_service = false;
  bool deleted = false;
  std::string invalid;  // why it can never run; empty: it can
  std::vector<std::unique_ptr<Gang>> gangs;
  std::vector<std::unique_ptr<Gang>> retired;  // of replicas that are not wanted any more
  // Of a service: its status as an API server has it, and what its reconciler remembers.
  crds::InferenceServiceStatus status{};
  std::int64_t generation = 0;
  reconcilers::Room room{};
  Scaling scaling{};
  // Of an array: it as an API server has it, and the workloads that are its indexes.
  crds::TrainingJob array{};
  std::map<std::int32_t, Workload*> indexes{};
  std::optional<pl::Time> array_began{};  // its first index started
  std::string refused_as{};               // as last told
  // Of an index: the key of the array's statement; "": it is none.
  std::string array_key{};
  std::int32_t array_index = 0;
  pl::Time submitted;  // its first statement
  pl::Time asked;      // its newest
  std::int32_t preemptions = 0, moves = 0;
  std::int64_t lost_ms = 0;  // work, as time at full size
  Losses losses;             // until its gangs' meters were last set
  std::optional<pl::Time> finished;
  bool failed = false;
  std::string end_reason;

  const JobObject& job() const { return std::get<JobObject>(*source->object); }
  const ServiceObject& service() const { return std::get<ServiceObject>(*source->object); }
  bool is_array() const { return !is_service && job().job.spec.array.has_value(); }
  const Behaviour& behaviour() const { return is_service ? service().behaviour : job().behaviour; }
};

struct NodeState {
  const NodeObject* object = nullptr;
  bool failed = false;   // not Ready
  bool counted = false;  // long enough to count as a fault
  std::uint32_t version = 0;
  std::vector<std::int32_t> bad_gpus{};  // what runs on them is to be placed anew
  bool is_sound = true;                  // nothing of it is lost
};

// Which GPUs of a node count as capacity: none where it is not usable, or not of one pool.
struct CountedGpus {
  std::int32_t first = 0;  // so many from 0
  std::vector<std::int32_t> without{};
  bool slices = false;  // those that the node lists
};

struct Metrics {
  std::int64_t capacity = 0, allocated = 0;  // milli-GPU x seconds
  std::int32_t preemptions = 0;
};

// Muster's own, as manifests/base has them; by name.
const std::map<std::string, PriorityClass>& shipped_priority_classes();

class World {
 public:
  World(const Input& input, const Options& options);

  // --- simulation.cc
  // Up to and with this instant; absent: until nothing happens any more. May be called again.
  void run_to(std::optional<pl::Time> until, const std::function<void(const simulate::Progress&)>& tell);
  void end();  // what was not reached is said

  // --- what came out
  pl::Cluster cluster;
  pl::Time now = kBegin;
  std::vector<Workload*> in_order() const;  // not deleted; by namespace and name
  const Gang* gang_of(const std::string& id) const;
  std::map<std::string, NodeState> nodes;
  std::map<std::string, const crds::Queue*> queues;
  std::map<std::string, const crds::Project*> projects;
  std::vector<Event> events;
  std::array<std::int64_t, kEventNames.size()> event_counts{};
  Metrics metrics;
  std::vector<std::string> failures;  // of expectations
  std::size_t held = 0;               // expectations
  std::vector<crds::FieldError> errors;

  crds::Time wall() const;                              // what the clock on the wall shows
  std::string project_of(const std::string& ns) const;  // "": none
  // What the gang of a job waits for; of a service: nothing.
  reconcilers::DependencyVerdict dependencies_of(const Gang& g) const;
  reconcilers::DependencyVerdict verdict_on_dependencies(const crds::TrainingJob& job,
                                                         const std::string& ns) const;
  Phase phase(const Workload& w) const;
  std::shared_ptr<const Pods> pods_of(const Workload& w) const;
  pl::NodeSpec node_spec(const std::string& name) const;
  // What one pod of the role is charged on this node.
  std::int64_t milli_gpu(const pl::RoleSpec& role, const std::string& node) const;
  std::vector<std::int64_t> waits_ms() const;  // of all gangs that have started, sorted
  std::int64_t useful_milli_ms() const;        // held for work that was not lost
  std::int64_t useful_milli_ms_of(const Workload& w) const;
  Losses losses() const;
  Losses losses_of(const Workload& w) const;

 private:
  enum class Due : std::uint8_t {
    kWorkDone,
    kPodsReady,
    kPodsGone,
    kLook,
    kProgramFails,
    kReading,
    kServe,
    kRound,
    kNodeFails,
    kNodeCounts,
    kNodeRecovers,
    kInput,
    kWake,
    kExpectation
  };
  // Not only because somebody looks whether something is to be done.
  static bool happens_by_itself(Due due);
  struct Entry {
    pl::Time at;
    std::uint64_t order;
    Due due;
    Gang* gang;
    std::size_t index;  // of the change or the expectation
    std::uint32_t version;
    std::string node;  // or the key of a service
    bool operator>(const Entry& o) const { return at != o.at ? at > o.at : order > o.order; }
  };

  void agenda_add(pl::Time at, Due due, Gang* gang, std::size_t index, std::uint32_t version,
                  std::string node = {});

  // --- charges.cc
  void account(pl::Time until);
  void charge(Gang& g);  // for what it holds and what leaves
  void count_capacity(const pl::NodeSpec& node);
  std::int64_t stranded() const;

  // --- simulation.cc
  void play_instant(std::vector<Entry>& due);
  void decide();
  void follow_schedules();
  void upsert_queue(pl::QueueSpec spec, pl::Time created);
  bool anything_waits() const;
  std::optional<pl::Time> next_by_schedule() const;
  void carry_out(const pl::Decision& d);
  void tell_verdicts(const std::vector<std::string>& jobs);
  void check(const Expectation& expectation);

  // --- apply.cc
  void apply(const std::vector<std::size_t>& changes);
  void apply_node(const NodeObject& node, bool remove);
  void apply_base(const Change& change);
  Gang* apply_workload(std::size_t change);
  Gang* state_workload(const Change& change, pl::Time asked);
  void remove_workload(Workload& w, pl::Duration saves = {});
  void add_pool(const crds::NodePool& pool);
  void upsert_all_nodes();
  void own_namespaces();
  void take_over(Gang& gang, const Change& change);  // status.assignment
  bool check_assignment(const Gang& gang, const pl::Assignment& assignment, const Change& change);
  std::vector<std::string> pools_of(const pl::NodeSpec& node) const;
  pl::Time submission(std::size_t change) const;

  // --- nodes.cc
  void put_node(const std::string& name);  // as it is now
  void node_fails(const std::string& name);
  void node_counts(const std::string& name);
  void node_recovers(const std::string& name);
  void node_gone(const std::string& name);
  bool is_dead(const std::string& node) const;
  bool is_failed(const std::string& node) const;
  reconcilers::NodeHealth health_of(const std::string& node) const;
  void look_at_gangs_on(const std::string& node);
  void lose_pods_of_dead_nodes(Gang& g);

  // --- wish.cc
  void refresh(Gang& gang);
  void refresh_all(const std::string* ns);
  void refresh_under_policies();
  void restate(Gang& gang);
  void take_from_project(Gang& gang, const crds::Project* project);
  const crds::Project* project_at(const std::string& ns) const;            // nullptr: none
  std::optional<std::int32_t> priority_of(const std::string& name) const;  // "": the default

  // --- gang_life.cc
  void reconcile(Gang& g, const std::string& beneficiary = {});
  bool look(Gang& g, const std::string& beneficiary, std::optional<crds::Time>& wake);
  std::optional<reconcilers::JobDecision> decision_about(const Gang& g) const;
  std::optional<crds::Waiting> verdict_about(const Gang& g) const;
  void tell_step(Gang& g, const reconcilers::Step& step, bool moves, const std::string& beneficiary);
  void settle(Gang& g);
  void tell_release(Gang& g);
  void tell_end(Gang& g);
  void tell_refusal(Gang& g);
  void look_again(Gang& g, const std::optional<crds::Time>& at);
  void look_at_dependents(const Workload& w);
  void retire(Gang& g, pl::Duration saves);
  void tell(EventType type, const Workload& w, std::string reason = {}, std::string beneficiary = {},
            std::shared_ptr<const Pods> pods = nullptr);
  void append_pods(const Gang& g, const std::vector<crds::PodAssignment>& places, Pods& pods) const;

  // --- pods.cc
  void make_pod(Gang& g, const crds::PodAssignment& place);
  bool tell_to_go(Gang& g, const std::vector<reconcilers::PodRemoval>& pods, bool is_whole);
  bool erase_gone_pods(Gang& g);
  void pods_gone(Gang& g);
  void pods_ready(Gang& g);
  void stand_still(Gang& g);
  void leave_behind(Gang& g, GangPod& pod, pl::Duration saves);
  void end_programs(Gang& g);
  void program_fails(std::size_t change);
  bool is_whole(const Gang& g) const;
  void find_pods_beside(Gang& g);
  void stop_former_work(Gang& g, bool is_whole);
  void follow_work(Gang& g);
  void say_saved(Gang& g);
  void stop_work(Gang& g);
  void schedule_end(Gang& g);
  std::int64_t milli_gpu(const Gang& g, const std::vector<pl::PodPlace>& pods) const;
  crds::MilliGpu charge_of(const Gang& g, const crds::PodAssignment& place) const;

  // --- losses.cc
  Losses loss_rates(const Gang& g) const;
  void count_losses(Gang& g);

  // --- services.cc
  void serve_all();
  void serve(Workload& w);
  crds::InferenceService sized(const Workload& w) const;
  std::vector<reconcilers::ReplicaView> replicas_of(const Workload& w) const;
  void add_replica(Workload& w, bool is_guaranteed);
  void remove_replica(Workload& w, Gang& g, const char* why);
  void follow_load(Workload& w, std::int32_t serving);
  crds::Autoscaling rule_now(const Workload& w) const;
  void read_load(Workload& w);

  // --- arrays.cc
  void play_array(Workload& w);
  void follow_statement(Workload& w);
  reconcilers::ArrayRefusal refusal_of(const Workload& w) const;
  const Workload* array_of(const Workload& w) const;
  void add_index(Workload& w, std::int32_t index);
  void remove_index(Workload& array, Workload& job, pl::Duration saves);
  void suspend_indexes(Workload& w);
  bool is_suspended_by_array(const Workload& w) const;
  void join_array(Workload& w);

  // --- idleness.cc
  reconcilers::Idleness idleness_of(Gang& g);
  void read_gpus(Gang& g);
  reconcilers::Use use_now(const Gang& g) const;
  std::optional<pl::Time> next_reading(const Gang& g) const;

  const Input& input_;
  Options options_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> agenda_;
  std::uint64_t order_ = 0;
  std::vector<pl::Time> submissions_;                           // of each change
  std::map<std::string, std::unique_ptr<Workload>> workloads_;  // by "Kind namespace/name"
  std::unordered_map<std::string, Workload*> jobs_by_key_;      // of workloads_: no services
  std::map<std::string, Workload*> depending_;                  // of these: those with spec.dependsOn
  std::vector<std::unique_ptr<Workload>> graveyard_;
  std::deque<Change> index_statements_;  // of the indexes of arrays; entries stay
  std::unordered_map<std::string, Gang*> gangs_;
  reconcilers::OtherPods other_pods_;
  reconcilers::PlacedJobs placed_;
  std::int64_t pods_made_ = 0;
  std::map<std::string, pl::PoolSpec> pools_;
  reconcilers::GpuLabelsOfPools gpu_labels_;
  std::map<std::string, pl::Duration> reading_intervals_;  // of pools with gpuMetrics
  crds::NodePool default_pool_;
  std::map<std::string, const reconcilers::NodeTopology*> topologies_;        // by node
  std::map<std::string, std::map<std::string, const NodeDevices*>> devices_;  // by node, slice
  std::map<std::string, PriorityClass> priorities_;
  std::map<std::string, std::string> owner_of_;       // Project of each namespace
  std::map<std::string, std::uint64_t> project_age_;  // order of their first statement
  std::map<std::string, pl::Time> created_;           // Queues and Projects, by kind and name
  reconcilers::ScheduledQueues scheduled_;
  std::vector<std::int64_t> waits_;
  std::int64_t capacity_milli_ = 0, allocated_milli_ = 0;
  std::map<std::string, ChargedGpus> charged_;        // by node; entries stay
  std::map<std::string, CountedGpus> not_all_count_;  // nodes of which some GPUs are no capacity
  std::size_t jobs_ = 0, finished_jobs_ = 0;
  bool capacity_stale_ = true;
  bool changed_ = true;             // something happened that plan() has not seen
  std::set<std::string> to_serve_;  // keys of services and arrays to be looked at
  std::optional<pl::Time> wake_;
  int idle_ = 0;                       // wake-ups that have changed nothing, one after the other
  pl::Time last_stated_ = kBegin;      // the last change or expectation of the input
  int scheduled_alone_ = 0;            // changes by schedules behind that
  bool is_left_to_schedules_ = false;  // only they would change anything, and nobody waits for it
  std::int64_t to_come_ = 0;  // of the agenda, how many happen by themselves: all of them are waited for
  pl::Time last_ = kBegin;    // something was to be done
  Metrics last_metrics_;      // as of then
};

// "namespace/name" of a gang's id.
std::string_view object_of(std::string_view gang_id);

}  // namespace muster::simulate
