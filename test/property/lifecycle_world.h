// A cluster in memory around advance(): an API server with resourceVersion guards, kubelets, users, a
// placement that gives places while there is room, and a controller process with caches that lag and a
// memory that a crash wipes. Everything happens by the seed. After every write the rules of
// docs/crash-path.md are checked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers::sim {

// What may go wrong, in 1/1000 per write or round.
struct Faults {
  int crash = 10;          // the process dies before or after a write
  int refused_write = 10;  // the write is not applied and reported so
  int lost_answer = 10;    // the write is applied and reported as unknown
  int world_event = 300;   // kubelets or users act between two writes
  bool give_back_on_unknown =
      false;  // a wrong controller: frees the places of a start whose write has an unknown outcome
};

struct SimPod {
  client::Ptr<client::Pod> pod;  // as the server has it
  std::size_t job = 0;
  std::int32_t attempt = 0;
  std::vector<std::int32_t> gpus;
  crds::SavedStep resume;  // as it was told
};

struct SimJob {
  crds::TrainingJob job;  // as the server has it
  std::int64_t version = 1;
  bool gone = false;
  bool poisoned = false;                    // the API server refuses its pods until the spec is edited
  bool blocked = false;                     // waits for a volume
  std::set<std::int32_t> faulty_attempts;   // those in which a program truly failed
  std::set<std::int32_t> counted_attempts;  // those whose fault was counted
};

class LifecycleWorld {
 public:
  LifecycleWorld(std::uint64_t seed, Faults faults);

  void storm(int rounds);  // random events, crashes, lost writes
  void settle();           // events stop; time passes until nothing is left to do

  const std::vector<std::string>& violations() const { return violations_; }
  const std::vector<SimJob>& jobs() const { return jobs_; }
  struct Totals {
    int reconciles = 0, writes = 0, crashes = 0, conflicts = 0, starts = 0, restarts = 0, refusals = 0,
        withdrawals = 0, finished = 0, resumes = 0, moves = 0, shrinks = 0, grows = 0;
  };
  const Totals& totals() const { return totals_; }

 private:
  struct Crash {};
  enum class Answer { kApplied, kRefused, kConflict, kUnknown };
  struct CachedJob {
    crds::TrainingJob job;
    std::int64_t version = 0;
    bool gone = false;
  };
  // What dies with the process.
  struct Memory {
    std::map<std::size_t, CachedJob> jobs;
    std::map<std::string, SimPod> pods;
    std::map<std::size_t, JobDecision> decisions;
    std::map<std::size_t, crds::Waiting> verdicts;
    std::map<std::size_t, std::int64_t> rejected;  // generation
    std::map<std::size_t, bool> wants;
    std::map<std::size_t, std::vector<std::size_t>> displaced;
    std::map<std::size_t, crds::Time> wake;
    std::map<std::size_t, CheckpointReports> reports;
    std::map<std::size_t, crds::Nomination> promises;
    std::set<std::size_t> dirty;
  };
  using Used = std::set<std::pair<std::string, std::int32_t>>;

  bool chance(int in_thousand) { return static_cast<int>(random_() % 1000) < in_thousand; }
  std::size_t pick(std::size_t n) { return random_() % n; }

  // the controller
  void start_process();
  void reconcile(std::size_t j);
  bool commit(std::size_t j, const Step& step, const CachedJob& seen);
  void tell_placement(std::size_t j, const Step& step);
  bool make_pod(std::size_t j, const crds::PodAssignment& place);
  bool still_wanted(std::size_t j, std::int32_t attempt) const;
  void plan();
  bool resize(std::size_t j, Used& taken);
  Used used(std::size_t for_job) const;
  std::optional<std::vector<Place>> find_places(
      std::size_t j, const std::vector<std::pair<std::string, std::int32_t>>& which, Used& used);

  // the API server
  template <class Apply>
  Answer write(Apply apply);
  void remove_pod(const std::string& name, const std::string& uid);
  void deliver(bool all);

  // kubelets and users
  void world_event();
  void pod_event();
  void user_event();
  bool kubelets_calmly();
  template <class Change>
  void change_pod(const std::string& name, Change change);

  // what must hold
  void violation(std::string text);
  void check_step(std::size_t j, const Observed& seen, const Step& step);
  void check_status(std::size_t j, const crds::TrainingJobStatus& before,
                    const crds::TrainingJobStatus& after);
  void check_pods();
  void check_created(std::size_t j, std::int32_t attempt, const std::string& name);
  void check_end();

  std::mt19937_64 random_;
  Faults faults_;
  bool calm_ = false;
  bool programs_end_ = false;
  crds::Time now_;
  std::vector<std::string> nodes_;
  std::int32_t gpus_per_node_ = 4;
  std::vector<SimJob> jobs_;
  std::map<std::string, SimPod> pods_;
  int uids_ = 0;
  Memory memory_;
  std::vector<std::string> violations_;
  Totals totals_;
};

}  // namespace muster::reconcilers::sim
