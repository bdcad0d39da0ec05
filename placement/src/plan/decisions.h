// RULES.md 5.9 and 6: what a committed statement means for the jobs' assignments, and the decisions of the
// plan that is being made.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "model/cluster_model.h"
#include "model/statement.h"
#include "muster/placement/plan.h"
#include "victims/victims.h"

namespace muster::placement {

// The assignment without these pods (sorted indexes), and the allocations with it.
void erase_pods(Assignment& assignment, std::vector<Allocation>& allocations,
                const std::vector<std::size_t>& pods);

class Decisions {
 public:
  Decisions(ClusterModel& state, Time now) : s_(state), now_(now) {}

  // The waiting job gets the places that the statement has taken, running or nominated. `entitled`: see Job.
  void start(JobId job, PoolId pool, Statement& statement, bool entitled);
  // The running elastic job gets the pods of the statement.
  void grow(JobId job, Statement& statement);
  // Room was made for the claimant, which waits (`entitled` as above) or grows.
  void apply(JobId claimant, PoolId pool, Statement& statement, const Solution& solution, bool entitled);
  void replace(JobId job, std::vector<std::size_t> pods, Statement& statement);
  void evict(JobId job, EvictReason reason, const std::string& beneficiary, std::string message);
  // The displaced pods are given up, and the rest of the gang goes on.
  void shrink_to_placed(JobId job, EvictReason reason, std::string message);

  // What is nominated to the job is free again: it waits, or goes on as it is.
  void end_nomination(JobId job);
  // Jobs start at nominated places that nobody uses any more.
  void start_nominated();
  // RULES.md 5.9: a job that this plan evicts stays if it still fits where it stood, and moves if it fits
  // elsewhere.
  void reconsider();

  // An exception has left one of these in the middle: the model and the decisions may not agree any more.
  bool is_half_made() const { return under_way_ > 0; }

  // Grows with everything that is decided.
  std::uint64_t changes() const { return changes_; }
  // Grows with every decision that may let a refused job start or grow. A decision that only takes free room
  // does not count.
  std::uint64_t openings() const { return openings_; }
  // Jobs that have started. They stay in their pending queues while these are served, and are to leave them
  // then.
  std::vector<JobId> take_started() { return std::exchange(started_, {}); }
  std::vector<Decision> finish();  // victims before claimants, in the order of deciding

 private:
  struct Entry {
    Decision decision;
    JobId job = kNoId;
    bool dropped = false;
  };
  Entry* find(JobId job, Decision::Kind kind);
  Entry& say(Decision::Kind kind, JobId job, EvictReason reason, const std::string& beneficiary,
             std::string message);
  void charge(Entry& entry, const Victim& victim);
  void drop(Entry& entry);
  void give(const Victim& victim, JobId claimant, PoolId pool, std::vector<Statement::Placed> moved);
  bool end_if_void(JobId job);  // true: the nomination was void, and has ended
  bool may_start(JobId job, PoolId pool) const;
  bool stays(JobId evicted, PoolId pool);
  bool moves(JobId evicted, PoolId pool);
  void back_to_waiting(JobId job);
  void pass_on(JobId undone, JobId claimant);
  void surge(JobId replica, std::vector<Statement::Placed>& moved);
  void add_pods(JobId job, std::vector<Statement::Placed> placed);
  bool started_now(const Job& j) const { return j.started_in != 0 && j.started_in == s_.plans; }

  // While a decision is made. It does not end where an exception leaves it.
  class UnderWay {
   public:
    explicit UnderWay(Decisions& d) : d_(d), exceptions_(std::uncaught_exceptions()) { ++d_.under_way_; }
    ~UnderWay() {
      if (std::uncaught_exceptions() == exceptions_) --d_.under_way_;
    }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

   private:
    Decisions& d_;
    int exceptions_;
  };

  ClusterModel& s_;
  Time now_;
  int under_way_ = 0;
  std::vector<Entry> entries_;
  std::vector<JobId> started_;
  std::vector<JobId> evicted_;
  std::uint64_t changes_ = 0, openings_ = 0;
};

}  // namespace muster::placement
