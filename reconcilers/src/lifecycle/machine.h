// One step of a job's life, taken apart: what it waits for and how it comes and goes (lifecycle.cc), what
// keeps its gang whole (lifecycle_gang.cc), what its GPUs are held by (lifecycle_gpus.cc), and what changes
// the gang's size or its pods (lifecycle_resize.cc).
//
// What comes before what. The first that applies ends the step, and what is left is for a later one; those
// marked + go on to the next.
//
//   run()       ended for good | complete | suspended | no assignment: waiting() | admitted()
//
//   waiting()   can never run | pods of an earlier attempt still end | retryAt | blocked (claims, Project)
//               | placement starts it | placement says why not
//
//   admitted()    kEvict, kMove, kBackOff   placement takes the places back
//                 follow_spec               an edit of the spec; + where members leave and the others run on
//               + shrink, grow              as placement decided; ends where that starts the gang anew or
//                                           takes it back
//                 complete                  by those who stay
//               + kReplace                  other places for lost ones: replace_members() of a gang that runs
//                                           on, reform() of any other that ran or fails, which ends the step,
//                                           replace_pods() of one that only starts
//                 loses_ground              lost places of a gang that ran or fails wait for kReplace
//               + go_on_without             lost members that the others can do without; ends where one was
//                                           late that they cannot
//                 complete                  without these
//                 lost_pod                  the cluster's faults; programs fail in their wake, hence before
//                 fault                     the program's: restart() or fail()
//               + judge_readiness           before the time: it may have become whole while nobody looked
//                 out_of_time               startTimeout, maxRuntime, idle.timeout
//                 keep_whole                missing pods are made, refused places told to placement
//
// gang_ and lost_ are parallel to the assignment's pods: what changes these calls match_pods() or
// begin_attempt(), and lost places are asked for after the next find_lost() only.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gang.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {

class Machine {
 public:
  explicit Machine(const Observed& seen) : seen_(seen), spec_(seen.job.spec), status_(step_.status) {
    status_ = seen.job.status;
    status_.observed_generation = seen.job.metadata.generation;
  }
  Step run();

 private:
  using ConditionStatus = crds::ConditionStatus;

  // --- the states
  void finished();
  void suspended();
  void waiting();
  bool held_back();
  void admitted();

  // --- checkpoints
  void note_checkpoints(bool live);
  void decide_resume();

  // --- waiting and admission
  bool accept();
  void not_admitted(const std::string& reason, const std::string& message);
  void wait_for(const std::string& reason, const std::string& message);
  void admit(const Decision& start);

  // --- the running gang
  void match_pods();
  void complete();
  void fail(const std::string& reason, const std::string& message);
  const client::Pod* fault() const;
  void delay_restart();
  void restart(const client::Pod& failed);
  void start_again(const std::string& why);
  void begin_attempt(const std::string& why, const std::string& reason, const char* action,
                     client::EventType type = client::EventType::kWarning);

  bool is_delayed() const;
  crds::Time start_due() const;

  // --- size and pods: what changes them
  bool follow_spec();
  bool is_in_place() const;
  bool leads(std::size_t place) const;
  std::vector<std::size_t> beyond_wish() const;
  bool has_minimums(const std::vector<std::size_t>& without) const;
  void shrink(const Decision& to);
  void grow(const Decision& to);
  void drop_members(const std::vector<std::size_t>& gone, const std::string& why, const std::string& reason,
                    client::EventType type);
  void erase_places(const std::vector<std::size_t>& gone);
  void renumber();
  void go_on_without();
  bool replace_members(const Decision& replace);
  void welcome();
  bool is_resizing() const;
  std::int32_t next_try(const Place& place) const;

  // --- repair
  void find_lost();
  std::string why_lost() const;
  bool loses_ground();
  void reform(const Decision& replace);
  std::string lost_at(std::size_t place) const;
  std::string lost_pod() const;
  bool out_of_time();
  bool is_left_idle();
  void say_idleness(ConditionStatus value, const char* reason, std::string message);
  void back_off(const std::string& reason, const std::string& message);
  void keep_whole();
  bool none_was_told() const;
  void remember_refusal_of(const client::Pod& pod);
  void remember_refusal_of(std::size_t place);
  void remember(const std::string& node, const std::string& reason, const std::string& text);
  Holding holding(std::size_t place) const;
  bool are_held(const std::vector<std::size_t>& places);
  std::string refused_at(std::size_t place) const;
  bool displaced(std::size_t i) const;
  void forget_old_refusals();
  void wake_for_refusals();
  void replace_pods(const Decision& replace);
  void say_who_stays(const Lingering& left);
  void publish_names();
  void judge_readiness();

  // --- the way back
  void add_run_time();
  void release(const std::string& reason, const std::string& message);
  void withdraw(const std::string& reason, const std::string& text, client::EventType type);
  void requeue(const std::string& reason, const std::string& message,
               client::EventType type = client::EventType::kWarning);
  void move(const Decision& to);

  // --- helpers
  const Decision* decision(Decision::Kind kind) const;
  void remove(const client::Pod& pod);
  void remove_lost();
  void remove_all();
  Lingering lingering() const;
  Lingering stale() const;
  bool is_given_up(const client::Pod& pod) const;
  void wake_for(const Lingering& left);
  void wake(crds::Time at);
  void note(client::EventType type, std::string reason, std::string action, std::string text);
  void set(std::string type, ConditionStatus value, std::string reason, std::string message);

  const Observed& seen_;
  const crds::TrainingJobSpec& spec_;
  Step step_;
  crds::TrainingJobStatus& status_;
  Gang gang_;                      // empty without an assignment
  std::vector<std::string> lost_;  // parallel to the assignment's pods: why the place is lost; "": it is not
  std::set<std::string_view> removing_;  // uids of step_.remove
};

}  // namespace muster::reconcilers
