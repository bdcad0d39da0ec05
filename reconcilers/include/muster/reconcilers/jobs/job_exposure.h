// Keeps the Service of spec.expose as long as the job lives: over restarts and suspensions, until the list is
// empty. When the job is gone, it goes by its owner reference. And, until the job has ended, what leads from
// the Project's gateway to the Service.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/jobs/effective_job.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"
#include "muster/reconcilers/sessions/job_routes.h"

namespace muster::reconcilers {

class JobExposure {
 public:
  explicit JobExposure(ReconcilerContext& context) : context_(context), routes_(context) {}

  // The Service is there as the spec has it, or gone where the spec has none; or what stands in the way.
  // nullopt: that is not known now, or nobody asks (the job has ended, and nothing leads there from outside).
  // It writes before the status says so:
  // who comes next finds the Service, and it is this job's.
  client::Task<std::optional<Exposure>> keep(JobPtr job);
  // When to call again whatever happens: somebody may have removed it, or what is in the way.
  std::optional<client::Duration> again(const JobPtr& job) const;
  void forget(const client::Key& key) { kept_.erase(key); }

 private:
  struct Kept {
    std::string content;
    client::TimePoint at;
    std::optional<Exposure> said;
  };
  client::Task<std::optional<Exposure>> keep_service(JobPtr job, crds::Json wanted);
  client::Task<std::optional<Exposure>> remove(JobPtr job);

  ReconcilerContext& context_;
  JobRoutes routes_;
  std::map<client::Key, Kept> kept_;
};

}  // namespace muster::reconcilers
