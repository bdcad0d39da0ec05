// Keeps what leads from a Project's gateway to the ports of its jobs, until these have ended.
#pragma once

#include <optional>
#include <string>

#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {

// Routes were made, as far as the status knows.
bool was_published(const crds::TrainingJob& job);

class JobRoutes {
 public:
  using JobPtr = client::Ptr<Object<crds::TrainingJob>>;

  explicit JobRoutes(ReconcilerContext& context) : context_(context) {}

  // The gateway that is to lead to the job; nullopt: its Project names none, it exposes nothing, or it has
  // ended.
  std::optional<crds::ProjectGateway> gateway_of(const crds::TrainingJob& job) const;
  // Each port has its route and no other is there, or what stands in the way. nullopt: that is not known now.
  // It writes before the status says so: who comes next finds the route, and it is this job's.
  client::Task<std::optional<Publication>> keep(JobPtr job, std::optional<crds::ProjectGateway> gateway);

 private:
  // Routes that the status may have spoken of, and that nobody wants any more. False: try again.
  client::Task<bool> remove_unwanted(JobPtr job, std::optional<crds::ProjectGateway> gateway);

  ReconcilerContext& context_;
};

}  // namespace muster::reconcilers
