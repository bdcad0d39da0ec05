// The jobs by id and by name, and those of them that plans look for all at once.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/job.h"

namespace muster::placement {

// Ids are used again.
class JobTable {
 public:
  JobId job_of(const std::string& name);      // made where there is none
  JobId find(const std::string& name) const;  // kNoId: there is none
  void forget(JobId id);
  Job& job(JobId id) { return all_[static_cast<std::size_t>(id)]; }
  const Job& job(JobId id) const { return all_[static_cast<std::size_t>(id)]; }
  const std::vector<Job>& all() const { return all_; }  // by JobId, also what is not known
  std::size_t names() const { return ids_.size(); }

  const std::set<JobId>& displaced() const { return displaced_; }  // have displaced pods
  const std::set<JobId>& nominated() const { return nominated_; }  // have nominated pods
  void note_pods(JobId id);                                        // either may have changed
  const std::set<JobId>& with_anti_affinity() const { return with_anti_affinity_; }  // a required one
  void note_anti_affinity(JobId id, bool has_it);
  // These wait, but stand in no pending queue: no pool, no Project, impossible.
  const std::set<JobId>& sidelined() const { return sidelined_; }
  void sideline(JobId id) { sidelined_.insert(id); }
  void end_sidelining(JobId id) { sidelined_.erase(id); }

 private:
  std::vector<Job> all_;
  std::vector<JobId> free_;
  std::map<std::string, JobId> ids_;
  std::set<JobId> displaced_, nominated_, with_anti_affinity_, sidelined_;
};

}  // namespace muster::placement
