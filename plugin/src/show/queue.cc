#include "show/queue.h"

#include <algorithm>
#include <tuple>

#include "muster/ui/wanted_gpus.h"
#include "output/text.h"

namespace muster::plugin {
namespace {

std::string priority_of(const crds::TrainingJob& job) {
  return job.spec.priority_class_name.empty() ? job.status.effective.priority_class_name
                                              : job.spec.priority_class_name;
}

auto order_of(const crds::TrainingJob& job) {
  const auto& m = job.metadata;
  const std::int32_t position = job.status.queue.position;
  return std::tuple(position == 0, pool_of(job), position, m.ns, m.name);
}

Row row_of(const crds::TrainingJob& job, crds::Time now) {
  const auto& m = job.metadata;
  const auto& w = job.status.queue;
  Cell eta, age;
  if (w.estimated_start) {
    const auto in = *w.estimated_start - now;
    eta = {in.count() <= 0 ? "now" : for_people(in), crds::to_string(*w.estimated_start)};
  }
  if (m.creation_timestamp)
    age = {for_people(now - *m.creation_timestamp), crds::to_string(*m.creation_timestamp)};
  return {{cell(pool_of(job)), positive(w.position), positive(w.project_position), cell(m.ns), cell(m.name),
           cell(w.reason), eta,
           cell(w.estimated_start_from ? std::string(crds::to_string(*w.estimated_start_from)) : ""), age,
           cell(priority_of(job)), cell(crds::to_string(ui::wanted_gpus(job))), cell(w.message)}};
}

}  // namespace

std::string pool_of(const crds::TrainingJob& job) {
  if (!job.spec.pools.empty()) return job.spec.pools.front();
  if (!job.status.effective.pools.empty()) return job.status.effective.pools.front();
  return "(default)";
}

Listing queue(const std::vector<crds::TrainingJob>& jobs, crds::Time now) {
  std::vector<const crds::TrainingJob*> waiting;
  for (const auto& job : jobs) {
    // The indexes of an array stand in the order, and it does not.
    if (job.status.phase == crds::Phase::kQueued && !job.spec.array) waiting.push_back(&job);
  }
  std::ranges::sort(waiting, {}, [](const auto* job) { return order_of(*job); });
  Listing listing;
  listing.columns = {{"POOL", "pool"},
                     {"POSITION", "position"},
                     {"IN PROJECT", "projectPosition"},
                     {"NAMESPACE", "namespace"},
                     {"NAME", "name"},
                     {"REASON", "reason"},
                     {"ETA", "estimatedStart"},
                     {"ETA FROM", "estimatedStartFrom", Shown::kWideAndData},
                     {"AGE", "submitted"},
                     {"PRIORITY", "priorityClassName", Shown::kWideAndData},
                     {"GPUS", "gpus", Shown::kWideAndData},
                     {"MESSAGE", "message", Shown::kWideAndData}};
  for (const auto* job : waiting) listing.rows.push_back(row_of(*job, now));
  return listing;
}

}  // namespace muster::plugin
