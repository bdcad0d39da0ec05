#include "model/job_table.h"

namespace muster::placement {
namespace {

void put(std::set<JobId>& set, JobId id, bool is_in) {
  if (is_in) {
    set.insert(id);
  } else {
    set.erase(id);
  }
}

}  // namespace

JobId JobTable::job_of(const std::string& name) {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  JobId fresh;
  if (free_.empty()) {
    fresh = static_cast<JobId>(all_.size());
    all_.emplace_back();
  } else {
    fresh = free_.back();
    free_.pop_back();
  }
  job(fresh).spec.id = name;
  ids_.emplace(name, fresh);
  return fresh;
}

JobId JobTable::find(const std::string& name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? kNoId : found->second;
}

void JobTable::forget(JobId id) {
  ids_.erase(job(id).spec.id);
  job(id) = Job{};
  note_pods(id);
  note_anti_affinity(id, false);
  end_sidelining(id);
  free_.push_back(id);
}

void JobTable::note_pods(JobId id) {
  put(displaced_, id, !job(id).displaced.empty());
  put(nominated_, id, !job(id).nominated_pods.empty());
}

void JobTable::note_anti_affinity(JobId id, bool has_it) {
  put(with_anti_affinity_, id, has_it);
}

}  // namespace muster::placement
