// The simulated cluster: workloads, what they hold, what has happened. Changed by apply.cc (the input),
// wish.cc (what workloads ask for), lifecycle.cc (what they do), nodes.cc (the ground under them), charges.cc
// (who holds how much) and simulation.cc (time and decisions).
#pragma once

#include <array>
#include <cstdint>
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
#include "muster/simulate/input.h"
#include "muster/simulate/simulation.h"
#include "work.h"

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

enum class EventType : std::uint8_t {
  kAdmitted,
  kReleased,
  kEvicted,
  kShrunk,
  kGrown,
  kMoved,
  kRestarted,
  kFinished,
  kWaiting,
};
inline constexpr std::array<std::string_view, 9> kEventNames = {
    "Admitted", "Released", "Evicted", "Shrunk", "Grown", "Moved", "Restarted", "Finished", "Waiting"};

struct PodAt {
  std::string role;
  std::int32_t index = 0;
  std::string node;
  std::vector<std::int32_t> gpus;
};
using Pods = std::vector<PodAt>;

struct Event {
  Instant at{0};
  EventType type = EventType::kAdmitted;
  std::string object;  // "namespace/name"
  std::string reason;
  std::string beneficiary;
  std::shared_ptr<const Pods> pods;  // never null
};

struct Workload;

// What is charged of each GPU of a node; -1: of MIG slices, wherever they are.
using ChargedGpus = std::map<std::int32_t, std::int64_t>;
struct Charge {
  ChargedGpus* of_node;
  std::int32_t gpu;
  std::int64_t milli;
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
  std::int32_t number = 0;  // of the replicas of a service
  std::string id;           // in the cluster
  crds::Effective taken;    // from its Project
  std::string violation;    // of its Project's policy: why it is not to start; empty: it may
  std::string refused_as;   // as last told: InvalidSpec or PolicyViolation; empty: neither
  pl::JobSpec spec;
  State state = State::kOut;
  bool known = false;  // to the cluster
  pl::Assignment assignment;
  std::shared_ptr<const Pods> moving_to;  // not null: it is to start again there
  std::vector<pl::PodPlace> leaving;
  std::vector<Charge> charged;  // for both, as it was when they came
  bool leaves_whole = false;    // its last pods are leaving, not only surplus
  std::string ends_as;          // not empty: it ends when its pods are gone; the reason
  bool can_save = false;        // broken: all its pods are there still
  std::int32_t stalled = 0;     // nodes under it that have failed and do not count as lost yet
  Work work;
  std::int64_t milli_gpu_ms_before = 0;  // of it: done before it came, already running
  pl::Time submitted;
  pl::Time began;           // of the attempt
  std::int64_t ran_ms = 0;  // of attempts before
  std::optional<pl::Time> first_started;
  std::int32_t attempt = 0;
  pl::Reason waits_for = pl::Reason::kNone;                               // as last told
  std::uint32_t ends_version = 0, leaves_version = 0, limit_version = 0;  // of what is in the agenda
};

enum class Phase : std::uint8_t { kQueued, kRunning, kCheckpointing, kSuspended, kSucceeded, kFailed };
inline constexpr std::array<std::string_view, 6> kPhaseNames = {"Queued",    "Running",   "Checkpointing",
                                                                "Suspended", "Succeeded", "Failed"};

struct Workload {
  std::string ns, name, key;       // key: "namespace/name"
  const Change* source = nullptr;  // its newest statement
  bool is_service = false;
  bool deleted = false;
  std::string invalid;  // why it can never run; empty: it can
  std::vector<std::unique_ptr<Gang>> gangs;
  std::vector<std::unique_ptr<Gang>> retired;  // of replicas that are not wanted any more
  std::int32_t preemptions = 0, moves = 0;
  std::int64_t lost_ms = 0;  // work, as time at full size
  std::optional<pl::Time> finished;
  bool failed = false;
  std::string end_reason;

  const JobObject& job() const { return std::get<JobObject>(*source->object); }
  const ServiceObject& service() const { return std::get<ServiceObject>(*source->object); }
  const Behaviour& behaviour() const { return is_service ? service().behaviour : job().behaviour; }
};

// What a gang asks for, with what it takes from its Project.
struct Asked {
  crds::TrainingJob job;
  std::vector<reconcilers::PodNeeds> needs;  // of each role
};

struct NodeState {
  const NodeObject* object = nullptr;
  bool failed = false;   // not Ready
  bool counted = false;  // long enough to count as a fault
  std::uint32_t version = 0;
  std::vector<std::int32_t> bad_gpus{};  // what runs on them is to be placed anew
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

  std::string project_of(const std::string& ns) const;  // "": none
  Phase phase(const Workload& w) const;
  std::shared_ptr<const Pods> pods_of(const Workload& w) const;
  pl::NodeSpec node_spec(const std::string& name) const;
  // What one pod of the role is charged on this node.
  std::int64_t milli_gpu(const pl::RoleSpec& role, const std::string& node) const;
  std::vector<std::int64_t> waits_ms() const;  // of all gangs that have started, sorted
  std::int64_t useful_milli_ms() const;        // held for work that was not lost

 private:
  enum class Due : std::uint8_t {
    kWorkDone,
    kPodsGone,
    kMaxRuntime,
    kNodeFails,
    kNodeCounts,
    kNodeRecovers,
    kInput,
    kWake,
    kExpectation
  };
  struct Entry {
    pl::Time at;
    std::uint64_t order;
    Due due;
    Gang* gang;
    std::size_t index;  // of the change or the expectation
    std::uint32_t version;
    std::string node;
    bool operator>(const Entry& o) const { return at != o.at ? at > o.at : order > o.order; }
  };

  void agenda_add(pl::Time at, Due due, Gang* gang, std::size_t index, std::uint32_t version,
                  std::string node = {});

  // --- charges.cc
  void account(pl::Time until);
  void charge(Gang& g);                                  // for what it holds and what leaves
  void hold(Gang& g, const pl::Assignment& assignment);  // what it has now, for the sums
  void hold_nothing(Gang& g);                            // nothing leaves either
  void count_capacity(const pl::NodeSpec& node);
  std::int64_t stranded() const;

  // --- simulation.cc
  void play_instant(std::vector<Entry>& due);
  void decide();
  void carry_out(const pl::Decision& d);
  void tell_verdicts(const std::vector<std::string>& jobs);
  void check(const Expectation& expectation);

  // --- apply.cc
  void apply(const std::vector<std::size_t>& changes);
  void apply_base(const Change& change);
  void apply_workload(std::size_t change);
  void remove_workload(Workload& w);
  void set_scale(Workload& w, pl::Time submitted);
  void add_pool(const crds::NodePool& pool);
  void upsert_all_nodes();
  void upsert_pod(const client::Pod& pod);
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
  bool is_lost(const pl::PodPlace& pod) const;
  void leave_lost_ground(const std::string& node);
  void lose_pods(Gang& g);

  // --- wish.cc
  void refresh(Gang& gang);
  void refresh_all(const std::string* ns);
  void refresh_under_policies();
  void stand_aside(Gang& gang, bool suspended);
  void give_up_kept_place(Gang& gang);
  void follow_limit(Gang& gang);
  static pl::JobSpec spec_of(const Gang& gang, const Asked& asked, std::int32_t priority,
                             const std::string& project);
  Asked asked_by(Gang& gang, const crds::Project* project);
  const crds::Project* project_at(const std::string& ns) const;  // nullptr: none
  bool has_place(const Gang& gang) const;
  std::optional<std::int32_t> priority_of(const std::string& name) const;  // "": the default

  // --- lifecycle.cc
  void start(Gang& g, const pl::Assignment& assignment);
  void restart_on(Gang& g, const pl::Decision& d);
  void resize(Gang& g, const pl::Assignment& to, EventType type, const std::string& reason,
              const std::string& beneficiary);
  void let_go(Gang& g, EventType type, const std::string& reason, const std::string& beneficiary,
              const pl::Assignment* moving_to);
  void release(Gang& g);
  void finish(Gang& g, bool failed, const std::string& reason);
  bool saves(const Gang& g) const;
  std::int32_t failed_under(const Gang& g) const;
  void stall(Gang& g, std::int32_t by);
  void stop_work(Gang& g);
  void schedule_end(Gang& g);
  void tell(EventType type, const Workload& w, std::string reason = {}, std::string beneficiary = {},
            std::shared_ptr<const Pods> pods = nullptr);
  pl::Duration grace(const Gang& g) const;
  std::int64_t milli_gpu(const Gang& g, const std::vector<pl::PodPlace>& pods) const;
  pl::Duration saves_in(const Gang& g) const;
  void append_pods(const Gang& g, const pl::Assignment& a, Pods& pods) const;

  const Input& input_;
  Options options_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> agenda_;
  std::uint64_t order_ = 0;
  std::vector<pl::Time> submissions_;                           // of each change
  std::map<std::string, std::unique_ptr<Workload>> workloads_;  // by "Kind namespace/name"
  std::vector<std::unique_ptr<Workload>> graveyard_;
  std::unordered_map<std::string, Gang*> gangs_;
  std::map<std::string, pl::PoolSpec> pools_;
  crds::NodePool default_pool_;
  std::set<std::string> gpu_resources_;
  std::map<std::string, const NodeZones*> zones_;
  std::map<std::string, std::map<std::string, const NodeDevices*>> devices_;  // by node, slice
  std::map<std::string, const PodObject*> pods_;
  std::map<std::string, PriorityClass> priorities_;
  std::map<std::string, std::string> owner_of_;       // Project of each namespace
  std::map<std::string, std::uint64_t> project_age_;  // order of their first statement
  std::map<std::string, pl::Time> created_;           // Queues and Projects, by kind and name
  std::vector<std::int64_t> waits_;
  std::int64_t capacity_milli_ = 0, allocated_milli_ = 0;
  std::map<std::string, ChargedGpus> charged_;        // by node; entries stay
  std::map<std::string, CountedGpus> not_all_count_;  // nodes of which some GPUs are no capacity
  std::size_t jobs_ = 0, finished_jobs_ = 0;
  bool capacity_stale_ = true;
  bool changed_ = true;  // something happened that plan() has not seen
  std::optional<pl::Time> wake_;
  int idle_ = 0;            // wake-ups that have changed nothing, one after the other
  pl::Time last_ = kBegin;  // something was to be done
  Metrics last_metrics_;    // as of then
};

// "namespace/name" of a gang's id.
std::string_view object_of(std::string_view gang_id);

}  // namespace muster::simulate
