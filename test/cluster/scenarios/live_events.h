// What has happened to workloads, read from what the API server showed of them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "history.h"
#include "sequence.h"

namespace muster::test {

// Goes through the history of jobs and pods and tells the events of docs/simulate.md. An event happens when
// the assignment is written (Admitted, Evicted, Moved, Shrunk, Grown, Restarted), when the job's end is
// written (Finished), and when the last pod of a job that was withdrawn is gone (Released).
class EventReader {
 public:
  // What happened up to this version is history.
  explicit EventReader(std::uint64_t after) : after_(after) {}
  // In the order of versions, from the first one on.
  void see(const Change& change);
  // `told`: the cluster's events, as events.k8s.io/v1 lists them: why a gang shrank is nowhere else.
  std::vector<Event> events(const json& told) const;

 private:
  struct Job {
    std::string key, object;  // its own, and that of its service
    json assignment;          // null: none
    bool is_finished = false;
    bool leaves = false, moves = false;
    std::string ends_as;         // when its pods are gone; "": it does not end
    std::set<std::string> pods;  // that have not ended, by uid
  };

  void see_pod(const Change& change);
  void see_job(const Change& change);
  void see_assignment(Job& job, const json& before, const json& status);
  void see_end(Job& job, const json& status);
  void tell(const Job& job, std::string type, std::string reason = {}, std::string message = {});
  void release(Job& job);
  std::string object_of(const std::string& key) const;

  struct Told {
    Event event;  // `beneficiary` is still a job
    std::string job;
  };
  std::uint64_t after_;
  std::uint64_t now_ = 0;
  std::map<std::string, Job> jobs_;  // by uid
  std::vector<Told> told_;
};

// "a/b" of "reclaimed for a/b, whose …"; "": nobody is named.
std::string beneficiary_in(const std::string& message);

}  // namespace muster::test
